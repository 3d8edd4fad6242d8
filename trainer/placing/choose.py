"""Which placing a run has (compute.launcher)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from trainer.config import RunConfig
from trainer.devices import gpus_per_node, local_gpus
from trainer.placing.base import Placing, PlacingError, Sink
from trainer.placing.local import LocalPlacing


def placing_of(config: RunConfig, sink: Sink) -> Placing:
    """Not started. `sink` gets what a launcher's own program prints. Raises PlacingError where it is not installed."""
    match config.compute.launcher:
        case "ray":
            from trainer.placing.ray import RayPlacing

            return RayPlacing(config, sink)
        case "slurm" if config.compute.nodes > 1:  # else the coordinator is on the one node
            from trainer.placing.slurm import SlurmPlacing

            return SlurmPlacing(config, sink)
    return LocalPlacing(local_gpus(config, os.environ)[0])


async def start(placing: Placing, config: RunConfig) -> None:
    """Returns once the nodes are there with the GPUs that were asked for. Raises PlacingError."""
    await placing.start()
    if config.compute.launcher == "local":
        return
    for node, wanted in zip(placing.nodes, gpus_per_node(config), strict=True):
        if len(node.gpus) < wanted:
            raise PlacingError(
                f"node {node.name} ({node.address}) gives {len(node.gpus)} GPUs, and {wanted} were asked for",
                "lower compute.gpu_count, or raise compute.nodes",
            )


async def check_shared(placing: Placing, written: list[Path], read: list[Path]) -> None:
    """That all nodes see what weights and checkpoints go through. Raises PlacingError, OSError.

    Args:
        written: folders of this run, into which a mark is put.
        read: files that are there.
    """
    if placing.address is None:
        return
    for folder in written:
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / f".mark-{secrets.token_hex(8)}"
        mark.write_text(mark.name)
        try:
            await placing.check_sees(mark)
        finally:
            mark.unlink(missing_ok=True)
    for file in read:
        await placing.check_sees(file)
