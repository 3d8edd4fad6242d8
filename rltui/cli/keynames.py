"""What a key's name, as a person typed it, means: a key, a section, an old spelling, or one without effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rltui.cli.output import CliError
from rltui.text import clean
from trainer.config.keys import OPEN_SECTIONS, all_keys, all_sections
from trainer.config.migrate import move_of, no_effect
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES
from trainer.config.sources import LOADER_KEYS
from trainer.config.suggest import nearest_key, nearest_section
from trainer.config.toml_values import format_key, split_key

Kind = Literal["key", "inner", "section", "old", "old_section", "no_effect", "loader"]


@dataclass(frozen=True, slots=True)
class Name:
    """One thing that a name can mean.

    Attributes:
        kind: "inner" is a key of a free table, or a section's key that is not ours and passed on; "loader" is
            a key for the loader itself, no value of a run.
        path: its full name.
        now: the path of today: the new key of an old one, the table of an inner one; else `path`.
    """

    kind: Kind
    path: str
    now: str


def normal(text: str) -> str:
    """A dotted key with quotes only where TOML needs them. CliError: it is no TOML key."""
    try:
        return ".".join(format_key(part) for part in split_key(text.strip()))
    except ValueError:
        raise CliError(f"{clean(text)!a} is no key; keys look like training.group_size") from None


def meanings(text: str) -> list[Name]:
    """What `text` can mean: the exact path, else every key and section of that last name. Empty: nothing."""
    path = normal(text)
    if exact := _exact(path):
        return [exact]
    return [] if "." in path else likely(namesakes(path))


def namesakes(path: str) -> list[Name]:
    """Every other key and section whose last part is `path`; old ones where there are none of today."""
    named = [key for key in all_keys() if key.rpartition(".")[2] == path]
    sections = [section for section in all_sections() if section.rpartition(".")[2] == path]
    olds = [] if named or sections else [old for old in (*_old_keys(), *NO_EFFECT) if old.rpartition(".")[2] == path]
    return [name for item in dict.fromkeys([*named, *sections, *olds]) if item != path and (name := _exact(item))]


def likely(names: list[Name]) -> list[Name]:
    """The same names, the one that is meant most often first: keys that do something, not those of [smoke]."""
    keys = all_keys()

    def rank(name: Name) -> tuple[bool, bool]:
        without_effect = name.path in keys and keys[name.path].help.startswith("No effect")
        return without_effect, name.path.startswith("smoke.")

    return sorted(names, key=rank)


def called(text: str) -> list[Name]:
    """The keys that other systems call so."""
    name = "_".join(_words(text))
    return likely([Name("key", path, path) for path, known in all_keys().items() if name in known.synonyms])


def spoken_of(text: str) -> list[str]:
    """The keys with these words in their name; after them those with them in their help."""
    words = _words(text)
    if not words or len(words[0]) < 3:
        return []
    pattern = re.compile(rf"(?<![a-z0-9]){'[ _-]'.join(words)}", re.IGNORECASE)
    named = [path for path in all_keys() if pattern.search(path.rpartition(".")[2])]
    helped = [path for path, known in all_keys().items() if pattern.search(known.help)]
    return list(dict.fromkeys([*named, *helped]))


def _words(text: str) -> list[str]:
    """The words of `learning_rate`, `learning-rate` or `learning rate`; none of what is more than words."""
    return re.split("[ _-]", text.lower()) if re.fullmatch(r"\w+([ -]\w+)*", text, re.ASCII) else []


def chosen(text: str) -> Name:
    """The one thing that `text` means. CliError: nothing, with the nearest name, or several, with all of them."""
    found = meanings(text)
    if len(found) == 1:
        return found[0]
    if found:
        listed = "\n".join(f"  {name.path}" for name in found)
        raise CliError(
            f"{text} is the last part of {len(found)} names; give one of\n{listed}",
            details={"candidates": [name.path for name in found]},
        )
    raise unknown(text)


def unknown(text: str, *, words: bool = False) -> CliError:
    """That nothing is called so, with the nearest name; words: or the nearest part of one."""
    near = nearest(normal(text)) or (_nearest_word(normal(text)) if words else None)
    hint = f"did you mean {near}?" if near else "`rltui explain` lists the sections"
    return CliError(f"no key or section {clean(text)!a}; {hint}", details={"nearest": near})


def nearest(path: str) -> str | None:
    """The known name that was probably meant."""
    section = path.partition(".")[0]
    near = nearest_key(path)
    if near is None and "." in path and (top := nearest_section(section)) is not None:
        near = nearest_key(f"{top}.{path.partition('.')[2]}")
    if near is None:
        near = nearest_section(path)
    if near is None and "." not in path:  # whole paths are alike through their section alone
        known = [*all_sections(), *old_sections(), *all_keys()]
        near = next(iter(difflib.get_close_matches(path, known, n=1, cutoff=0.75)), None)
    return near


def _nearest_word(text: str) -> str | None:
    known = {word for path in all_keys() for word in re.split(r"[._]", path)}
    return next(iter(difflib.get_close_matches(text, sorted(known), n=1, cutoff=0.75)), None)


def old_spellings(key: str) -> list[str]:
    """The old keys whose value lives on under `key`, as far as their name alone decides it."""
    whole = [
        f"{old}{key.removeprefix(new)}" for old, new in SECTION_MOVES.items() if key == new or key.startswith(f"{new}.")
    ]
    return [*(old for old in _old_keys() if (move := move_of(old)) and move.new == key), *whole]


def old_sections() -> tuple[str, ...]:
    """Sections of old keys only, today's left out."""
    names = [*(old for old in (*_old_keys(), *NO_EFFECT) if "." in old)]
    tops = dict.fromkeys([*(name.partition(".")[0] for name in names), *SECTION_MOVES])
    return tuple(top for top in tops if top not in all_sections())


def moved_in(section: str) -> Iterator[tuple[str, str]]:
    """(old key, new key) of what once stood in `section`."""
    for old in _old_keys():
        if old.startswith(f"{section}.") and (move := move_of(old)) is not None:
            yield old, move.new


def without_effect_in(section: str) -> list[str]:
    return [key for key in NO_EFFECT if key.startswith(f"{section}.")]


def _old_keys() -> tuple[str, ...]:
    return tuple(dict.fromkeys(move.old for move in MOVES))


def _exact(path: str) -> Name | None:
    if path in all_keys() and path not in OPEN_SECTIONS:
        return Name("key", path, path)
    if path in all_sections():
        return Name("section", path, path)
    if path in LOADER_KEYS:
        return Name("loader", path, path)
    if no_effect(path) is not None:
        return Name("no_effect", path, path)
    if (move := move_of(path)) is not None and (move.old in _old_keys() or move.new in all_keys()):
        return Name("old", path, move.new)
    if path in old_sections():
        return Name("old_section", path, SECTION_MOVES.get(path, path))
    return _inner(path)


def _inner(path: str) -> Name | None:
    """A key below a free table, or one that its section passes on."""
    parts = split_key(path)
    for count in range(len(parts) - 1, 0, -1):
        above = ".".join(format_key(part) for part in parts[:count])
        if above in OPEN_SECTIONS:
            return Name("inner", path, above)
        if (known := all_keys().get(above)) is not None:
            return Name("inner", path, above) if known.is_table else None
    return None
