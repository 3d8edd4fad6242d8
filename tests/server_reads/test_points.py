"""Metrics as points over HTTP (WIRE 3.7), against the merged lines of the run's own reader."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rltui.server.points import Place, _spans
from tests.server_reads.serving import Runs, Server, jobs
from trainer.rundir import RunReader, RunWriter
from trainer.rundir.jsonl import encode_line
from trainer.rundir.resume import Resumed
from trainer.rundir.synth import play
from trainer.rundir.synth_data import SynthConfig

Point = dict[str, Any]
ABOUT = {"attempt", "step", "iteration", "epoch", "time", "weight_version", "eval_step", "nonfinite"}


def expected(folder: Path) -> dict[tuple[int, int, str], float]:
    found: dict[tuple[int, int, str], float] = {}
    for line in RunReader(folder).metrics():
        for name, value in line.items():
            if name not in ABOUT:
                step = line["step"] if name.startswith("eval/") else max(1, line["step"])
                found[line["attempt"], step, name] = value
    return found


def by_key(points: list[Point]) -> dict[tuple[int, int, str], float]:
    return {(point["attempt"], point["step"], point["name"]): point["value"] for point in points}


def pages(server: Server, url: str, **params: Any) -> list[list[Point]]:
    """With the whole cursor, from the start to the end."""
    found, more = [], True
    while more:
        page = server.http.get(url, params={"aliases": 0, **params}).json()
        found.append(page["points"])
        more, cursor = page["has_more"], page["next_after"]
        params |= {"after_attempt": cursor["attempt"], "after_step": cursor["step"]}
        assert page["next_after_step"] == cursor["step"]
    return found


@pytest.mark.parametrize("kind", ["healthy", "resumed", "failed"])
@pytest.mark.parametrize("limit", [1, 90, 5_000])
def test_all_pages_together_are_the_series(server: Server, runs: Runs, kind: str, limit: int) -> None:
    folder = runs(kind)
    found = pages(server, jobs(server, folder, "metrics"), limit=limit)
    points = [point for page in found for point in page]
    assert by_key(points) == expected(folder) and len(points) == len(expected(folder))
    steps = [point["step"] for point in points]
    assert steps == sorted(steps)
    for before, after in pairwise(found):  # no page splits a step
        assert not {point["step"] for point in before} & {point["step"] for point in after}
    zero = {point["phase"] for point in points if point["step"] == 0}
    assert zero <= {"eval"}


def test_a_point(server: Server, runs: Runs) -> None:
    url = jobs(server, runs("healthy"), "metrics", "/learning/jobs")
    point = server.http.get(url, params={"name": "gspo/loss", "limit": 1}).json()["points"][0]
    assert set(point) == set("name value phase attempt step epoch iteration data created_at job_id".split())
    assert (point["name"], point["phase"], point["step"], point["iteration"]) == ("gspo/loss", "train", 1, 1)
    found = server.http.get(url, params={"name": "eval*", "limit": 5_000}).json()["points"]
    assert {point["name"] for point in found} == {
        *("eval/reward_mean", "eval/reward_std", "eval.reward_mean", "eval.reward_std")
    }
    assert all(point["phase"] == "eval" and "eval_step" in point["data"] for point in found)


def test_the_names_of_the_sdk_have_the_same_values(server: Server, runs: Runs) -> None:
    url = jobs(server, runs("healthy"), "metrics", "/jobs")
    points = by_key(server.http.get(url, params={"limit": 5_000}).json()["points"])
    for alias, name in (("train.loss", "gspo/loss"), ("train.reward_mean", "reward/mean")):
        ours = {key[:2]: value for key, value in points.items() if key[2] == name}
        assert ours and ours == {key[:2]: value for key, value in points.items() if key[2] == alias}
    without = server.http.get(url, params={"limit": 5_000, "aliases": "0"}).json()["points"]
    assert not any("." in point["name"] for point in without)


def test_the_open_step_comes_once_it_can_no_longer_change(server: Server, tmp_path: Path) -> None:
    url = jobs(server, tmp_path, "metrics")

    def steps(**params: Any) -> list[int]:
        page = server.http.get(url, params=params).json()
        return [*sorted({point["step"] for point in page["points"]}), page["next_after"]["step"]]

    with RunWriter(tmp_path, job_id="rl_0", label="x") as writer:
        about: dict[str, int] = {"iteration": 1, "epoch": 1, "weight_version": 0}
        writer.status(state="running", phase="training")
        writer.metrics({"system/cpu": 1.0}, step=0, **about)
        writer.metrics({"eval/reward_mean": 0.5}, step=0, eval_step=0, **about)
        writer.metrics({"system/cpu": 2.0}, step=0, **about)
        assert steps() == [-1] and steps(open=1) == [0, 1, -1]
        writer.metrics({"gspo/loss": 0.1, "gspo/kl": float("nan")}, step=1, **about)
        assert steps() == [0, 0] and steps(open=1) == [0, 1, 0]
        writer.metrics({"system/cpu": 3.0}, step=1, **about)
        writer.metrics({"gspo/loss": 0.2}, step=2, **about)
        page = server.http.get(url, params={"after_step": 0, "aliases": 0}).json()
        assert by_key(page["points"]) == {(1, 1, "system/cpu"): 3.0, (1, 1, "gspo/loss"): 0.1}
        assert page["nonfinite"] == 1 and page["next_after"] == {"attempt": 1, "step": 1}
        assert steps(after_step=1) == [1]
        writer.status(state="succeeded", phase="done", end_reason="completed")
        assert steps(after_step=1) == [2, 2] and steps(after_step=2) == [2]


def test_who_asks_behind_the_end_is_told_where_that_is(server: Server, tmp_path: Path) -> None:
    url = jobs(server, tmp_path, "metrics")

    def behind(**params: int) -> tuple[int, list[int]]:
        """The step that is told, and the steps that come from there."""
        page = server.http.get(url, params={"after_step": 99_999, **params}).json()
        assert page["points"] == []
        at = {"after_attempt": page["next_after"]["attempt"], "after_step": page["next_after_step"]}
        if "after_attempt" not in params:
            del at["after_attempt"]
        found = server.http.get(url, params={**at, "aliases": 0}).json()["points"]
        return page["next_after_step"], [point["step"] for point in found]

    with RunWriter(tmp_path, job_id="rl_0", label="x") as writer:
        about: dict[str, int] = {"iteration": 1, "epoch": 1, "weight_version": 0}
        writer.status(state="running", phase="training")
        for cursor in ({}, {"after_attempt": 1}, {"after_attempt": 7}):
            assert behind(**cursor) == (-1, [])
        for step in (1, 2, 3):
            writer.metrics({"gspo/loss": 0.1}, step=step, **about)
        for cursor in ({}, {"after_attempt": 1}, {"after_attempt": 7}):
            assert behind(**cursor) == (2, [])  # step 3 may still get points
        writer.status(state="succeeded", phase="done", end_reason="completed")
        for cursor in ({}, {"after_attempt": 1}, {"after_attempt": 7}):
            assert behind(**cursor) == (3, [])


def test_clients_that_look_while_a_run_grows_and_resumes(server: Server, tmp_path: Path) -> None:
    """Ours knows (attempt, step) and what a resume took back; an old one the largest step, 0 meaning none."""
    folder = tmp_path / "run"
    url = jobs(server, folder, "metrics")
    cursor = {"attempt": 0, "step": -1}
    ours: dict[tuple[int, int, str], float] = {}
    old: dict[tuple[int, str], float] = {}

    def look() -> None:
        nonlocal cursor
        more = True
        while more:
            params = {"after_attempt": cursor["attempt"], "after_step": cursor["step"], "aliases": 0}
            page = server.http.get(url, params=params).json()
            ours.update(by_key(page["points"]))
            cursor, more = page["next_after"], page["has_more"]
        highest = max((step for step, _ in old), default=0)
        page = server.http.get(
            url, params={"aliases": 0, "limit": 5_000, **({"after_step": highest} if highest else {})}
        )
        old.update({(step, name): value for (_, step, name), value in by_key(page.json()["points"]).items()})

    for _ in play(folder, SynthConfig(episodes=320, kind="resumed")):
        look()
    look()
    look()
    wanted = expected(folder)
    resume = RunReader(folder).resumes()[0]
    kept = {key: value for key, value in ours.items() if key[0] == 2 or key[1] <= resume.from_step}
    assert kept == wanted and len(ours) > len(kept)
    assert old.keys() == {key[1:] for key in wanted}


def test_a_step_above_the_series_stands_for_where_the_run_went_on(server: Server, tmp_path: Path) -> None:
    def line(attempt: int, step: int, **more: Any) -> bytes:
        return encode_line({"attempt": attempt, "step": step, "iteration": step, "time": 0.0, **more})

    played = [line(1, step, x=1.0) for step in range(1, 6)]
    again = [line(1, 2, eval_step=2, **{"eval/reward_mean": 0.1}), line(2, 2, eval_step=2, **{"eval/reward_mean": 0.2})]
    (tmp_path / "metrics.jsonl").write_bytes(b"".join([*played[:2], again[0], *played[2:], again[1]]))
    event = {"seq": 1, "type": "rl.resumed", "attempt": 2, "data": {"attempt": 2, "from_step": 2}}
    (tmp_path / "events.jsonl").write_bytes(encode_line(event))
    url = jobs(server, tmp_path, "metrics")
    assert server.http.get(url, params={"after_step": 5}).json()["points"] == []
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(line(2, 3, x=2.0) + line(2, 4, x=2.0))
    for after in (4, 5):
        page = server.http.get(url, params={"after_step": after, "open": 1}).json()
        assert by_key(page["points"]) == ({} if after == 4 else {(2, 3, "x"): 2.0, (2, 4, "x"): 2.0})
    assert by_key(server.http.get(url, params={"aliases": 0}).json()["points"]) == {
        **{(1, 1, "x"): 1.0, (1, 2, "x"): 1.0, (2, 3, "x"): 2.0},
        (2, 2, "eval/reward_mean"): 0.2,
    }


def test_spans_of_attempts() -> None:
    assert [tuple(span) for span in _spans([])] == [(1, float("inf"))]
    spans = _spans([Resumed(2, 8), Resumed(3, 4), Resumed(4, 9)])
    assert [tuple(span) for span in spans] == [(1, 4), (2, 4), (3, 9), (4, float("inf"))]
    assert Place(1, 10).before(2, 9) and not Place(None, 10).before(2, 9) and not Place(2, 9).before(1, 10)


def test_by_attempt(server: Server, runs: Runs) -> None:
    folder = runs("resumed")
    found = pages(server, jobs(server, folder, "metrics"), run_id="rl_0-2")
    points = {key: value for page in found for key, value in by_key(page).items()}
    assert points == {key: value for key, value in expected(folder).items() if key[0] == 2}


def test_a_run_without_metrics_yet(server: Server, tmp_path: Path) -> None:
    page = server.http.get(jobs(server, tmp_path / "none", "metrics")).json()
    assert page["points"] == [] and not page["has_more"] and page["next_after"] == {"attempt": 0, "step": -1}
