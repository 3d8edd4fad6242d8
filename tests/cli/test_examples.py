"""Every `--help` ends with examples, and what they show can be typed."""

from __future__ import annotations

import importlib
import re
import shlex
import sys

import pytest

import rltui.cli.main as entry
import trainer.__main__ as trainer_entry
from rltui.cli.config import VERBS as OF_CONFIGS
from rltui.cli.taskapp import VERBS as OF_APPS
from tests.docs.test_code import parser_of, words_of

GROUPS = {"config": OF_CONFIGS, "taskapp": OF_APPS}
PATHS = [
    (),
    *((verb,) for verb in entry.VERBS),
    *((group, verb) for group, verbs in GROUPS.items() for verb in verbs),
]


def examples(text: str) -> list[str]:
    block = re.search(r"^examples:\n((?:  .+\n?)+)", text, re.MULTILINE)
    assert block, text
    lines = [line.strip().partition("   ")[0] for line in block[1].splitlines()]  # a remark may follow
    return [line for line in lines if re.match(r"(watch -n 5 )?rltui(?![.\w])|python -m trainer ", line)]


def test_every_group_of_verbs_is_looked_at():
    groups = {verb for verb, (module, _) in entry.VERBS.items() if hasattr(importlib.import_module(module), "VERBS")}
    assert groups == set(GROUPS)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_a_verb_has_examples_that_parse(path, capsys):
    assert entry.main([*path, "--help"]) == 0
    shown = examples(capsys.readouterr().out)
    assert shown
    for line in shown:
        assert " ".join(("rltui", *path)) in line
        parser, rest = parser_of(words_of(line))
        parser.parse_intermixed_args(rest)


def test_so_has_the_interface_itself(capsys):
    assert entry.main(["--ascii", "--help"]) == 0
    for line in examples(capsys.readouterr().out):
        parser, rest = parser_of(words_of(line))
        parser.parse_args(rest)


@pytest.mark.parametrize("verb", ["", *trainer_entry.EXAMPLES])
def test_so_has_the_trainer(verb, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["trainer", *([verb] if verb else []), "--help"])
    with pytest.raises(SystemExit):
        trainer_entry._main()
    shown = examples(capsys.readouterr().out)
    assert len(shown) == (1 if verb else len(trainer_entry.EXAMPLES))
    called = []
    monkeypatch.setattr("trainer.run.main", called.append)
    monkeypatch.setattr("trainer.serve_policy.main", called.append)
    monkeypatch.setattr("trainer.export.main", called.append)
    monkeypatch.setattr("trainer.canary.main", called.append)
    for line in shown:
        monkeypatch.setattr(sys, "argv", shlex.split(line.removeprefix("python -m ")))
        trainer_entry._main()
    assert len(called) == len(shown)
