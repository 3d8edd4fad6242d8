"""Which transport a run's weights take. Pure but for the objects it makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from trainer.config import RunConfig
from trainer.config.gpus import on_gpu
from trainer.devices import learner_places, planned, replica_places
from trainer.inference.engine import Engine
from trainer.learner.client import LearnerProcess
from trainer.placing.base import Placing
from trainer.placing.local import LocalPlacing
from trainer.weights.base import WeightSync
from trainer.weights.direct import DirectSync, Way
from trainer.weights.lora import LoraSync
from trainer.weights.slots import SlotSync
from trainer.weights.verified import VerifiedSync


def sync_mode(config: RunConfig, engine_kind: str) -> str:
    """`none`, `full` or `lora`. The local engine serves merged weights alone."""
    weight_sync = config.training.weight_sync
    if not weight_sync.enable or not weight_sync.targets:
        return "none"
    return "lora" if weight_sync.mode == "lora" and engine_kind == "vllm" else "full"


def way_of(config: RunConfig, engine_kind: str) -> tuple[Way | None, str]:
    """How weights go from device to device, and why so or, with None, through files (training.weight_sync.direct)."""
    if engine_kind != "vllm":
        return None, "the local engine reads them from files"
    if sync_mode(config, engine_kind) == "lora":
        return None, "an adapter is small, and vLLM loads adapters from files alone"
    if not config.training.weight_sync.direct:
        return None, "training.weight_sync.direct = false"
    if config.inference.url is not None:
        return None, "a server that is not ours reads them from files"
    if not on_gpu(config):
        return None, "there is no GPU to send them from"
    if config.policy.trainer_mode != "full":
        return None, "a merged copy has the adapted layers alone, and needs the model's own files for the others"
    gpus = planned(config)
    learner, engines = learner_places(config, gpus), replica_places(config, gpus)
    used = [{(place.node, device) for place in places for device in place.devices} for places in (learner, engines)]
    if not used[0] & used[1]:
        return "nccl", "learner and engine have GPUs of their own"
    if len(used[0]) == 1 and engines == learner:
        return "ipc", "learner and engine share one GPU"
    return None, "learner and engine share GPUs, and CUDA IPC is for one GPU alone"


def choose(
    config: RunConfig,
    learner: LearnerProcess,
    engine: Engine,
    folder: Path,
    tell: Callable[[str], object] = lambda text: None,
    *,
    engine_starts_behind: bool = False,
    placing: Placing | None = None,
) -> VerifiedSync | None:
    """None where training.weight_sync is off.

    Args:
        tell: hears which way weights go, and why.
        placing: of learner and engine; by default this machine.
        engine_starts_behind: the learner starts from an adapter, and the engine from the model that it is for.
    """
    mode, (way, why) = sync_mode(config, engine.kind), way_of(config, engine.kind)
    if mode == "none":
        return None
    tell(f"weights go {f'from device to device ({way})' if way else 'through files'}: {why}")
    transport: WeightSync
    if way is not None:
        nodes = placing or LocalPlacing()
        meet = partial(_meeting, nodes, learner_places(config, planned(config))[0].node)
        transport = DirectSync(way, learner, engine, folder, tell, meet)
    else:
        transport = LoraSync(learner, engine, folder) if mode == "lora" else SlotSync(learner, engine, folder)
    every_k = config.training.weight_sync.verify_every_k
    return VerifiedSync(transport, engine, learner, every_k, send_first=engine_starts_behind and mode != "lora")


async def _meeting(placing: Placing, node: int) -> tuple[str, int]:
    """Where the ends of a communicator meet: at rank 0 of the learner. Raises PlacingError."""
    return placing.nodes[node].address, await placing.free_port(node)
