"""Train language models by reinforcement learning from a terminal, or from a program: what the latter needs is here,
and loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rltui.sdk import InProcessTaskApp, RLConfig, RLJob, RLJobConfig

__all__ = ["InProcessTaskApp", "RLConfig", "RLJob", "RLJobConfig"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import rltui.sdk

    return getattr(rltui.sdk, name)
