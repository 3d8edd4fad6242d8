"""Training jobs of a server: their config and the job itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.sdk.lazy import lazily

if TYPE_CHECKING:
    from rltui.sdk.api.train.rl import RLJob, RLJobConfig

__all__ = ["RLJob", "RLJobConfig"]
__getattr__ = lazily(__name__, dict.fromkeys(__all__, "rltui.sdk.api.train.rl"))
