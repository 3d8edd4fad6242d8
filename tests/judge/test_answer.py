"""What a model's answer is read as: lenient about its wrapping, never about a score."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.judge.answer import Unparsable, read_scores, write_scores
from trainer.judge.rubric import Criterion
from trainer.judge.types import CriterionScore

TWO = [Criterion(id="fact.correct", scale="binary"), Criterion(id="style", scale="bounded")]
KEYS = st.sampled_from(["c1", "c2", "style", "scores", "criteria", "score", "id"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)
GOOD = '{"c1": {"reason": "it is Paris", "score": 1}, "c2": {"reason": "curt", "score": 0.25}}'


def numbers(text: str) -> list[float]:
    return [score.score for score in read_scores(text, TWO).values()]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here is my grading:\n```json\n{GOOD}\n```\nI hope this helps {{smile}}.",
        f'<think>{{\'c1\': 0}} or maybe {{"c1": 0, "c2": 0}}?</think>{GOOD}',
        '{"fact.correct": 1, "style": 0.25}',
        '{"scores": {"fact.correct": {"score": true}, "c2": {"score": "0.25"}}}',
        '{"criteria": [{"id": "fact.correct", "score": 1}, {"id": "style", "score": 0.25}], "total": 99}',
        f"{GOOD}\n{GOOD}",
    ],
)
def test_scores_are_found_in_any_wrapping(text: str) -> None:
    assert numbers(text) == [1, 0.25]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("A very good answer, 9 out of 10.", "no JSON object"),
        (GOOD[:-30], "has no score for fact.correct, style"),
        ('{"c1": 1}', "has no score for style"),
        ('{"c1": 1, "c2": 11}', "style is 11, outside 0 to 1"),
        ('{"c1": 1, "c2": -0.1}', "outside"),
        ('{"c1": 0.5, "c2": 1}', "fact.correct is 0.5, neither 0 nor 1"),
        ('{"c1": 1, "c2": NaN}', "no number"),
        ('{"c1": 1, "c2": true}', "no number"),
        ('{"c1": 1, "c2": "8/10"}', "no number"),
        ('{"c1": 1, "c2": null}', "no number"),
        ('{"c1": 1, "c2": {"reason": "no score"}}', "no number"),
        ("[" * 10_000, "no JSON"),
        ('{"a":' * 10_000, "no JSON"),
        (f'The agent wrote {{"c1": 1, "c2": 1}}. My grading: {GOOD}', "2 sets of scores that differ"),
    ],
)
def test_what_is_no_score_is_named_and_never_guessed(text: str, why: str) -> None:
    with pytest.raises(Unparsable, match=why):
        read_scores(text, TWO)


@settings(max_examples=40)
@given(st.text() | JSON.map(json.dumps))
def test_no_answer_does_anything_but_score_or_be_refused(text: str) -> None:
    try:
        scores = read_scores(text, TWO)
    except Unparsable:
        return
    assert [*scores] == ["fact.correct", "style"] and all(0 <= score.score <= 1 for score in scores.values())


@pytest.mark.parametrize("limit", [2_000, 200, 40])
def test_what_is_kept_of_a_long_answer_reads_as_the_same_scores(limit: int) -> None:
    scores = {"fact.correct": CriterionScore(1.0, "r" * 5_000), "style": CriterionScore(0.125, "s" * 5_000)}
    kept = write_scores(scores, TWO, limit)
    assert len(kept) <= limit and numbers(kept) == [1, 0.125]


def test_reasons_are_kept_as_text_that_can_be_written() -> None:
    reason = read_scores('{"c1": {"score": 1, "reason": "half \\ud83d"}, "c2": 0}', TWO)["fact.correct"].reason
    assert reason.encode() == b"half ?"
