from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import until
from trainer.rundir import RunReader, RunWriter, ask
from trainer.rundir.synth import main, write_run
from trainer.rundir.synth_data import KINDS, SynthConfig

N = 320
EXPECTED = {
    "healthy": ("succeeded", "ended"),
    "running": ("running", "alive"),
    "collapsed": ("succeeded", "ended"),
    "stalled": ("running", "alive"),
    "crashed": ("running", "dead"),
    "torn": ("running", "dead"),
    "resumed": ("succeeded", "ended"),
    "failed": ("failed", "ended"),
}


def test_every_kind_is_expected_somewhere() -> None:
    assert EXPECTED.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(root: Path, kind: str) -> None:
    reader = RunReader(write_run(root, SynthConfig(episodes=N, kind=kind)))
    status = reader.status()
    assert status is not None and (status["state"], reader.liveness()) == EXPECTED[kind]
    resumes = reader.resumes()
    train = [row for row in reader.index() if row["split"] == "train" and reader.counts(row)]
    assert len(train) == N and reader.damaged == []
    steps = [m["step"] for m in reader.metrics() if "gspo/loss" in m]
    assert steps == list(range(1, 21))
    for row in train[:: N // 8]:
        assert reader.episode(row["n"])["cid"] == row["cid"]
        assert reader.token_block(row["arr"])["ids"].size == sum(row["tok"])
    dead = [group["iteration"] for group in reader.groups() if group["dead"]]
    assert bool(dead) == (kind == "collapsed") and all(iteration > 5 for iteration in dead)
    assert bool(resumes) == (kind == "resumed")
    assert any(row["excl"] for row in train) == (kind == "failed")
    assert (status["waiting"] is not None) == (kind == "stalled")
    rewards = [m["reward/mean"] for m in reader.metrics() if "reward/mean" in m]
    if kind == "healthy":
        assert rewards[-1] > rewards[0] + 0.1
        assert [c.resumable for c in reader.checkpoints()][-1] is True
    if kind == "failed":
        assert status["error"]["hint"] and reader.events()[-1]["type"] == "rl.job.failed"


def test_a_torn_run_is_taken_up_again(root: Path) -> None:
    write_run(root, SynthConfig(episodes=N, kind="torn"))
    reader = RunReader(root)
    count, seq = reader.episode_count(), reader.events()[-1]["seq"]
    with RunWriter(root, job_id="rl_0", label="x", attempt=2) as writer:
        assert (writer.next_n, writer.event("rl.resumed", "on", step=20, from_step=20)) == (count, seq + 1)
    for path in [root / "events.jsonl", root / "metrics.jsonl", *(root / "rollouts").glob("*.jsonl")]:
        assert path.read_bytes().endswith(b"\n"), path


def test_the_same_arguments_give_the_same_records(tmp_path: Path) -> None:
    config = SynthConfig(episodes=64, seed=3)
    a, b = write_run(tmp_path / "a", config), write_run(tmp_path / "b", config)
    other = write_run(tmp_path / "c", SynthConfig(episodes=64, seed=4))
    names = [path.relative_to(a) for path in sorted(a.rglob("*")) if path.is_file() and path.name != "status.json"]
    assert len(names) > 10
    assert all((a / name).read_bytes() == (b / name).read_bytes() for name in names)
    assert (a / "metrics.jsonl").read_bytes() != (other / "metrics.jsonl").read_bytes()


def test_command_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(root), "--episodes", "40", "--kind", "stalled", "--turns", "3"]) == 0
    assert capsys.readouterr().out.strip() == str(root)
    row = RunReader(root).index(-0, 1)[0]
    assert row["turns"] == 3
    assert main([str(root)]) == 2 and "not empty" in capsys.readouterr().err


def test_the_monitor_has_something_to_show(root: Path) -> None:
    reader = RunReader(write_run(root, SynthConfig(episodes=N, kind="running")))
    names = {name for line in reader.metrics() for name in line}
    wanted = "gspo/loss gspo/clip_noise_floor entropy reward/mean eval/reward_mean length/max time/weight_sync"
    assert names >= {*wanted.split(), "throughput/gen_tokens_per_sec", "system/gpu_util", "optim/grad_norm"}
    status = reader.status() or {}
    assert status["pipeline"]["need"] == 32 and len(status["pipeline"]["gpus"]) == 2 and status["lag"]["limit"]
    logs = {path.name: path.read_bytes() for path in (root / "logs").iterdir()}
    assert b"\r" in logs["learner-0.log"] and b"\x1b[2A" in logs["inference-0.log"]
    assert b"WARNING" not in logs["gateway.log"] and logs["coordinator.log"].count(b"\n") == 21


def test_a_live_run_grows_until_it_is_asked_to_stop(root: Path) -> None:
    words = [str(root), "--episodes", "64", "--live", "500"]
    playing = subprocess.Popen([sys.executable, "-m", "trainer.rundir.synth", *words], stdout=subprocess.DEVNULL)
    try:
        reader, deadline = RunReader(root), time.monotonic() + 60
        while reader.episode_count() < 150 and time.monotonic() < deadline:
            assert playing.poll() is None
            time.sleep(0.05)
        assert reader.liveness() == "alive"
        refused = ask(root, "pause", client="test")
        until(lambda: any(event["data"].get("control_id") == refused for event in reader.events()))
        control_id = ask(root, "stop", client="test")
        assert playing.wait(60) == 0
    finally:
        playing.kill()
    answers = [(event["type"], event["data"]["control_id"]) for event in reader.events() if "control" in event["type"]]
    assert answers[0] == ("rl.control.refused", refused)
    (why,) = (event["message"] for event in reader.events() if event["type"] == "rl.control.refused")
    assert why == "pause was refused: a synthetic run takes stop and kill alone"
    assert answers[1:] == [("rl.control.accepted", control_id), ("rl.control.done", control_id)]
    status = reader.status() or {}
    assert (status["state"], status["end_reason"]) == ("cancelled", "stopped") and reader.damaged == []
    steps = [line["step"] for line in reader.metrics() if "gspo/loss" in line]
    assert steps == list(range(1, len(steps) + 1))
