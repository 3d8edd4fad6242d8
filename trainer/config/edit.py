"""Edits of a TOML text that leave every byte alone that was not meant.

`edit` compares what is wanted with what is there; a `Draft` does the steps. The result is parsed again and must hold
exactly the wanted data, else nothing is returned.
"""

from __future__ import annotations

import copy
import datetime
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.config.draft import Draft, EditError, reason
from trainer.config.draft_lists import append_items, remove_items, replace_items, replace_list
from trainer.config.positions import Path, Positions
from trainer.config.toml_values import format_key, format_value, same, split_key

BOM = "\ufeff"
_INTEGERS = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Raw:
    """A TOML value exactly as it was typed, so that its spelling is kept: `Raw("5e-5")`."""

    text: str


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()
MISSING = object()


def edit(text: str, changes: Mapping[str, Any]) -> str:
    """The text with some keys set or removed.

    A value that equals the one in the text, type included, is left as it is spelt. A table is compared key by
    key, a list item by item. A new key goes below the last one of its section; a new section below its parent,
    or to the end. Removing a key removes its line and the comment on it; comments above it stay.

    Args:
        text: a TOML document.
        changes: a Python value, `Raw` or `UNSET` (remove) by dotted key (TOML syntax, `tags."a.b"`).

    Raises:
        EditError: the text is no TOML, a key or value is none, or the edit cannot be made as meant.
    """
    bom = BOM if text.startswith(BOM) else ""
    draft = Draft(text.removeprefix(BOM))
    try:
        meant = copy.deepcopy(draft.data)
        removed: list[Path] = []
        for key, change in changes.items():
            path = _parse_key(key)
            if change is UNSET:
                _check_way(draft.data, path, key)
                _delete(meant, path)
                removed.append(path)
                if lookup(draft.data, path) is not MISSING:
                    draft.remove(path)
            else:
                wanted = _Wanted.of(change, key)
                _check_way(draft.data, path, key)
                _assign(meant, path, copy.deepcopy(wanted.value))
                _set(draft, path, wanted)
        if not _as_meant(draft.data, meant, removed):
            raise EditError(f"cannot set {', '.join(changes)} in this file without changing more; edit it by hand")
    except RecursionError:
        raise EditError("nested too deeply") from None
    return bom + draft.text


def lookup(data: Any, path: Path) -> Any:
    """The value at a path, or MISSING."""
    for part in path:
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return MISSING
    return data


# --- what is wanted


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A value and, where it was typed, the spelling of its parts by path."""

    value: Any
    spelling: Mapping[Path, str]
    at: Path = ()

    @classmethod
    def of(cls, change: Any, key: str) -> _Wanted:
        if not isinstance(change, Raw):
            return cls(_plain(change, key), {})
        text = change.text.strip(" \t\r\n")
        document = f"x = {text}"
        try:
            data = tomllib.loads(document)
        except (ValueError, RecursionError) as error:  # a ValueError, too, of an integer of thousands of digits
            raise EditError(f"{key} = {text}: not a TOML value: {reason(error)}") from None
        positions = Positions(document)
        mark = positions.marks[("x",)]
        if len(data) > 1 or mark.value_end != len(document):
            raise EditError(f"{key} = {text}: not one TOML value; leave out what follows the value")
        marks = positions.marks.items()
        spelling = {path[1:]: document[m.value : m.value_end] for path, m in marks if m.value is not None}
        return cls(_plain(data["x"], key), spelling)

    def part(self, name: str | int) -> _Wanted:
        return _Wanted(self.value[name], self.spelling, (*self.at, name))

    @property
    def is_line(self) -> bool:
        """Whether it was typed, on one line."""
        return "\n" not in self.spelling.get(self.at, "\n")

    @property
    def text(self) -> str:
        return self.spelling.get(self.at) or format_value(self.value)


def _plain(value: Any, key: str) -> Any:
    """The value as tomllib would give it."""
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise EditError(f"{key}: the names in a table must be text")
        return {str(name): _plain(item, key) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, key) for item in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise EditError(f"{key}: the integer does not fit in 64 bits, so TOML cannot hold it")
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise EditError(f"{key}: the text holds half a character (a lone surrogate), so TOML cannot hold it")
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value
    what = "none: use UNSET to remove a key" if value is None else f"{type(value).__name__}, which TOML has not"
    raise EditError(f"{key}: the value is {what}")


def _parse_key(key: str) -> tuple[str, ...]:
    try:
        return split_key(key)
    except (ValueError, RecursionError):
        raise EditError(f'{key!r} is not a TOML key; write section.key, or section."odd key"') from None


def _check_way(data: Any, path: Path, key: str) -> None:
    """Every table on the way to a key must be one, or not be there."""
    for count in range(1, len(path)):
        node = lookup(data, path[:count])
        if node is MISSING:
            return
        if not isinstance(node, dict):
            what = "a list; set it as a whole" if isinstance(node, list) else f"{format_value(node)}, not a table"
            raise EditError(f"{key}: {'.'.join(format_key(str(part)) for part in path[:count])} is {what}")


def _assign(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        data = data.setdefault(part, {})
    data[path[-1]] = value


def _delete(data: Any, path: Path) -> None:
    parent = lookup(data, path[:-1])
    if isinstance(parent, dict):
        parent.pop(path[-1], None)


def _as_meant(data: dict[str, Any], meant: dict[str, Any], removed: Sequence[Path]) -> bool:
    """Same data, but that a table may or may not outlive the last key that was removed from it."""
    if removed:
        data = copy.deepcopy(data)  # `meant` is the caller's to spend
    for path in removed:
        for count in range(len(path) - 1, 0, -1):
            for root in (data, meant):
                if lookup(root, path[:count]) == {}:
                    _delete(root, path[:count])
    return same(data, meant)


# --- from the difference to steps


def _set(draft: Draft, path: Path, wanted: _Wanted) -> None:
    old, new = lookup(draft.data, path), wanted.value
    if same(old, new):
        return
    if old is MISSING:
        if isinstance(new, dict) and new and len(path) == 1:
            for name in new:
                _set(draft, (*path, name), wanted.part(name))
        else:
            draft.add(path, wanted.text)
    elif isinstance(old, dict) and isinstance(new, dict):
        _set_table(draft, path, old, wanted)
    elif isinstance(old, list) and isinstance(new, list):
        _set_list(draft, path, old, wanted)
    elif draft.has_value(path):
        draft.replace(path, _in_the_style_of(draft.value_text(path), wanted, draft.newline))
    else:
        draft.remove(path)
        draft.add(path, wanted.text)


def _set_table(draft: Draft, path: Path, old: dict[str, Any], wanted: _Wanted) -> None:
    gone = [name for name in old if name not in wanted.value]
    more = [name for name in wanted.value if name not in old]
    if len(gone) == len(more) == 1 and same(old[gone[0]], wanted.value[more[0]]) and draft.has_value((*path, gone[0])):
        draft.rename((*path, gone[0]), more[0])  # only its name changed, so it keeps its place and spelling
        gone = []
    for name in wanted.value:
        _set(draft, (*path, name), wanted.part(name))
    for name in gone:
        draft.remove((*path, name))
    if not wanted.value and lookup(draft.data, path) is MISSING:  # it was no more than its keys
        draft.add(path, "{}")


def _set_list(draft: Draft, path: Path, old: list[Any], wanted: _Wanted) -> None:
    new = wanted.value
    if not draft.has_value(path):  # [[headers]]
        if not new or not all(isinstance(item, dict) for item in new):
            draft.remove(path)
            draft.add(path, wanted.text)
            return
        for index in range(len(old) - 1, len(new) - 1, -1):
            draft.remove((*path, index))
        for index in range(len(new)):
            if index >= len(old):
                draft.add_element(path)
            _set(draft, (*path, index), wanted.part(index))
    elif len(old) == len(new):
        for index in range(len(new)):
            _set(draft, (*path, index), wanted.part(index))
    elif old and same(old, new[: len(old)]):
        append_items(draft, path, [wanted.part(index).text for index in range(len(old), len(new))])
    elif new and (left_out := _left_out(old, new)) is not None and draft.is_multi_line(path):
        remove_items(draft, path, left_out)
    elif wanted.is_line and not any(same(one, other) for one in old for other in new):
        replace_list(draft, path, wanted.text)  # a wholly new list, as it was typed
    else:
        spelt = [(item, draft.value_text((*path, index))) for index, item in enumerate(old)]
        texts = []
        for index, item in enumerate(new):
            kept = next((text for value, text in spelt if same(value, item)), None)
            texts.append(wanted.part(index).text if kept is None else kept)
        replace_items(draft, path, texts)


def _left_out(old: list[Any], new: list[Any]) -> list[int] | None:
    """Indexes to take out of the old list to get the new one; None if that does not do."""
    left_out, rest = [], list(new)
    for index, item in enumerate(old):
        if rest and same(item, rest[0]):
            rest.pop(0)
        else:
            left_out.append(index)
    return None if rest else left_out


def _in_the_style_of(old: str, wanted: _Wanted, newline: str) -> str:
    """A text of several lines stays one."""
    value = wanted.value
    if wanted.at in wanted.spelling or not old.startswith(('"""', "'''")):
        return wanted.text
    if not isinstance(value, str) or "\n" not in value:
        return wanted.text
    lines = (format_value(line)[1:-1] for line in value.split("\n"))
    return f'"""{newline}{newline.join(lines)}"""'
