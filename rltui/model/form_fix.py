"""The edit that a problem's `fix` speaks of, and single old spellings put right."""

from __future__ import annotations

import re
import shlex
import tomllib

from rltui.cli.config.change import edited, target, typed
from rltui.cli.config.spellings import Document
from rltui.cli.output import CliError
from trainer.config import ConfigError, Problem
from trainer.config.draft import Draft, EditError
from trainer.config.edit import BOM, MISSING, UNSET, Raw, edit, lookup
from trainer.config.fitting import OR
from trainer.config.keys import all_keys, all_sections
from trainer.config.migrate import by_given_key, move_of
from trainer.config.positions import Positions
from trainer.config.relocate import relocate
from trainer.config.sources import from_file
from trainer.config.toml_values import split_key

_SET = re.compile(r"--set (?:'([^'=]+)=([^']*)'|([^\s=]+)=(\S+))")


def in_words(problem: Problem) -> str:
    """A problem's `fix` as somebody who edits the file takes it: without options of commands."""
    ways = [way for way in (problem.fix or "").split(OR) if not way.startswith("--allow-unknown")]
    told = [_SET.sub(lambda found: f"{found[1] or found[3]} = {found[2] or found[4]}", way) for way in ways]
    if problem.code == "unknown_key" and not told[0].startswith("delete "):
        told[0] = f"rename it to {told[0]}"
    return " or ".join(told)


def fixed(text: str, name: str, problem: Problem) -> str | None:
    """The text after the smallest edit that mends `problem`; None: there is none that could be made by itself."""
    try:
        new = _fixed(text, name, problem)
    except (CliError, ConfigError, EditError, ValueError):
        return None
    return new if new != text else None


def _fixed(text: str, name: str, problem: Problem) -> str | None:
    fix = (problem.fix or "").split(OR)[0].strip()
    if problem.line is None and not fix.startswith("--set "):
        return None  # another source gave it
    if problem.code == "migrated":
        return migrated(text, name, problem.key)
    if problem.code in ("migration_conflict", "beaten") or fix.startswith("delete "):
        return _without(text, problem.key) if fix.startswith("delete ") else None
    if fix.startswith("--set "):
        (pair,) = shlex.split(fix.removeprefix("--set "))
        key, _, value = pair.partition("=")
        return _changed(text, name, {key: value})
    if problem.code == "unknown_key":
        return _renamed(text, problem.key, fix.strip("[]"))
    return _assigned(text, name, problem, fix)


def _without(text: str, key: str) -> str:
    return edit(text, {key: UNSET})


def _changed(text: str, name: str, values: dict[str, str]) -> str:
    document = Document(text, name)
    return edited(text, [item for key, value in values.items() for item in target(document, key, typed(key, value))])


def _assigned(text: str, name: str, problem: Problem, fix: str) -> str | None:
    """`name = value`, or several of them with "and" between; each name is one of the problem's section."""
    section = problem.key.rpartition(".")[0]
    values: dict[str, str] = {}
    for part in fix.split(" and "):
        part = part.partition(";")[0].strip()
        parsed = tomllib.loads(part)
        if len(parsed) != 1:
            return None
        key = part.partition("=")[0].strip()
        if "." not in key and section:
            key = f"{section}.{key}"
        values[key] = part.partition("=")[2].strip()
    if list(values) == [problem.key]:  # under the name that it has in the file
        return edit(text, {problem.key: Raw(values[problem.key])})
    return _changed(text, name, values)


def _renamed(text: str, old: str, new: str) -> str | None:
    """A key or a section under another name, with its comments."""
    if new not in all_keys() and new not in all_sections() and not new.startswith(("tags.", "vllm.")):
        return None
    return _moved(text, old, new)


def _moved(text: str, old: str, new: str) -> str | None:
    bom = BOM if text.startswith(BOM) else ""
    draft = Draft(text.removeprefix(BOM))
    if lookup(draft.data, split_key(old)) is MISSING:
        return None
    relocate(draft, {split_key(old): split_key(new)}, ())
    return bom + draft.text


def migrated(text: str, name: str, old: str) -> str | None:
    """The text with one old key under its name of today."""
    move = move_of(old)
    body = text.removeprefix(BOM)
    data = Draft(body).data
    value = lookup(data, split_key(old))
    if move is None or value is MISSING:
        return None
    given = from_file(data, Positions(body), name)
    values = move.values(value, by_given_key(given))
    there = {item.key for item in given}
    if move.convert is None and move.new not in there:
        return _moved(text, old, move.new)
    new = {key: item for key, item in values.items() if key not in there}
    return edit(text, {old: UNSET, **new})
