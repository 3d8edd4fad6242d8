"""Stands in for `python -m trainer run`: the real writer and control box, no model. For faults and signals.

FAKE_MODE: ok, failed, config (failed with status 2), refuse (ends before any status), crash (dies without a word),
killed (by a signal), deaf (never stops). FAKE_HOLD=STEP:FILE: behind that step, or before the
first (0), it waits until the file is there.
"""

import json
import os
import signal
import sys
import time

from trainer.rundir.control import ControlBox
from trainer.rundir.records import EpisodeRecord, TurnRecord
from trainer.rundir.writer import RunWriter

MODE = os.environ.get("FAKE_MODE", "ok")
STEPS = int(os.environ.get("FAKE_STEPS", "4"))
PACE_S = float(os.environ.get("FAKE_PACE_S", "0.05"))
HOLD, _, GO_ON = os.environ.get("FAKE_HOLD", "-1:").partition(":")
HOSTILE = "\x1b[2J\x1b]52;c;aGk=\x07plain\u202e text"


def answers(writer: RunWriter, iteration: int, reward: float) -> None:
    """An evaluation of four held-out seeds, whose model writes escape codes."""
    for seed in (163, 160, 161, 162):
        messages = [
            {"role": "user", "text": f"question {seed}"},
            {"role": "assistant", "text": f"{HOSTILE} {iteration}"},
        ]
        record = EpisodeRecord(
            cid=f"c{iteration}-{seed}",
            step=iteration * 2,
            iteration=iteration,
            split="eval",
            seed=seed,
            group=None,
            member=0,
            R=reward,
            turns=[TurnRecord(t=0, calls=[0], messages=messages)],
        )
        writer.episode(record)


def hold(step: int) -> None:
    while step == int(HOLD) and not os.path.exists(GO_ON):
        time.sleep(0.02)


def main() -> int:
    arguments = sys.argv[1:]
    run_dir = arguments[arguments.index("--run-dir") + 1]
    job_id = arguments[arguments.index("--job-id") + 1]
    if MODE == "refuse":
        error = {
            "type": "error",
            "code": "run_locked",
            "message": "the folder is in use",
            "hint": "stop that run",
        }
        print(json.dumps(error), flush=True)
        return 2
    asked: list[str] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None if MODE == "deaf" else asked.append("signal"))
    box = ControlBox(run_dir)
    writer = RunWriter(run_dir, job_id=job_id, label="fake")
    writer.status(state="starting", totals={"steps": STEPS, "iterations": STEPS // 2})
    writer.status(waiting={"for": "engine", "on": "loading weights", "since": time.time() - 3})
    time.sleep(PACE_S)
    writer.status(state="running", phase="training", waiting=None)
    writer.event("rl.warning", HOSTILE, step=0, level="warning", code="hostile")
    writer.event("rl.eval.summary", "held-out reward 0.250 at iteration 0", step=0, iteration=0)
    answers(writer, 0, 0.25)
    hold(0)
    for step in range(1, STEPS + 1):
        time.sleep(PACE_S)
        values = {"gspo/loss": -0.01 * step, "gspo/clip_frac_low": 0.01, "gspo/clip_frac_high": 0.02}
        values["optim/grad_norm"] = 0.25 * step
        if step % 2 == 0:
            values |= {"reward/mean": 0.1 * step, "throughput/samples_per_sec": 2.5}
        writer.metrics(values, step=step, iteration=(step + 1) // 2, epoch=0, weight_version=step)
        writer.status(step=step, iteration=step // 2, eta_s=float(STEPS - step))
        writer.beat()
        hold(step)
        if MODE in ("crash", "killed") and step == 2:
            print("the last words on stderr", file=sys.stderr, flush=True)
            if MODE == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(9)
        if MODE == "deaf":
            continue
        for request in box.take():
            for answer in ("accepted", "done"):
                data = {"control_id": request.control_id, "action": request.action}
                writer.event(f"rl.control.{answer}", request.action, step=step, **data)
            box.finish(request)
            asked.append(request.action)
        if asked:
            writer.status(state="cancelled", phase="done", end_reason="stopped")
            writer.close()
            return 130
    answers(writer, STEPS // 2, 0.5)
    if MODE in ("failed", "config"):
        error = {"code": "task_app_down", "message": HOSTILE, "hint": "start the task app"}
        writer.status(state="failed", phase="done", end_reason="error", error=error)
        writer.close()
        time.sleep(0.3)  # the status stands before the process has ended
        return 3 if MODE == "failed" else 2
    results = {
        "evaluation": {"first": 0.25, "last": 0.5, "best": 0.5},
        "iterations": STEPS // 2,
        "samples_per_sec": 2.5,
        "gen_tokens_per_sec": 40.0,
        "peak_rss_mb": 123,
    }
    engines = [{"url": "", "kind": "local", "version": STEPS, "state": "serving"}]
    writer.status(state="succeeded", phase="done", end_reason="completed", results=results, engines=engines)
    writer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
