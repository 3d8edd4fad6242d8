"""Reads the answer of a judge service by field (WIRE 1.8). Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from trainer.judge.answer import REASON_CHARS, Unparsable, plain
from trainer.judge.rubric import Rubric, RubricPart
from trainer.judge.score import combine
from trainer.judge.types import CriterionScore, Review
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import finite, listing, mapping

Json = dict[str, Any]


class Reviews(msgspec.Struct):
    """What a service said of an episode."""

    events: list[Review]
    outcome: Review | None

    def short(self) -> str:
        """An answer that `read_reviews` reads as the same totals."""
        answer: Json = {"status": "ok"}
        if self.events:
            answer["event_totals"] = [review.total for review in self.events]
        if self.outcome is not None:
            answer["outcome_reward"] = self.outcome.total
        return json.dumps(answer)


def read_reviews(answer: Any, *, turns: Sequence[int], outcome: bool, rubric: Rubric | None) -> Reviews:
    """One review for each of `turns`, in order; a trailing one more is dropped.

    Args:
        turns: numbers of the judged turns; empty: no turn is judged.
        rubric: the parts that were sent along, if any.

    Raises:
        Unparsable: a score is missing, no finite number, or outside of what its rubric allows.
    """
    top = mapping(answer)
    if not top:
        raise Unparsable("the answer is not a JSON object")
    event_part, outcome_part = (rubric.event, rubric.outcome) if rubric else (None, None)
    events = _events(top, turns, event_part) if turns else []
    return Reviews(events, _outcome(top, outcome_part) if outcome else None)


def _events(top: Json, turns: Sequence[int], part: RubricPart | None) -> list[Review]:
    reviews = listing(top.get("event_reviews"))
    totals = listing(top.get("event_totals")) or listing(top.get("event_rewards"))
    totals = totals or [mapping(review).get("total") for review in reviews]
    if not len(turns) <= len(totals) <= len(turns) + 1:
        raise Unparsable(f"{len(totals)} event scores for {len(turns)} turns")
    return [
        _review(mapping(reviews[i]) if i < len(reviews) else {}, totals[i], f"turn {turn}", part, turn)
        for i, turn in enumerate(turns)
    ]


def _outcome(top: Json, part: RubricPart | None) -> Review:
    review = mapping(top.get("outcome_review"))
    places = (review.get("total"), top.get("outcome_reward"), top.get("aggregate_score"))
    total = next((value for value in places if value is not None), None)
    return _review(review, total, "the outcome", part, None)


def _review(review: Json, total: Any, what: str, part: RubricPart | None, turn: int | None) -> Review:
    if isinstance(total, dict):
        total = total.get("total") if total.get("total") is not None else total.get("reward")
    most = float(len(part.criteria)) if part is not None and part.aggregation == "sum" else 1.0
    criteria = {
        clean(str(id), 100): CriterionScore(
            _score(mapping(entry).get("score"), f"{clean(str(id), 60)} of {what}", 1.0),
            plain(str(mapping(entry).get("reason") or ""))[:REASON_CHARS],
        )
        for id, entry in mapping(review.get("criteria")).items()
    }
    scores = {id: given.score for id, given in criteria.items()}
    complete = part is not None and all(criterion.id in scores for criterion in part.criteria)
    return Review(
        total=_score(total, what, most),
        criteria=criteria,
        tracks=combine(part, scores, {})[1] if part is not None and complete else {},
        turn=turn,
        summary=plain(str(review.get("summary") or ""))[:REASON_CHARS],
    )


def _score(value: Any, what: str, most: float) -> float:
    number = finite(value)
    if number is None:
        raise Unparsable(f"the score of {what} is {'missing' if value is None else 'no finite number'}")
    if not 0 <= number <= most:
        raise Unparsable(f"the score of {what} is {number:g}, outside 0 to {most:g}")
    return number
