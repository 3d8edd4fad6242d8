"""What a job server is told of a config (WIRE 3.3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.config import Loaded

Json = dict[str, Any]


def job_body(loaded: Loaded, config_file: Path, *, client: str, same_machine: bool = False) -> Json:
    """The body of POST jobs. `client`: who asks. `same_machine`: the server sees our files, so that the path of a
    task app, which is relative to where we stand, can be told to it. A rubric of a file beside the config goes with it,
    as what `rubric_overrides` says.

    Raises JudgeMisconfigured: that file is no rubric.
    """
    from trainer.config.given import given_values

    config = given_values(loaded)
    app = loaded.config.services.task_url
    if same_machine and "://" not in app and app.endswith(".py"):
        config.setdefault("services", {})["task_url"] = app = os.path.abspath(os.path.expanduser(app))
    judge = loaded.config.judge
    if judge.enabled and judge.options.rubric_id is not None:
        from trainer.judge.lookup import RUBRICS, carried

        if (rubric := carried(judge.options, config_file.parent / RUBRICS)) is not None:
            options = config["judge"]["options"]
            options["rubric_overrides"] = rubric
            del options["rubric_id"]
    return {"job_type": "rl", "data": {"endpoint_base_url": app, "config": config}, "metadata": {"client": client}}
