"""In the coordinator's place: notes its pid in `starts`, and writes a run until `finish` stands beside the runs folder.

A run whose folder begins with `real-` is a real one.
"""

import os
import sys
import time
from pathlib import Path

from trainer.rundir.control import ControlBox
from trainer.rundir.lock import RunLock
from trainer.rundir.records import EpisodeRecord, TurnRecord
from trainer.rundir.writer import RunWriter

PACE_S = float(os.environ.get("PACE_S", "0.1"))
PLANNED = 100_000  # steps


def step_of(writer: RunWriter, step: int) -> None:
    """All that one step records: each of it once in a run."""
    turn = TurnRecord(t=0, calls=[0], messages=[{"role": "assistant", "text": f"answer {step}"}])
    writer.episode(
        EpisodeRecord(
            cid=f"c{step}",
            step=step,
            iteration=step,
            split="train",
            seed=step,
            group=step,
            member=0,
            R=0.5,
            turns=[turn],
        )
    )
    values = {"gspo/loss": 1 / step, "reward/mean": 0.5}
    writer.metrics(values, step=step, iteration=step, epoch=0, weight_version=step)
    writer.event("rl.train.step", f"step {step}", step=step, loss=1 / step)
    if step % 10 == 0:
        writer.status(step=step, iteration=step)
        writer.beat()


def main() -> None:
    run_dir = Path(sys.argv[sys.argv.index("--run-dir") + 1])
    job_id = sys.argv[sys.argv.index("--job-id") + 1]
    with (run_dir / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if run_dir.name.startswith("real-"):
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    finish, box, step = run_dir.parents[1] / "finish", ControlBox(run_dir), 0
    with RunLock(run_dir), RunWriter(run_dir, job_id=job_id, label="stand-in") as writer:
        writer.status(state="running", phase="training", totals={"steps": PLANNED, "iterations": PLANNED})
        while not finish.exists():
            step += 1
            step_of(writer, step)
            if requests := box.take():
                for request in requests:
                    box.finish(request)
                writer.event("rl.job.cancelled", "stopped", step=step)
                writer.status(state="cancelled", phase="done", end_reason="stopped", step=step, iteration=step)
                return
            time.sleep(PACE_S)
        writer.event("rl.job.completed", "completed", step=step)
        writer.status(state="succeeded", phase="done", end_reason="completed", step=step, iteration=step)


if __name__ == "__main__":
    main()
