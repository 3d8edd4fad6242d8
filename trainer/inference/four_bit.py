"""How an engine serves the 4-bit base of qlora (CONFIG, policy.trainer_mode). Starts nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from trainer.config import RunConfig
from trainer.config.gpus import on_gpu
from trainer.inference.engine import EngineError

Form = Literal["quantised", "dequantised"]
PLUGIN = "vllm_bnb_plugin"  # where vLLM's bitsandbytes loader is since it left vLLM itself (0.28)


def four_bit_form(config: RunConfig, engine_kind: str) -> Form | None:
    """`quantised`: vLLM quantises the base as it loads it, by the same code as the learner. `dequantised`: it serves
    the base's NF4 weights, written out in the run's dtype. None: this run has no 4-bit base.

    Over several GPUs vLLM would quantise each part of a matrix for itself, in other blocks: then the second.

    Raises:
        EngineError: the engine can serve neither.
    """
    if config.policy.trainer_mode != "qlora":
        return None
    if engine_kind != "vllm":
        raise EngineError(
            "policy.trainer_mode = qlora needs an engine that serves an adapter on the 4-bit base; the local one "
            'serves merged weights alone: give inference.engine = "vllm", or trainer_mode = "lora"'
        )
    if config.inference.url is not None:
        raise EngineError(
            "policy.trainer_mode = qlora needs an engine that is started with the 4-bit base; the server at "
            'inference.url runs already: leave inference.url out, or give trainer_mode = "lora"'
        )
    alone = (config.compute.topology.tensor_parallel or 1) == 1
    return "quantised" if on_gpu(config) and alone and find_spec(PLUGIN) is not None else "dequantised"
