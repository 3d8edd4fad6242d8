"""Code on the pages is code: commands parse by the real parsers, blocks run or parse."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from rltui.cli.main import APP, VERBS
from tests.docs.pages import ROOT, WRITTEN, Block, blocks, commands, inline, name
from trainer.config.keys import all_keys

OURS = [(page, line) for page, line in commands() if re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?rltui(?:\s|$)", line)]
PYTHON = list(blocks("python"))
TOML = list(blocks("toml"))


def parser_of(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the verb that `words` begin with, and what is left for it. KeyError: there is no such verb."""
    verbs: dict[str, tuple[str, str]] = VERBS
    path = APP[0]
    while words and not words[0].startswith("-"):
        path, _ = verbs[words[0]]
        words = words[1:]
        verbs = getattr(importlib.import_module(path), "VERBS", {})
        if not verbs:
            break
    module = importlib.import_module(path)
    parser = argparse.ArgumentParser(prog=path, allow_abbrev=False)
    if hasattr(module, "configure"):
        module.configure(parser)
    return parser, words


def words_of(line: str) -> list[str]:
    words = shlex.split(re.split(r"\s[|>]\s", line)[0], comments=True)
    return words[next(i for i, word in enumerate(words) if word.endswith("rltui")) + 1 :]


@pytest.mark.parametrize(("page", "line"), OURS, ids=[f"{page}: {line[:40]}" for page, line in OURS])
def test_a_command_parses(page: str, line: str) -> None:
    words = words_of(line)
    if words == ["--help"]:
        return
    parser, rest = parser_of(words)
    parser.parse_intermixed_args(rest)  # SystemExit: pytest shows what argparse said


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_verbs_and_options_in_a_sentence_exist(page: Any) -> None:
    for code in inline(page):
        if not code.startswith("rltui ") or "VERB" in code or "|" in code:
            continue
        parser, rest = parser_of(words_of(code.replace("'", "")))
        options = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert options <= {*parser._option_string_actions, "--help"}, f"{name(page)}: {code}"


def test_scripts_that_are_shown_have_these_options() -> None:
    shown = [shlex.split(line, comments=True) for _, line in commands() if line.startswith("python tests/")]
    assert shown
    for _, script, *rest in shown:
        source = (ROOT / script).read_text(encoding="utf-8")
        assert all(f'"{word}"' in source for word in rest if word.startswith("--")), script


@pytest.mark.parametrize("block", PYTHON, ids=[f"{block.page} {block.mark}" for block in PYTHON])
def test_python_is_python(block: Block) -> None:
    compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


RUN = [block for block in PYTHON if block.mark == "run"]


@pytest.mark.parametrize("block", RUN, ids=[block.page for block in RUN])
def test_what_is_marked_runs_and_gives_what_its_comments_say(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment behind an expression that begins with a literal is its value, to the figures that it has."""
    monkeypatch.chdir(ROOT)
    space: dict[str, Any] = {}
    lines = block.text.splitlines()
    for statement in ast.parse(block.text).body:
        source = ast.unparse(statement)
        if not isinstance(statement, ast.Expr):
            exec(source, space)
            continue
        value, said = eval(source, space), lines[statement.lineno - 1].rpartition("# ")[2].partition(":")[0]
        if said.startswith("below "):
            assert value < float(said.removeprefix("below "))
        elif re.fullmatch(r'[\d.]+|"[^"]*"', said):
            literal = ast.literal_eval(said)
            assert value == (pytest.approx(literal, rel=0.03) if isinstance(literal, float) else literal), source
    assert len(RUN) == 2


def leaves(table: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in table.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, dict) and here not in all_keys():
            yield from leaves(value, here)
        else:
            yield here


@pytest.mark.parametrize("block", TOML, ids=[block.page for block in TOML])
def test_toml_parses_and_its_keys_are_the_configs(block: Block) -> None:
    table = tomllib.loads(block.text)
    sections = {key.partition(".")[0] for key in all_keys()}
    if set(table) <= sections:
        assert set(leaves(table)) <= set(all_keys())
    else:
        assert block.mark == "", block


def test_json_parses() -> None:
    found = [json.loads(block.text) for block in blocks("json")]
    assert found


def test_every_block_has_a_language_that_is_looked_at() -> None:
    assert {block.language for block in blocks()} <= {"", "sh", "text", "python", "toml", "json"}
