"""Keys that nobody knows, and the keys that may have been meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache

from trainer.config.keys import all_keys, all_sections
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES
from trainer.config.sources import LOADER_KEYS

MOST = 3  # suggestions for one key
LONG = 5  # letters from which a name may be looked for in other sections although it is misspelt


def nearest_keys(key: str) -> tuple[str, ...]:
    """The known keys that were probably meant, all equally near, the likeliest first.

    In this order: a like name in its section, the initials of one there, the very name in another section, a part
    of a name in its section, a like name in a like section, a like name in another section.
    """
    section, _, name = key.rpartition(".")
    here = _by_section().get(section, ())
    return (
        _closest(name, here)
        or _initials(name, here)
        or _same_name(name, section)
        or _part(name, here)
        or _closest(name, _in_like_sections(section))
        or (_closest(name, _known()) if len(name) >= LONG else ())
    )[:MOST]


def nearest_key(key: str) -> str | None:
    return next(iter(nearest_keys(key)), None)


def nearest_section(section: str) -> str | None:
    """The known section closest to a misspelt one."""
    olds = {move.old.rpartition(".")[0] for move in MOVES if "." in move.old}
    names = dict.fromkeys([*all_sections(), *sorted(olds), *SECTION_MOVES])
    near = [(distance(section, name), name) for name in names if _is_near(section, name)]
    return min(near, key=lambda item: item[0])[1] if near else None


@cache
def top_sections() -> frozenset[str]:
    """First parts of all known keys, old ones included."""
    names = [*_known(), *NO_EFFECT, *SECTION_MOVES]
    return frozenset(name.partition(".")[0] for name in names)


def distance(a: str, b: str) -> int:
    """Edit distance; two neighbours swapped count once (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, current[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, row = row, current
    return row[-1]


@cache
def _known() -> tuple[str, ...]:
    canonical = [key for key in all_keys() if key != "tags"]
    return (*canonical, *(move.old for move in MOVES), *LOADER_KEYS)


@cache
def _by_section() -> dict[str, tuple[str, ...]]:
    sections: dict[str, tuple[str, ...]] = {}
    for key in _known():
        section = key.rpartition(".")[0]
        sections[section] = (*sections.get(section, ()), key)
    return sections


def _in_like_sections(section: str) -> list[str]:
    return [key for other, keys in _by_section().items() if _is_near(section, other) for key in keys]


def _is_near(text: str, other: str) -> bool:
    """Within a third of the letters of `other`, at least one."""
    limit = max(1, len(other) // 3)
    return abs(len(other) - len(text)) <= limit and distance(text, other) <= limit


def _closest(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """Candidates whose last part is nearest to `name`; a canonical key is preferred to an old one."""
    ranked = []
    for candidate in candidates:
        other = candidate.rpartition(".")[2]
        if _is_near(name, other):
            ranked.append(((distance(name, other), candidate not in all_keys()), candidate))
    best = min((rank for rank, _ in ranked), default=None)
    return tuple(
        sorted((key for rank, key in ranked if rank == best), key=lambda key: -_likeness(name, key.rpartition(".")[2]))
    )


def _initials(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """`lr` for learning_rate, if only one key can be meant."""
    return _only(key for key in candidates if name == "".join(part[:1] for part in _words(key)) and "_" in key)


def _part(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """`epochs` for num_epochs, if only one key can be meant."""
    return _only(key for key in candidates if set(name.split("_")) < set(_words(key)))


def _words(key: str) -> list[str]:
    return key.rpartition(".")[2].split("_")


def _only(candidates: Iterable[str]) -> tuple[str, ...]:
    found = tuple(candidates)
    canonical = tuple(key for key in found if key in all_keys()) or found
    return canonical if len(canonical) == 1 else ()


def _same_name(name: str, section: str) -> tuple[str, ...]:
    """`name` in other sections, the likest section first; [smoke] repeats names of others and does not count then."""
    same = [known for known in _known() if known.rpartition(".")[2] == name]
    canonical = [known for known in same if known in all_keys()] or same
    wanted = [key for key in canonical if not key.startswith("smoke.")] or canonical
    return tuple(sorted(wanted, key=lambda key: -_likeness(section, key)))


def _likeness(text: str, other: str) -> float:
    return SequenceMatcher(None, text, other).ratio()
