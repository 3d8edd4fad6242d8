"""A resumed run pays nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.judge.conftest import GOOD, GOOD_TOTAL, Server, chat, episode, local
from trainer.judge import cache
from trainer.judge.cache import known_replies


async def test_an_answer_in_the_runs_own_record_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    long = {name: {"reason": name * 2_000, "score": value["score"]} for name, value in GOOD.items()}
    server.script = [chat(long)]
    first = local(server, known={})
    before = await first.judge.judge(episode("Paris."))
    lines = [msgspec.to_builtins(line) for line in first.records]
    assert len(lines[0]["reply"]) <= 2_000

    second = local(server, {"max_concurrency": 3}, known=known_replies(json.loads(json.dumps(lines))), timeout_s=5)
    after = await second.judge.judge(episode("Paris."))
    assert len(server.bodies) == 1
    assert (after.outcome, after.tracks, after.cached) == (before.outcome, before.tracks, True)
    assert (after.tokens_in, after.tokens_out, after.cost_usd) == (0, 0, 0.0)
    [line] = second.records
    assert line.status == "cached" and line.key == lines[0]["key"] and line.criteria == first.records[0].criteria


async def test_equal_answers_of_a_run_are_asked_for_once_and_anything_else_anew(server: Server) -> None:
    server.script = [chat(GOOD)]
    made = local(server, known={})
    for answer in ("Paris.", "Paris.", "Rome."):
        await made.judge.judge(episode(answer))
    assert [line.status for line in made.records] == ["ok", "cached", "ok"]
    again = local(server, {"model": "other"}, known=known_replies(msgspec.to_builtins(made.records)))
    assert not (await again.judge.judge(episode("Paris."))).cached
    weights = {"weights": {"style": 1.0}}  # they are ours: the same answer is weighed otherwise
    weighed = await local(server, weights, known=known_replies(msgspec.to_builtins(made.records))).judge.judge(
        episode()
    )
    assert weighed.cached and weighed.outcome == pytest.approx(0.4) != GOOD_TOTAL


async def test_what_is_no_answer_in_the_file_is_asked_for_anew(server: Server) -> None:
    server.script = [chat("prose"), chat("prose"), chat("prose"), chat(GOOD)]
    made = local(server, known={})
    with pytest.raises(Exception, match="no JSON"):
        await made.judge.judge(episode())
    broken = [{"status": "ok", "key": made.records[0].key, "reply": "{"}, {"status": "ok", "key": 3, "reply": "{}"}, {}]
    lines = [*msgspec.to_builtins(made.records), *broken]
    resumed = local(server, known=known_replies(lines))
    assert not (await resumed.judge.judge(episode())).cached


def test_only_the_newest_answers_are_held(monkeypatch) -> None:
    monkeypatch.setattr(cache, "MOST_KNOWN", 3)
    lines = [{"status": "ok", "key": str(n), "reply": "{}"} for n in range(5)]
    assert [*known_replies(lines)] == ["2", "3", "4"]
