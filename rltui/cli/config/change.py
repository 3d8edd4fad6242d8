"""What a change of a config does to it, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rltui.cli.config.spellings import Document, Written
from rltui.cli.keynames import normal
from rltui.cli.output import CliError
from rltui.text import clean
from trainer.config import ConfigError, Problem, load_text
from trainer.config.draft import EditError
from trainer.config.edit import UNSET, Raw, edit
from trainer.config.migrate import move_of, name_now
from trainer.config.toml_values import parse_value


@dataclass(frozen=True)
class Target:
    """One asked change.

    Attributes:
        asked: the key as it was asked for.
        key: the name under which it is written.
        new: a Python value, `Raw`, or `UNSET`.
        was: what stood there.
    """

    asked: str
    key: str
    new: Any
    was: Written | None


def typed(key: str, text: str) -> Any:
    """A value from the command line as what `edit` takes: TOML as it was typed, a bare word as a string.

    CliError, without the value: it may be a secret.
    """
    try:
        value = parse_value(text)
    except ValueError as error:
        raise CliError(f"the value of {clean(key)}: {error}") from None
    is_toml = not isinstance(value, str) or text.strip()[:1] in ("'", '"')
    return Raw(text.strip()) if is_toml else value


def target(document: Document, asked: str, new: Any) -> list[Target]:
    """Where a change is written: under the file's own spelling of the key, else under the key's name of today.

    Several only where a key that is unset stands under several names. CliError: an old spelling whose value
    means something else today.
    """
    asked = normal(asked)
    move = move_of(asked)
    held = document.written(asked)
    if held is not None and move is not None:
        return [Target(asked, asked, new, held)]
    if move is not None and move.convert is not None:
        raise CliError(f"{asked} is an old spelling and its values mean something else today: set {move.new} instead")
    key = asked if move is None else move.new
    found = document.spellings(key)
    if new is UNSET:
        return [Target(asked, written.key, new, written) for written in found if _same_meaning(written.key, key)]
    for written in found:
        if _same_meaning(written.key, key):
            return [Target(asked, written.key, new, written)]
    return [Target(asked, key, new, None)]


def _same_meaning(written: str, key: str) -> bool:
    """Whether a value under the name `written` is the value of `key` as it stands."""
    move = move_of(written)
    return written == key or (move is not None and move.convert is None and move.conflict == "error")


def edited(text: str, targets: Sequence[Target]) -> str:
    """The text with the changes in it. CliError: they cannot be made."""
    try:
        return edit(text, {item.key: item.new for item in targets})
    except EditError as error:
        why = str(error)
        for item in targets:
            if isinstance(item.new, Raw):  # it may be a secret
                why = why.replace(f" = {item.new.text}", "")
        raise CliError(f"{why}; nothing was written") from error


@dataclass(frozen=True)
class Effect:
    """What a change does to the problems of a config.

    Attributes:
        broken: errors that the old text did not have.
        left: errors that it had before.
        warnings: warnings and notes about the changed keys; empty where errors stand.
    """

    broken: list[Problem]
    left: list[Problem]
    warnings: list[Problem]


def effect(before: str, after: str, name: str, changed: Iterable[str]) -> Effect:
    """Compares a config's problems before and after a change of the keys `changed`.

    An error about a changed key counts as new even where the key was wrong before.
    """
    keys = {key for changed_key in changed for key in (changed_key, name_now(changed_key))}
    try:
        loaded = load_text(after.removeprefix("\ufeff"), name)
    except ConfigError as error:
        old = {sign for problem in _errors(before, name) for sign in _signs(problem)}
        broken = [item for item in error.problems if item.key in keys or not _signs(item) <= old]
        return Effect(broken, [item for item in error.problems if item not in broken], [])
    return Effect([], [], [item for item in loaded.warnings if item.key in keys and item.code != "migrated"])


def _errors(text: str, name: str) -> list[Problem]:
    try:
        load_text(text.removeprefix("\ufeff"), name)
    except ConfigError as error:
        return error.problems
    return []


def _signs(problem: Problem) -> set[tuple[str, str]]:
    """What makes an error the same after an edit; the one about missing keys is one for each of them."""
    if problem.code != "missing":
        return {(problem.code, problem.key)}
    _, _, names = problem.why.partition(": ")
    return {("missing", name.strip()) for name in names.split(",")}
