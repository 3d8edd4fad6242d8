"""Weights & Biases. Without a login, and wherever WANDB_MODE says so, it writes offline data for `wandb sync`."""

from __future__ import annotations

import os
from collections.abc import Mapping

import wandb

from trainer.trackers.base import RunFacts, Tracker, tag_list

TAG_CHARS = 64  # W&B refuses longer ones


class WeightsAndBiases(Tracker):
    def __init__(self, run: RunFacts, project: str) -> None:
        # prompt off: nobody may be there to answer; False: no key is known
        logged_in = "WANDB_MODE" in os.environ or wandb.login(prompt=False)
        self._run = wandb.init(
            project=project,
            id=run.job_id,
            name=run.name,
            dir=run.folder,
            mode=None if logged_in else "offline",
            resume="allow" if logged_in else None,  # offline runs of one id are joined when they are synced
            config={**run.config, "tags": dict(run.tags)},
            tags=[tag[:TAG_CHARS] for tag in tag_list(run.tags)],
            # console off: our stdout is read by a program
            settings=wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )
        self._run.define_metric("*", step_metric="step")  # its own step only grows, an evaluation's may be behind

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def close(self) -> None:
        self._run.finish()
        wandb.teardown()  # its process has written everything when it is gone
