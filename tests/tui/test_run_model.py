from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rltui.model import run as run_module
from rltui.model.judge_feed import JudgeFeed
from rltui.model.run import Change, RunModel
from rltui.sources.base import Slice
from rltui.sources.local import LocalRunSource
from trainer.rundir import RunReader, RunWriter
from trainer.rundir.synth import play, write_run
from trainer.rundir.synth_data import SynthConfig

N = 320


def settled(model: RunModel) -> set[str]:
    """Refresh until nothing is left to read; what changed on the way."""
    changed: set[str] = set()
    while True:
        change = model.refresh()
        changed |= change.what
        if not change.more:
            return changed


def picture(model: RunModel) -> dict[str, Any]:
    series = {}
    for name, pyramid in model.metrics.series.items():
        xs, ys = pyramid.points(0, len(pyramid))
        series[name] = list(zip(xs, ys, strict=True))
    return {
        "status": model.status,
        "events": model.events,
        "groups": model.groups,
        "checkpoints": model.checkpoints,
        "series": series,
        "latest": model.metrics.latest,
        "episodes": [model.episodes.n_at(i) for i in range(len(model.episodes))],
        "error": model.error,
    }


@pytest.mark.parametrize("kind", ["healthy", "resumed", "failed"])
def test_a_model_that_watched_all_along_equals_one_that_came_late(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "run"
    early = RunModel(LocalRunSource(root))
    assert early.live and settled(early) == set()
    for _ in play(root, SynthConfig(episodes=N, kind=kind)):
        assert {"status", "events", "metrics", "groups", "episodes"} <= settled(early)
    settled(early)
    late = RunModel(LocalRunSource(root))
    assert settled(late) == {"status", "events", "metrics", "groups", "episodes", "checkpoints"}
    assert picture(early) == picture(late) and not late.live
    assert settled(late) == set() and not late.refresh()


def test_its_numbers_are_those_of_the_record(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N, kind="resumed"))
    model, reader = RunModel(LocalRunSource(root)), RunReader(root)
    settled(model)
    merged = reader.metrics()
    for name in ("gspo/loss", "reward/mean", "entropy"):
        assert picture(model)["series"][name] == [(line["step"], line[name]) for line in merged if name in line]
    evals = [(line["eval_step"], line["eval/reward_mean"]) for line in merged if "eval_step" in line]
    assert picture(model)["series"]["eval/reward_mean"] == evals
    assert [group["group"] for group in model.groups] == [group["group"] for group in reader.groups()]
    assert [event["seq"] for event in model.events] == [event["seq"] for event in reader.events()]


def test_a_small_budget_gives_each_part_a_turn_and_says_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.rundir.reader.SLICE_LINES", 5)
    model = RunModel(LocalRunSource(write_run(tmp_path / "run", SynthConfig(episodes=N))))
    first = model.refresh(budget_s=0.0)
    assert first.more and "metrics" in first and len(model.groups) == 5 and len(model.episodes) > N
    count = 1
    while model.refresh(budget_s=0.0).more:
        count += 1
    assert count > 5 and len(model.groups) == 40


def test_only_the_newest_events_and_groups_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MAX_EVENTS", 10)
    monkeypatch.setattr(run_module, "MAX_GROUPS", 7)
    root = tmp_path / "run"
    model = RunModel(LocalRunSource(root))
    for _ in play(root, SynthConfig(episodes=N)):
        settled(model)
    settled(model)
    reader = RunReader(root)
    assert [event["seq"] for event in model.events] == [event["seq"] for event in reader.events()][-10:]
    assert [group["group"] for group in model.groups] == [group["group"] for group in reader.groups()][-7:]
    late = RunModel(LocalRunSource(root))
    settled(late)
    assert late.events == model.events


def test_a_part_that_cannot_be_read_is_an_error_and_the_rest_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "run"
    playing = play(root, SynthConfig(episodes=N))
    next(playing)
    model = RunModel(LocalRunSource(root))
    settled(model)
    points = len(model.metrics.series["gspo/loss"])
    os.rename(root / "metrics.jsonl", root / "aside")
    (root / "metrics.jsonl").symlink_to(root / "aside")
    next(playing)
    assert {"error", "events", "status"} <= settled(model)
    assert "metrics.jsonl cannot be read" in (model.error or "") and len(model.metrics.series["gspo/loss"]) == points
    assert "error" not in settled(model)
    os.replace(root / "aside", root / "metrics.jsonl")
    assert {"error", "metrics"} <= settled(model) and model.error is None
    assert len(model.metrics.series["gspo/loss"]) == points + 2


def test_a_dying_file_system_is_a_state_and_what_was_read_stays(tmp_path: Path) -> None:
    now = [0.0]
    root = write_run(tmp_path / "run", SynthConfig(episodes=64))
    source = LocalRunSource(root, clock=lambda: now[0])
    model = RunModel(source)
    settled(model)
    before = picture(model)

    def failing(*args: object, **kwargs: object) -> None:
        raise OSError(5, "Input/output error")

    source._reader.paths.open = failing  # type: ignore[method-assign]
    now[0] = 34.0
    assert settled(model) == {"error"} and model.age() == 34.0 and "Input/output error" in (model.error or "")
    assert picture(model) == before | {"error": model.error}
    del source._reader.paths.open
    assert settled(model) == {"error"} and model.age() == 0.0


def test_a_folder_that_vanishes_is_a_lost_source_and_what_was_read_stays(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N, judge=True))
    model = RunModel(LocalRunSource(root))
    judge = model.feed(JudgeFeed)
    settled(model)
    before, calls = picture(model), judge.calls.tries
    os.rename(root, tmp_path / "aside")
    assert settled(model) == {"error"} and "gone" in (model.error or "")
    assert picture(model) == before | {"error": model.error} and judge.calls.tries == calls > 0
    os.rename(tmp_path / "aside", root)
    assert settled(model) == {"error"} and picture(model) == before
    for path in sorted(root.rglob("*.json*")):
        path.unlink()
        settled(model)
        assert picture(model) | {"checkpoints": ()} == before | {"error": model.error, "checkpoints": ()}, path
    assert judge.calls.tries == calls


def test_a_folder_that_vanishes_before_it_was_read_is_lost(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=64))
    model = RunModel(LocalRunSource(root))
    shutil.rmtree(root)
    assert "error" in settled(model) and model.status is None and "gone" in (model.error or "")


def test_another_run_in_the_same_folder_begins_anew(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N))
    model = RunModel(LocalRunSource(root))
    settled(model)
    shutil.rmtree(root)
    write_run(root, SynthConfig(episodes=64, seed=9))
    assert {"events", "metrics", "groups", "episodes"} <= settled(model)
    late = RunModel(LocalRunSource(root))
    settled(late)
    assert picture(model) == picture(late)


def test_a_metrics_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", SynthConfig(episodes=N))
    model = RunModel(LocalRunSource(root))
    settled(model)
    lines = (root / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (root / "copy").write_bytes(b"".join(lines[:9]))
    os.replace(root / "copy", root / "metrics.jsonl")
    assert "metrics" in settled(model)
    assert len(model.metrics.series["gspo/loss"]) == sum(b'"gspo/loss"' in line for line in lines[:9])


def test_a_change_is_false_when_nothing_changed_but_may_say_more() -> None:
    assert not Change() and not Change(more=True) and Change(frozenset({"status"}))
    assert "status" in Change(frozenset({"status"})) and Slice([], None).rewind is None


def test_checkpoints_are_looked_for_when_the_status_tells_of_one(tmp_path: Path) -> None:
    root = tmp_path / "run"
    model = RunModel(LocalRunSource(root))
    seen = []
    for _ in play(root, SynthConfig(episodes=N, checkpoint_every=4)):
        settled(model)
        seen.append([checkpoint["step"] for checkpoint in model.checkpoints])
    assert seen[2] == [] and seen[3] == [8] and seen[7] == [8, 16] and seen[9] == [8, 16, 20]
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        writer.status(state="running")
    assert "status" in settled(model)
