"""Reads what a model answered as scores. Lenient about the wrapping, strict about the scores: nothing is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from trainer.judge.rubric import Criterion
from trainer.judge.types import CriterionScore, Json
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import finite, mapping

REASON_CHARS = 600
_NUMBER = re.compile(r"[01]?\.?\d{1,9}")
_MOST_OBJECTS = 1_000  # of opening braces in one reply that are looked at


class Unparsable(ValueError):
    """The judge's answer holds no scores, or wrong ones. The text says what is wrong with it."""


def name_of(number: int) -> str:
    """What the prompt and the answer call criterion `number` (from 0): ids may hold what no schema takes as a key."""
    return f"c{number + 1}"


def read_scores(text: str, criteria: Sequence[Criterion]) -> dict[str, CriterionScore]:
    """The score of every criterion, by id.

    The JSON may stand in prose or in a code fence, after `<think>`, in a wrapper, be keyed by id, hold bare numbers.

    Raises:
        Unparsable: no JSON, a criterion without a score, a score outside of its scale, or two answers that differ:
            one of them may be quoted from the text that was judged.
    """
    if not text.strip():
        raise Unparsable("the answer is empty")
    found: list[dict[str, CriterionScore]] = []
    first_problem: Unparsable | None = None
    for value in _objects(text.rpartition("</think>")[2] or text):
        try:
            scores = _scores(value, criteria)
        except Unparsable as problem:
            first_problem = first_problem or problem
            continue
        if scores not in found:
            found.append(scores)
    if not found:
        raise first_problem or Unparsable(f"the answer holds no JSON object: {clean(text, 80)}")
    numbers = [{id: score.score for id, score in scores.items()} for scores in found]
    if any(other != numbers[0] for other in numbers):
        raise Unparsable(f"the answer holds {len(found)} sets of scores that differ")
    return found[-1]


def write_scores(scores: dict[str, CriterionScore], criteria: Sequence[Criterion], limit: int) -> str:
    """The answer that `read_scores` reads as these scores, with reasons as far as `limit` characters allow."""
    room = max(0, limit // max(1, len(criteria)) - 60)
    answer = {
        name_of(i): {"reason": scores[c.id].reason[:room], "score": scores[c.id].score} for i, c in enumerate(criteria)
    }
    text = json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= limit else json.dumps({name: value["score"] for name, value in answer.items()})


def _objects(text: str) -> Iterator[Json]:
    """Every JSON object of the text that is not inside another."""
    decoder = json.JSONDecoder()
    at = tried = 0
    while (at := text.find("{", at)) >= 0 and tried < _MOST_OBJECTS:
        tried += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value
        at = end


def _scores(value: Json, criteria: Sequence[Criterion]) -> dict[str, CriterionScore]:
    names = {key: i for i, c in enumerate(criteria) for key in (name_of(i), c.id)}
    for wrapper in ("criteria", "scores"):
        if not names.keys() & value.keys() and wrapper in value:
            value = _by_name(value[wrapper])
    given: dict[int, Any] = {}
    for key, entry in value.items():
        if key in names:
            given[names[key]] = entry
    missing = [c.id for i, c in enumerate(criteria) if i not in given]
    if missing:
        raise Unparsable(f"the answer has no score for {clean(', '.join(missing), 200)}")
    return {criterion.id: _score(given[i], criterion) for i, criterion in enumerate(criteria)}


def _by_name(value: Any) -> Json:
    """A list of {id, score} as {id: {id, score}}."""
    if isinstance(value, list):
        entries = map(mapping, value)
        return {str(entry.get("id", entry.get("name"))): entry for entry in entries}
    return mapping(value)


def _score(entry: Any, criterion: Criterion) -> CriterionScore:
    value = entry.get("score") if isinstance(entry, dict) else entry
    if (isinstance(value, str) and _NUMBER.fullmatch(value)) or (
        value in (True, False) and criterion.scale == "binary"
    ):
        value = float(value)
    number = finite(value)
    if number is None:
        raise Unparsable(f"the score of {clean(criterion.id, 60)} is no number")
    if not 0 <= number <= 1:
        raise Unparsable(f"the score of {clean(criterion.id, 60)} is {number:g}, outside 0 to 1")
    if criterion.scale == "binary" and number not in (0, 1):
        raise Unparsable(f"the score of {clean(criterion.id, 60)} is {number:g}, neither 0 nor 1")
    reason = entry.get("reason") if isinstance(entry, dict) else None
    return CriterionScore(number, plain(reason)[:REASON_CHARS] if isinstance(reason, str) else "")


def plain(text: str) -> str:
    """Text that UTF-8 can hold: half a surrogate pair, which JSON can smuggle in, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
