"""The keys and sections that were probably meant by a name that nobody knows."""

from collections.abc import Collection, Iterable
from functools import cache

from trainer.config.keys import all_keys, section_models
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES
from trainer.config.sources import LOADER_KEYS
from trainer.config.toml_values import split_key

MOST = 3  # suggestions for one key
LONG = 5  # letters from which a name may be looked for in other sections although it is misspelt


def nearest_keys(key: str) -> tuple[str, ...]:
    """The known keys that were probably meant, all equally near, the likeliest first.

    In this order: the key in other letters; what another system calls so, in its section first; a like name in its
    section, the initials of one there, the very name in another section, a part of a name in its section, a like
    name in a like section, a like name in another section. [smoke] repeats names of others: from elsewhere only its
    very names are suggested.
    """
    *tables, name = _parts(key)
    if "." in name and name in _known():  # "training.seed" in quotes
        return (name,)
    if key != key.lower() and key.lower() in _known():
        return (key.lower(),)
    section = ".".join(tables)
    here = _by_section().get(section, ())
    elsewhere = [known for known in _known() if not known.startswith("smoke.") or section == "smoke"]
    plain = name.lower().replace("-", "_")
    return (
        _called(plain, section)
        or _called(plain)
        or _closest(name, here)
        or _initials(name, here)
        or _same_name(name, section)
        or _part(name, here)
        or _closest(name, _in_like_sections(section))
        or (_closest(name, elsewhere) if len(name) >= LONG else ())
    )[:MOST]


def nearest_key(key: str) -> str | None:
    return next(iter(nearest_keys(key)), None)


def nearest_section(section: str, names: Collection[str] = ()) -> str | None:
    """The known section that was probably meant: one that knows many of `names`, the keys in it; then the closest
    one; then one that is not old.
    """
    ranked = []
    plain = section.lower()
    for name, meant in _section_names().items():
        if _is_like(plain, name):
            known = sum(knows(meant, key) for key in names)
            ranked.append(((-known, distance(plain, name), meant not in section_models()), meant))
    return min(ranked, key=lambda item: item[0])[1] if ranked else None


def _is_like(section: str, name: str) -> bool:
    """Part by part: long paths are alike through what they share."""
    parts, others = section.split("."), name.split(".")
    return len(parts) == len(others) and all(map(_is_near, parts, others))


def knows(section: str, name: str) -> bool:
    """Whether `name` is a key of that section, in any spelling, or what another system calls one."""
    there = {key.rpartition(".")[0] for key in _synonyms().get(name, ())}
    return f"{section}.{name}" in _known() or section in there


@cache
def known_sections() -> frozenset[str]:
    """Every section, and every old one."""
    return frozenset([*_by_section(), *section_models(), "tags", *SECTION_MOVES])


@cache
def _section_names() -> dict[str, str]:
    """Names of sections, those of other systems and old ones among them, and the sections that they mean."""
    names = {path: path for path in [*section_models(), "tags"]}
    for path, model in section_models().items():
        for name in model.synonyms.split():
            names.setdefault(name, path)
    olds = {move.old.rpartition(".")[0] for move in MOVES if "." in move.old}
    return {**{old: old for old in [*sorted(olds), *SECTION_MOVES]}, **names}


@cache
def _synonyms() -> dict[str, tuple[str, ...]]:
    """The keys that other systems call so."""
    found: dict[str, tuple[str, ...]] = {}
    for path, known in all_keys().items():
        for name in known.synonyms:
            found[name] = (*found.get(name, ()), path)
    return found


def _called(name: str, section: str | None = None) -> tuple[str, ...]:
    """The keys that other systems call so, of one section or of all."""
    return tuple(key for key in _synonyms().get(name, ()) if section in (None, key.rpartition(".")[0]))


def _parts(key: str) -> tuple[str, ...]:
    try:
        return split_key(key)
    except ValueError:  # not of a file
        return tuple(key.split("."))


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
    return [key for other, keys in _by_section().items() if _is_like(section, other) for key in keys]


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


def of_that_name(name: str) -> str | None:
    """The first key of the schema, in any section but [smoke], that has this very name."""
    return next((key for key in all_keys() if key.endswith(f".{name}") and not key.startswith("smoke.")), None)


def _same_name(name: str, section: str) -> tuple[str, ...]:
    """`name` in other sections, the likest section first; [smoke] repeats names of others and does not count then."""
    same = [known for known in _known() if known.rpartition(".")[2] == name]
    canonical = [known for known in same if known in all_keys()] or same
    wanted = [key for key in canonical if not key.startswith("smoke.")] or canonical
    return tuple(sorted(wanted, key=lambda key: -_likeness(section, key)))


def _likeness(text: str, other: str) -> float:
    from difflib import SequenceMatcher  # here: most configs have no unknown key

    return SequenceMatcher(None, text, other).ratio()
