"""The programming interface (WIRE 4): a job from a config, a task app in this process, and the config's classes.

from rltui.sdk import InProcessTaskApp, RLJob
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.sdk.lazy import lazily

if TYPE_CHECKING:
    from rltui.sdk.api.train.configs.rl import RLConfig
    from rltui.sdk.api.train.rl import RLJob, RLJobConfig
    from rltui.sdk.task.in_process import InProcessTaskApp

MODULES = {
    "InProcessTaskApp": "rltui.sdk.task.in_process",
    "RLConfig": "rltui.sdk.api.train.configs.rl",
    "RLJob": "rltui.sdk.api.train.rl",
    "RLJobConfig": "rltui.sdk.api.train.rl",
}
__all__ = ["InProcessTaskApp", "RLConfig", "RLJob", "RLJobConfig"]
__getattr__ = lazily(__name__, MODULES)
