"""Requests to a run that is going: each answered, none claimed before it is done."""

import json
import time
from pathlib import Path

from tests.e2e.test_faults import wait_for
from tests.waiting import until
from trainer.rundir import RunReader, answer, ask

AHEAD_S = 3600  # as of another machine, or one whose clock is set back once the run has begun
CLOCK_AHEAD = f"import time\nright = time.time\ntime.time = lambda: right() + {AHEAD_S}"


def answered(run_dir: Path, control_id: str, timeout: float = 180) -> tuple[str, dict]:
    """done or refused, and the data of that event."""
    reader, deadline = RunReader(run_dir), time.monotonic() + timeout
    while time.monotonic() < deadline:
        state, data = answer(reader.events(0, 100_000), control_id)
        if state in ("done", "refused"):
            until((run_dir / "control" / "done" / f"{control_id}.json").is_file)  # it is told a moment before
            return state, data
        time.sleep(0.1)
    raise AssertionError(f"{control_id} is {state} after {timeout} s")


def test_a_run_is_steered_also_by_whoever_has_another_clock(trainer):
    sets = ["training.iterations_per_epoch=500", "training.batch_size=4", "training.log_interval=1"]
    process, run_dir = trainer.start(*sets, first=CLOCK_AHEAD)

    def say(action: str, **args) -> tuple[str, dict]:
        return answered(run_dir, ask(run_dir, action, args, client="test"))

    wait_for(run_dir, lambda status: status and status["step"] >= 1)
    # all or nothing
    state, data = say("set", **{"training.learning_rate": 5e-4, "training.group_size": 2})
    assert (state, data["reason"]) == ("refused", "not_live")
    state, data = say("set", **{"training.learning_rate": 5e-4, "training.clip_eps_low": -1})
    assert (state, data["reason"]) == ("refused", "invalid")
    state, data = say("set", **{"training.learning_rate": 2e-4, "checkpoint.every_n_iters": 0})
    assert state == "done" and data["old"]["training.learning_rate"] == 1e-3
    assert data["new"] == {"training.learning_rate": 2e-4, "checkpoint.every_n_iters": 0}

    state, data = say("resume")
    assert (state, data["reason"]) == ("refused", "wrong_state")
    assert say("pause")[0] == "done"
    status = json.loads((run_dir / "status.json").read_text())
    assert (status["state"], status["phase"], status["paused"]["reason"]) == ("paused", "paused", "request")
    assert status["paused"]["by"]["client"] == "test" and status["paused"]["since"] <= time.time() + AHEAD_S
    assert say("pause")[1]["reason"] == say("evaluate")[1]["reason"] == "wrong_state"
    paused_at = RunReader(run_dir).metrics()[-1]["step"]
    asked = ask(run_dir, "checkpoint", {}, client="test")
    if paused_at % 2 == 0:  # else it rests between the two updates of an iteration, and saves at its end
        state, data = answered(run_dir, asked)
        assert state == "done" and data["path"] == f"checkpoints/step_{paused_at}"
        assert json.loads((run_dir / "status.json").read_text())["phase"] == "paused"
    beat = json.loads((run_dir / "status.json").read_text())["beat"]
    wait_for(run_dir, lambda status: status["beat"] > beat)  # alive, and no step is made
    assert RunReader(run_dir).metrics()[-1]["step"] == paused_at
    assert say("resume")[0] == "done"
    wait_for(run_dir, lambda status: status["state"] == "running" and status["step"] > paused_at)
    assert json.loads((run_dir / "status.json").read_text())["paused"] is None
    assert answered(run_dir, asked)[0] == "done"

    state, data = say("evaluate")
    assert state == "done"
    evaluated = [line for line in RunReader(run_dir).metrics() if "eval/reward_mean" in line]
    assert data["iteration"] in {line["iteration"] for line in evaluated if line["step"] > 0}
    state, data = say("checkpoint")
    assert state == "done" and (run_dir / data["path"] / "STABLE").is_file()
    live = json.loads((run_dir / data["path"] / "state.json").read_text())["live"]
    assert live["training.learning_rate"] == 2e-4  # what was set holds on after a resume
    rates = [line["optim/lr"] for line in RunReader(run_dir).metrics() if "optim/lr" in line]
    assert rates[0] == 1e-3 and rates[-1] == 2e-4

    stop = ask(run_dir, "stop", client="test")
    run = trainer.finish(process, run_dir)
    assert run.code == 130 and answered(run_dir, stop)[0] == "done"
    assert run.status["state"] == "cancelled"
    types = [event["type"] for event in run.lines("events.jsonl")]
    assert types[-1] == "rl.job.cancelled" and list((run_dir / "control").glob("*.json")) == []

    left = ask(run_dir, "stop", client="test")  # nobody is there to take it
    process, _ = trainer.resume(run_dir)
    reached = run.status["step"]
    wait_for(run_dir, lambda status: status["attempt"] == 2 and status["step"] > reached)
    late = ask(run_dir, "kill", client="test")
    run = trainer.finish(process, run_dir)
    assert run.status["end_reason"] == "killed" and answered(run_dir, late)[0] == "done"
    state, data = answered(run_dir, left)
    assert (state, data["reason"]) == ("refused", "expired")
    assert [line["optim/lr"] for line in RunReader(run_dir).metrics() if "optim/lr" in line][-1] == 2e-4


def test_a_pause_that_comes_as_a_batch_is_ready_leaves_the_run_between_two_iterations(trainer):
    """There a checkpoint can be made. The way from the batch to its first update is made long here."""
    slow = """
import asyncio
import trainer.pipeline
unless = trainer.pipeline.unless
async def late(stopping, work):
    result = await unless(stopping, work)
    await asyncio.sleep(1)
    return result
trainer.pipeline.unless = late
"""
    process, run_dir = trainer.start("training.iterations_per_epoch=500", "training.batch_size=4", first=slow)
    wait_for(run_dir, lambda status: status and status["step"] >= 2)
    assert answered(run_dir, ask(run_dir, "pause", {}, client="test"))[0] == "done"
    state, data = answered(run_dir, ask(run_dir, "checkpoint", {}, client="test"))
    step = json.loads((run_dir / "status.json").read_text())["step"]
    assert state == "done" and data["path"] == f"checkpoints/step_{step}" and step % 2 == 0
    ask(run_dir, "kill", client="test")
    trainer.finish(process, run_dir)
