"""The kinds of rules: {kind, value, target} -> a score from 0 to 1 (CONFIG section 7)."""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from trainer.config.rules.rewards import RULE_KINDS
from trainer.judge.types import Json, JudgedEpisode, JudgedTurn
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import finite

FOREIGN = ("python", "regex", "json_schema")  # run code or patterns of others, which may never end
TARGETS = ("final", "any", "every")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?(?:\.\d+|\d)(?:[eE][-+]?\d+)?")
_MOST_CHARS = 100_000  # of an answer that a pattern looks at

Check = Callable[[JudgedTurn], float]


class WrongRule(ValueError):
    """A rule that cannot be applied. The text says why."""


class RuleFailed(Exception):
    """A rule that gives no score for an episode; `code` is judge_rule or judge_reward_missing."""

    def __init__(self, text: str, code: str = "judge_rule") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, ready to be applied.

    Attributes:
        kind: of RULE_KINDS.
        score: (episode, position of the turn that is judged, or None: the episode) -> 0 to 1; raises RuleFailed.
    """

    kind: str
    score: Callable[[JudgedEpisode, int | None], float]


def read_rule(data: Json) -> Rule:
    """The rule of a criterion. Where a turn is judged, the target is that turn. Raises WrongRule."""
    kind, value, target = data.get("kind"), data.get("value"), data.get("target", "final")
    if kind not in RULE_KINDS:
        raise WrongRule(f"kind {clean(repr(kind), 40)} is not one of {', '.join(RULE_KINDS)}")
    if target not in TARGETS:
        raise WrongRule(f"target {clean(repr(target), 40)} is not {', '.join(TARGETS[:-1])} or {TARGETS[-1]}")
    if kind == "python":
        return Rule(kind, _python(value))
    if kind == "reward_at_least":
        return Rule(kind, _reward_at_least(_a_number(value), target))
    check = _CHECKS[kind](value)

    def score(episode: JudgedEpisode, position: int | None) -> float:
        if position is not None:
            return check(episode.turns[position])
        turns = episode.turns[-1:] if target == "final" else episode.turns
        return (min if target == "every" else max)(map(check, turns))

    return Rule(kind, score)


# --- checks of one turn


def _of_text(test: Callable[[str], bool]) -> Check:
    return lambda turn: float(test(turn.answer))


def _contains(value: Any) -> Check:
    text = _a_text(value)
    return _of_text(lambda answer: text in answer)


def _regex(value: Any) -> Check:
    try:
        pattern = re.compile(_a_text(value))
    except re.error as error:
        raise WrongRule(f"value is not a regular expression: {error}") from None
    return _of_text(lambda answer: pattern.search(answer[:_MOST_CHARS]) is not None)


def _exact(value: Any) -> Check:
    text = _a_text(value).strip()
    return _of_text(lambda answer: answer.strip() == text)


def _numeric(value: Any) -> Check:
    """The last number of the answer is `value`."""
    wanted = _a_number(value)

    def test(answer: str) -> bool:
        numbers = _NUMBER.findall(answer[-_MOST_CHARS:])
        return bool(numbers) and math.isclose(float(numbers[-1].replace(",", "")), wanted, rel_tol=1e-6, abs_tol=1e-9)

    return _of_text(test)


def _json_valid(value: Any) -> Check:
    return _of_text(lambda answer: _json(answer) is not _NOT_JSON)


def _json_schema(value: Any) -> Check:
    if not isinstance(value, dict):
        raise WrongRule("value is not a JSON schema")
    try:
        import jsonschema
    except ImportError:
        raise WrongRule("json_schema needs the package jsonschema: pip install jsonschema") from None
    validator = jsonschema.validators.validator_for(value)
    try:
        validator.check_schema(value)
    except jsonschema.SchemaError as error:
        raise WrongRule(f"value is not a JSON schema: {clean(error.message)}") from None
    ready = validator(value)

    def test(answer: str) -> bool:
        data = _json(answer)
        try:
            return data is not _NOT_JSON and ready.is_valid(data)
        except Exception as error:  # a reference or a pattern that turns out wrong, an answer nested too deep
            raise RuleFailed(f"the schema cannot be applied: {clean(f'{type(error).__name__}: {error}')}") from None

    return _of_text(test)


def _tool_called(value: Any) -> Check:
    name = _a_text(value)
    return lambda turn: float(any(call["name"] == name for call in turn.tool_calls))


def _max_chars(value: Any) -> Check:
    most = _a_number(value)
    return _of_text(lambda answer: len(answer) <= most)


_CHECKS: dict[str, Callable[[Any], Check]] = {
    "contains": _contains,
    "regex": _regex,
    "exact": _exact,
    "numeric": _numeric,
    "json_valid": _json_valid,
    "json_schema": _json_schema,
    "tool_called": _tool_called,
    "max_chars": _max_chars,
}

_NOT_JSON = object()


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _a_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise WrongRule("value is not a text")
    return value


def _a_number(value: Any) -> float:
    number = finite(value)
    if number is None:
        raise WrongRule("value is not a number")
    return number


# --- rules of rewards and of code


def _reward_at_least(least: float, target: str) -> Callable[[JudgedEpisode, int | None], float]:
    """final: the outcome that the task app reported; any, every, and a judged turn: the rewards of turns."""

    def score(episode: JudgedEpisode, position: int | None) -> float:
        if position is not None:
            rewards = [episode.turns[position].reward]
        else:
            rewards = [episode.env_reward] if target == "final" else [turn.reward for turn in episode.turns]
        known = [reward for reward in rewards if reward is not None]
        if len(known) < len(rewards):
            raise RuleFailed("the task app gave no reward", "judge_reward_missing")
        return float((min if target == "every" else max)(known) >= least)

    return score


def _python(value: Any) -> Callable[[JudgedEpisode, int | None], float]:
    """`module:function` or `module.function`, called with (episode, turn or None)."""
    path = _a_text(value)
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except BaseException as error:  # whatever the user's module raises, SystemExit too
        raise WrongRule(f"{clean(path, 80)} cannot be imported: {clean(f'{type(error).__name__}: {error}')}") from None
    if not callable(function):
        raise WrongRule(f"{clean(path, 80)} is not a function")

    def score(episode: JudgedEpisode, position: int | None) -> float:
        try:
            given = function(episode, None if position is None else episode.turns[position])
            number = _scalar(given)
        except BaseException as error:  # whatever the user's function raises, SystemExit too
            raise RuleFailed(clean(f"{path} raised {type(error).__name__}: {error}")) from None
        if not isinstance(number, Real) or number < 0 or not number <= 1:  # a NaN is neither
            raise RuleFailed(clean(f"{path} gave {given!r}, not a number from 0 to 1"))
        return float(number)

    return score


def _scalar(given: Any) -> Any:
    """numpy's and torch's as Python's own."""
    return given.item() if callable(getattr(given, "item", None)) else given
