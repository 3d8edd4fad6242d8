"""Fields of other kinds than they should be are left out of what a source hands out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltui.model.shape import EVENT, GROUP, STATUS, fitting
from rltui.sources.local import LocalRunSource
from trainer.rundir import RunWriter
from trainer.rundir.control import ControlBox, ask
from trainer.rundir.synth import SynthConfig, write_run

OTHERS = ("a word", 3, True, [1], {"a": 1}, 10**400, float("nan"), float("inf"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("shape") / "run", SynthConfig(episodes=64))


def test_a_record_as_it_should_be_stays_as_it_is(run: Path) -> None:
    status = json.loads((run / "status.json").read_bytes())
    assert fitting(status, STATUS) == status
    for name, shape in (("events.jsonl", EVENT), ("rollouts/groups.jsonl", GROUP)):
        for line in (run / name).read_text().splitlines():
            assert fitting(json.loads(line), shape) == json.loads(line)


@pytest.mark.parametrize("name", ["elapsed_s", "step", "phase", "totals", "warnings", "waiting", "error"])
def test_a_field_of_another_kind_is_a_missing_one(name: str) -> None:
    kept = [other for other in OTHERS if name in fitting({name: other, "state": "running"}, STATUS)]
    wanted = {"elapsed_s": [3], "step": [3], "phase": ["a word"], "warnings": [[1]]}.get(name, [{"a": 1}])
    assert kept == wanted
    assert fitting({name: None}, STATUS) == {name: None}


def test_what_lies_deeper_is_looked_at_too() -> None:
    pipeline = {"max": "8", "need": 4, "gpus": [{"index": 0, "util": "high"}, 7, None]}
    found = fitting({"pipeline": pipeline, "warnings": [1, {"text": ["x"]}], "new": {"x": [True]}}, STATUS)
    assert found == {"pipeline": {"need": 4, "gpus": [{"index": 0}]}, "warnings": [{}], "new": {"x": [True]}}
    assert fitting({"rewards": [1, "x", None, 0.5]}, GROUP) == {"rewards": [1, None, None, 0.5]}


def test_who_paused_a_run_is_known(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with RunWriter(tmp_path / "run", job_id="rl_1", label="x") as writer:
        ask(tmp_path / "run", "pause", client="rltui")
        (request,) = ControlBox(tmp_path / "run").take()
        writer.status(state="paused", paused={"reason": "request", "by": request.by, "since": 1.0})
    by = (LocalRunSource(tmp_path / "run").status() or {})["paused"]["by"]
    assert by == request.by and by["user"] and by["client"] == "rltui"


def test_a_source_hands_out_nothing_else(run: Path, tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "status.json").write_text('{"state": "failed", "elapsed_s": "long", "error": "no object", "step": 3}')
    (tmp_path / "events.jsonl").write_text('{"seq": 1, "step": "x", "type": ["t"], "message": 5, "data": [1]}\n')
    (tmp_path / "rollouts" / "groups.jsonl").write_text('{"step": 2, "attempt": 1, "rewards": {}, "std": "x"}\n')
    source = LocalRunSource(tmp_path)
    assert source.status() == {"state": "failed", "step": 3}
    assert source.events().rows == [{"seq": 1}]
    assert source.groups().rows == [{"step": 2, "attempt": 1}]
