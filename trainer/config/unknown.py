"""Keys that nobody knows: what is said of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from trainer.config.engine_options import why_refused
from trainer.config.errors import Level, Problem
from trainer.config.keys import OPEN_SECTIONS, all_keys, all_sections
from trainer.config.migrate import Entry, name_now
from trainer.config.suggest import (
    known_sections,
    nearest_key,
    nearest_keys,
    nearest_section,
    of_that_name,
    top_sections,
)
from trainer.config.toml_values import join_key, split_key

MOST_LOOKED_UP = 50  # unknown keys and sections for which one that was meant is looked for; it takes milliseconds


@dataclass
class Unknown:
    """What was found.

    Attributes:
        keys: the unknown keys.
        meant: the known keys that were probably meant by them.
    """

    problems: list[Problem] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    meant: set[str] = field(default_factory=set)


def find_unknown(entries: Mapping[str, Entry], *, allow: bool) -> Unknown:
    """A misspelt section is one problem, however many keys it holds. `allow`: they are warnings."""
    found = Unknown()
    level: Level = "warning" if allow else "error"
    strangers: dict[str, list[Entry]] = {}  # by the section that nobody knows; "": by themselves
    for key, entry in entries.items():
        *tables, _ = parts = split_key(key)
        if key in all_keys() or key in all_sections():
            continue
        if join_key(tables) in OPEN_SECTIONS:
            found.problems += _engine_option(entry)
            continue
        found.keys.add(key)
        strangers.setdefault(_misspelt_section(parts), []).append(entry)
    looked_up = 0
    for section, members in strangers.items():
        names = {entry.key: entry.key.removeprefix(f"{section}.") for entry in members}
        looked_up += 1
        near = _nearest_table(section, names.values()) if section and looked_up <= MOST_LOOKED_UP else None
        if near is None:
            for entry in members:
                looked_up += 1
                keys = nearest_keys(entry.key) if looked_up <= MOST_LOOKED_UP else ()
                found.problems.append(_unknown_key(entry, keys, entries, found, level))
            continue
        found.meant |= {name_now(f"{near}.{name}") for name in names.values()}
        first = members[0]
        meant = f"[{near}]" if first.place.line is not None else f"{near}.{names[first.key]}"
        why, fix = f"unknown section; did you mean `{meant}`?", meant
        found.problems.append(Problem(first.key_place, section, why, fix=fix, level=level, code="unknown_key"))
    return found


def _engine_option(entry: Entry) -> list[Problem]:
    """A name that is not ours, where such names are passed on."""
    near = nearest_key(entry.key) if entry.key.startswith("vllm.") else None
    if near is None or not near.startswith("vllm."):
        name = entry.key.removeprefix("vllm.")
        near = of_that_name(name) if entry.key.startswith("vllm.") and why_refused(name) is None else None
    if near is None:
        return []
    why = f"no key of ours: passed to the engine as it is. Did you mean `{near}`?"
    fix = f"{near}, or leave it"
    return [Problem(entry.key_place, entry.key, why, entry.shown, fix=fix, level="warning", code="engine_option")]


def _misspelt_section(parts: tuple[str, ...]) -> str:
    """The first of its tables that nobody knows; "" where all are known, or where only the letters are others."""
    if join_key(parts).lower() in all_keys():
        return ""
    if len(parts) > 1 and join_key(parts[:1]) not in top_sections():
        return join_key(parts[:1])
    section = join_key(parts[:-1])
    return section if len(parts) > 2 and section not in known_sections() else ""


def _nearest_table(section: str, names: Collection[str]) -> str | None:
    near = nearest_section(section, names)
    return near or next((key for key in nearest_keys(section) if key in all_keys() and all_keys()[key].is_table), None)


def _unknown_key(
    entry: Entry, near: tuple[str, ...], entries: Mapping[str, Entry], found: Unknown, level: Level
) -> Problem:
    why, fix = "unknown key", "delete this line        or   --allow-unknown"
    if near:
        first = name_now(near[0])
        found.meant.add(first)
        other = entries.get(first)
        set_already = other if other is not None and _source(other) == _source(entry) else None
        why += f"; did you mean {' or '.join(_as_meant(key, entry) for key in near)}"
        why += "?" if set_already is None else f", which {set_already.place} sets already?"
        fix = first if set_already is None else fix
    return Problem(entry.key_place, entry.key, why, entry.shown, fix=fix, level=level, code="unknown_key")


def _source(entry: Entry) -> str:
    return entry.place.file.partition("#")[0]  # what follows is a JSON pointer


def _as_meant(key: str, entry: Entry) -> str:
    now = name_now(key)
    return f"`{key}`" + ("" if now == key else f" (now `{now}`)")
