"""What a job server is told of a config (WIRE 3.3)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.config import Loaded

Json = dict[str, Any]


def job_body(loaded: Loaded, *, client: str, same_machine: bool = False) -> Json:
    """The body of POST jobs. `client`: who asks. `same_machine`: the server sees our files, so that the path of a
    task app, which is relative to where we stand, can be told to it."""
    from trainer.config.given import given_values

    config = given_values(loaded)
    app = loaded.config.services.task_url
    if same_machine and "://" not in app and app.endswith(".py"):
        config.setdefault("services", {})["task_url"] = app = os.path.abspath(os.path.expanduser(app))
    return {"job_type": "rl", "data": {"endpoint_base_url": app, "config": config}, "metadata": {"client": client}}
