"""Keys that nobody knows, and the key that was meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache

from trainer.config.keys import all_keys, all_sections
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES


def nearest_key(key: str) -> str | None:
    """The known key that was meant: a like name in its section, the name in another, a like path."""
    section, _, name = key.rpartition(".")
    here = [known for known in _known() if known.rpartition(".")[0] == section]
    return (
        _closest(name, here)
        or _exact_name(name, section)
        or _closest(key, _known(), whole=True)
        or _closest(name, _known())
    )


def nearest_section(section: str) -> str | None:
    """The known section closest to a misspelt one."""
    olds = {move.old.partition(".")[0] for move in MOVES if "." in move.old}
    return _closest(section, [*all_sections(), *sorted(olds), *SECTION_MOVES], whole=True)


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
    return (*canonical, *(move.old for move in MOVES))


def _exact_name(name: str, section: str) -> str | None:
    same = [known for known in _known() if known.rpartition(".")[2] == name]
    if not same:
        return None
    canonical = [known for known in same if known in all_keys()] or same
    return max(canonical, key=lambda known: SequenceMatcher(None, known.rpartition(".")[0], section).ratio())


def _closest(text: str, candidates: Iterable[str], *, whole: bool = False) -> str | None:
    """The candidate within a third of its length (at least one letter); canonical keys win ties."""
    best: tuple[tuple[int, bool, float], str] | None = None
    for candidate in candidates:
        other = candidate if whole else candidate.rpartition(".")[2]
        limit = max(1, len(other) // 3)
        if abs(len(other) - len(text)) > limit:
            continue
        far = distance(text, other)
        if far > limit:
            continue
        rank = (far, candidate not in all_keys(), -SequenceMatcher(None, text, other).ratio())
        if best is None or rank < best[0]:
            best = (rank, candidate)
    return None if best is None else best[1]
