"""What a config may hold and this version cannot do yet: one table. It is empty when all is built."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from trainer.config.derive import derive
from trainer.config.errors import Problem
from trainer.config.facts import Facts, Unusable
from trainer.config.keys import all_keys

When = Callable[[Any, Facts], bool]


def _always(value: Any, facts: Facts) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Pending:
    """A key, or a section, whose machinery does not exist yet. A default never warns.

    Attributes:
        key: a key; or a section, for all of its keys, with one warning for all.
        why: what a run does instead.
        fix: what to give instead.
        issue: the letter of the issue that builds it.
        when: of a value that is not the default: whether it is concerned.
        refuse: the run would be another than was asked for, so it is not launched.
        but: keys of the section that are built, or have an entry of their own.
        within: keys and sections that mean something only with this key: its warning speaks for them.
        effect: what becomes of a value that is not refused.
    """

    key: str
    why: str
    fix: str
    issue: str
    when: When = _always
    refuse: bool = False
    but: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    effect: str = "it changes nothing"

    def covers(self, key: str) -> bool:
        """Whether `key` is without effect through this entry."""
        return self.warns_of(key) or any(_below(key, part) for part in self.within)

    def warns_of(self, key: str) -> bool:
        return _below(key, self.key) and key not in self.but


def _below(key: str, path: str) -> bool:
    return key == path or key.startswith(f"{path}.")


PENDING: tuple[Pending, ...] = ()


def pending_problems(facts: Facts) -> list[Problem]:
    """One warning for each entry of `PENDING` that the config meets."""
    return [_problem(item, keys, facts) for item, keys in _met(facts)]


def refusals(facts: Facts) -> list[Problem]:
    """The errors of what cannot be launched."""
    return [
        facts.problem(
            item.key,
            f"valid, but not built yet: {item.why}",
            fix=item.fix,
            code="pending",
        )
        for item, _ in _met(facts)
        if item.refuse
    ]


def refusal(key: str, value: Any) -> str | None:
    """Why a run with `key = value`, and the rest left out, would not be launched; None: it would."""
    facts = Facts("", {}, set(), evaluates=False, device="cpu")
    known = all_keys().get(key)
    if known is None or (not known.required and value == known.default):
        return None
    return next((item.why for item in PENDING if item.refuse and item.key == key and item.when(value, facts)), None)


def ways(*offers: tuple[str, str, Any]) -> str:
    """Fixes, of which one will do: those that this version can carry out, or all if it can none.

    Args:
        offers: (the text, a key, the value that the key then has).
    """
    built = [text for text, key, value in offers if refusal(key, value) is None]
    return "        or   ".join(built or [text for text, _, _ in offers])


def _met(facts: Facts) -> Iterator[tuple[Pending, list[str]]]:
    for item in PENDING:
        keys = [key for key in facts.entries if item.warns_of(key) and _is_concerned(item, key, facts)]
        if keys:
            yield item, keys


def _is_concerned(item: Pending, key: str, facts: Facts) -> bool:
    try:
        return _differs(key, facts) and item.when(_value(key, facts), facts)
    except Unusable:  # it has an error of its own
        return False


def _value(key: str, facts: Facts) -> Any:
    """Keys of open tables, such as `vllm.<other>` and `tags.<name>`, are not in the schema."""
    return facts[key] if key in all_keys() else facts.entries[key].value


def _differs(key: str, facts: Facts) -> bool:
    """Whether a value was given, and is another than the run would have without it."""
    if not facts.given(key):
        return False
    return key not in all_keys() or facts[key] != _default(key, facts)


def _default(key: str, facts: Facts) -> Any:
    """What `key` would be if it were not given."""
    entries = {name: entry for name, entry in facts.entries.items() if name != key}
    without = replace(facts, entries=entries, derived={}, broken=set(facts.broken))
    derive(without)
    return None if all_keys()[key].required and key not in without.derived else without[key]


def _problem(item: Pending, keys: list[str], facts: Facts) -> Problem:
    effect = "a run with it does not start" if item.refuse else item.effect
    why = f"not built yet: {item.why}; {effect}"
    if keys == [item.key]:
        return facts.warning(item.key, why, fix=item.fix, code="pending")
    names = ", ".join(key.removeprefix(f"{item.key}.") for key in keys)
    place = facts.entries[keys[0]].key_place
    return Problem(place, item.key, f"{why} ({names})", fix=item.fix, level="warning", code="pending")
