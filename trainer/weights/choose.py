"""Which transport a run's weights take. Pure but for the objects it makes."""

from __future__ import annotations

from pathlib import Path

from trainer.config import RunConfig
from trainer.devices import on_gpu
from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.weights.lora import LoraSync
from trainer.weights.slots import SlotSync
from trainer.weights.verified import VerifiedSync


def sync_mode(config: RunConfig, engine_kind: str) -> str:
    """`none`, `full` or `lora`. The local engine serves merged weights alone."""
    weight_sync = config.training.weight_sync
    if not weight_sync.enable or not weight_sync.targets:
        return "none"
    return "lora" if weight_sync.mode == "lora" and engine_kind == "vllm" else "full"


def why_files(config: RunConfig, engine_kind: str) -> str:
    """Why weights go through files, for the log: training.weight_sync.direct asks for better where it can be had."""
    if engine_kind != "vllm":
        return "the local engine reads them from files"
    if sync_mode(config, engine_kind) == "lora":
        return "an adapter is small, and vLLM loads adapters from files alone"
    if not config.training.weight_sync.direct:
        return "training.weight_sync.direct = false"
    if not on_gpu(config):
        return "there is no GPU to send them from"
    return "sending them from device to device is not built yet"


def choose(config: RunConfig, learner: LearnerProcess, engine: Engine, folder: Path) -> VerifiedSync | None:
    """None where training.weight_sync is off."""
    mode = sync_mode(config, engine.kind)
    if mode == "none":
        return None
    transport = LoraSync(learner, engine, folder) if mode == "lora" else SlotSync(learner, engine, folder)
    return VerifiedSync(transport, engine, learner, config.training.weight_sync.verify_every_k)
