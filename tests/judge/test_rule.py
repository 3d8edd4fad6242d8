"""Criteria that code checks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.judge.conftest import Bench, bench, episode
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.types import JudgedEpisode


def rules(*given: dict[str, Any], kind: str = "outcome", **options: Any) -> Bench:
    criteria = [{"id": f"r{number}", "rule": rule} for number, rule in enumerate(given)]
    flags = {"event": kind == "event", "outcome": kind == "outcome"}
    return bench(flags, overrides={kind: {"criteria": criteria}}, type="rule", **options)


async def outcome(rule: dict[str, Any], played: JudgedEpisode) -> float:
    return (await rules(rule).judge.judge(played)).outcome


SCHEMA = {"type": "object", "required": ["a"]}


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("contains", "Paris", "It is Paris.", "It is paris."),
        ("regex", r"[.!]$", "Yes.", "Yes"),
        ("exact", " Paris ", "\nParis", "Paris."),
        ("numeric", 1234.5, "First 3, then 1,234.50.", "1234.5, or 7"),
        ("numeric", -2, "x = -2", "no number"),
        ("json_valid", None, '{"a": 1}', "{a: 1}"),
        ("json_schema", SCHEMA, '{"a": 1}', '{"b": 1}'),
        ("json_schema", SCHEMA, '{"a": 1}', "a"),
        ("max_chars", 5, "12345", "123456"),
    ],
)
async def test_kinds_of_text(kind: str, value: Any, good: str, bad: str) -> None:
    rule = {"kind": kind, "value": value}
    assert await outcome(rule, episode(bad, good)) == 1.0  # the final answer
    assert await outcome(rule, episode(good, bad)) == 0.0
    assert await outcome({**rule, "target": "any"}, episode(good, bad)) == 1.0
    assert await outcome({**rule, "target": "every"}, episode(good, bad)) == 0.0
    assert await outcome({**rule, "target": "every"}, episode(good, good)) == 1.0
    given = await rules(rule, kind="event").judge.judge(episode(good, bad))
    assert given.event_scores == [1.0, 0.0] and given.event == 0.5 and given.outcome is None


async def test_tools_and_rewards() -> None:
    played = episode("a", "b", env_reward=0.5)  # the turns have rewards 0 and 1
    played.turns[0].messages[1]["tool_calls"] = [{"function": {"name": "dig", "arguments": "{}"}}]
    assert await outcome({"kind": "tool_called", "value": "dig"}, played) == 0.0
    assert await outcome({"kind": "tool_called", "value": "dig", "target": "any"}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 0.5}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 1, "target": "any"}, played) == 1.0
    assert await outcome({"kind": "reward_at_least", "value": 1, "target": "every"}, played) == 0.0
    played.env_reward = None  # is not 0
    with pytest.raises(JudgeFailed, match="no reward") as caught:
        await outcome({"kind": "reward_at_least", "value": 0}, played)
    assert caught.value.code == "judge_reward_missing"


async def test_a_record_is_left_and_nothing_is_paid() -> None:
    made = rules({"kind": "contains", "value": "a"}, {"kind": "contains", "value": "b"})
    given = await made.judge.judge(episode("a"))
    [line] = made.records
    assert given.outcome == 0.5 == line.total and given.calls == [1] and given.cost_usd == 0 and given.model is None
    assert (line.source, line.status, line.criteria) == ("rule", "ok", {"r0": 1.0, "r1": 0.0})


MODULE = """
def share(episode, turn):
    return len(episode.turns) / 4 if turn is None else turn.t == 0
def raises(episode, turn):
    return 1 / 0
def eleven(episode, turn):
    return 11
def nothing(episode, turn):
    pass
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "judging_rules.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("judging_rules", None)


async def test_python_by_import_path(code: Path) -> None:
    rule = {"kind": "python", "value": "judging_rules:share"}
    assert (await rules(rule, code_from=code).judge.judge(episode("a", "b"))).outcome == 0.5
    assert (
        await rules({**rule, "value": "judging_rules.share"}, kind="event").judge.judge(episode("a", "b"))
    ).event_scores == [1, 0]
    with pytest.raises(JudgeMisconfigured, match="not allowed") as caught:
        rules(rule, allow_code=False)
    assert caught.value.code == "code_not_allowed" and "--allow-code" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "why"),
    [("raises", "raised ZeroDivisionError: division by zero"), ("eleven", "gave 11"), ("nothing", "gave None")],
)
async def test_a_rule_that_fails_is_named_and_is_no_score(code: Path, name: str, why: str) -> None:
    made = rules({"kind": "python", "value": f"judging_rules:{name}"}, code_from=code)
    with pytest.raises(JudgeFailed, match=why) as caught:
        await made.judge.judge(episode())
    assert caught.value.code == "judge_rule" and "r0" in caught.value.text
    [line] = made.records
    assert (line.status, line.code, line.total) == ("failed", "judge_rule", None) and why in line.reply


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (None, "is missing"),
        ({"kind": "vibes"}, "kind 'vibes' is not one of contains"),
        ({"kind": "contains"}, "value is not a text"),
        ({"kind": "contains", "value": "x", "target": "first"}, "target 'first'"),
        ({"kind": "regex", "value": "("}, "not a regular expression"),
        ({"kind": "numeric", "value": "3"}, "not a number"),
        ({"kind": "json_schema", "value": {"type": "thing"}}, "not a JSON schema"),
        ({"kind": "python", "value": "no_such_module:f"}, "cannot be imported"),
        ({"kind": "python", "value": "json:nothing"}, "cannot be imported"),
        ({"kind": "python", "value": "json:__doc__"}, "is not a function"),
    ],
)
def test_a_rule_that_cannot_be_applied_stops_the_job_before_it_starts(rule: Any, why: str) -> None:
    with pytest.raises(JudgeMisconfigured, match=why) as caught:
        rules(rule)
    assert caught.value.code == "judge_rule" and "outcome criterion r0" in caught.value.message
