"""A task app of this process, for a job of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltui.sdk.lazy import lazily

if TYPE_CHECKING:
    from rltui.sdk.task.in_process import InProcessTaskApp

__all__ = ["InProcessTaskApp"]
__getattr__ = lazily(__name__, dict.fromkeys(__all__, "rltui.sdk.task.in_process"))
