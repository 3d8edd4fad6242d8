"""The files that an engine starts from: the model's own, or what has to be made of them first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainer.config import RunConfig
from trainer.devices import learner_places, visible
from trainer.errors import EXIT_CONFIG, RunError
from trainer.inference.choose import engine_kind
from trainer.inference.engine import EngineError
from trainer.inference.four_bit import four_bit_form
from trainer.inference.vllm.process import is_installed
from trainer.models import ResolvedModel
from trainer.placing.base import Placed, Placing, PlacingError, Sink
from trainer.processes import torch_environment

FOUR_BIT = "nf4"  # in the run's weights folder: qlora's base for an engine, written once an attempt


async def model_of_engine(
    config: RunConfig,
    model: ResolvedModel,
    placing: Placing,
    weights: Path,
    log: Callable[[str], Sink],
    started: Callable[[Placed], object],
) -> ResolvedModel:
    """`model` itself; with qlora, where the engine has no 4-bit form of its own, its dequantised weights. RunError.

    Args:
        weights: a folder; they are written below it.
        started: hears of the process that writes them, which it has to end.
    """
    if config.policy.trainer_mode != "qlora":
        return model
    try:
        form = four_bit_form(config, engine_kind(config, installed=is_installed()))
    except EngineError as error:
        raise RunError("config", str(error), exit_code=EXIT_CONFIG) from None
    if form != "dequantised":
        return model
    folder = weights / FOUR_BIT
    words = ["trainer.learner.qlora", str(model.path), str(folder), config.training.dtype]
    place = learner_places(config, [node.gpus for node in placing.nodes])[0]
    env = torch_environment(placing.nodes[place.node].cores) | visible(place.devices[:1])
    try:
        child = await placing.place(place.node, "model", ["-m", *words], sink=log("model"), env=env)
    except PlacingError as error:
        raise RunError("engine_down", str(error), error.hint) from None
    started(child)
    if await asyncio.shield(child.ended):
        hint = f"it needs room for a copy of {model.name} in {folder.parent}; see logs/model.log"
        raise RunError("engine_down", "the 4-bit base could not be written for the engine", hint, child.tail)
    return replace(model, path=folder)
