"""Which transport a run's weights take. Pure but for the objects it makes."""

from __future__ import annotations

from pathlib import Path

from trainer.config import RunConfig
from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.weights.base import WeightSync
from trainer.weights.lora import LoraSync
from trainer.weights.slots import SlotSync


def sync_mode(config: RunConfig, engine_kind: str) -> str:
    """`none`, `full` or `lora`. The local engine serves merged weights alone."""
    weight_sync = config.training.weight_sync
    if not weight_sync.enable or not weight_sync.targets:
        return "none"
    return "lora" if weight_sync.mode == "lora" and engine_kind == "vllm" else "full"


def choose(config: RunConfig, learner: LearnerProcess, engine: Engine, folder: Path) -> WeightSync | None:
    """None where training.weight_sync is off."""
    mode = sync_mode(config, engine.kind)
    if mode == "none":
        return None
    return LoraSync(learner, engine, folder) if mode == "lora" else SlotSync(learner, engine, folder)
