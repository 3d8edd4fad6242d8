"""Which GPUs of which nodes each process of a run may see (CONFIG, [compute]). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainer.config import RunConfig
from trainer.config.gpus import on_gpu

Devices = tuple[str, ...]  # as CUDA_VISIBLE_DEVICES names them; empty: on the CPU


class Place(NamedTuple):
    """`node`: its number; here there is one."""

    node: int
    devices: Devices


def gpus_per_node(config: RunConfig) -> list[int]:
    """What a launcher is asked for: as even as they can be, the first nodes have one more."""
    count, nodes = (config.compute.gpu_count or 0) if on_gpu(config) else 0, config.compute.nodes
    return [count // nodes + (i < count % nodes) for i in range(nodes)]


def planned(config: RunConfig) -> list[Devices]:
    """The GPUs of each node, by numbers; for whoever has to know who shares, and not how they are called."""
    return [tuple(map(str, range(count))) for count in gpus_per_node(config)]


def local_gpus(config: RunConfig, environ: Mapping[str, str]) -> list[Devices]:
    """The GPUs of the run on this machine, its one node: the first of those that its environment lets it see."""
    count = config.compute.gpu_count or 0
    named = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return [tuple((named or [str(i) for i in range(count)])[:count])]


def replica_places(config: RunConfig, gpus: Sequence[Devices]) -> list[Place]:
    """Of each engine replica. In a split the learner has the first GPUs and the engine the last; colocated, they
    share the first. On the CPU there is one a node.

    Args:
        gpus: of each node.

    Raises:
        ValueError: a replica would lie on two nodes.
    """
    if not on_gpu(config):
        return [Place(node, ()) for node in range(config.compute.nodes)]
    topology, ours = config.compute.topology, _ours(config, gpus)
    size = topology.tensor_parallel or 1
    colocated = topology.type == "single_node_colocate"
    own = ours[:size] if colocated else ours[len(ours) - (topology.gpus_for_vllm or size) :]
    replicas = [_by_node(own[i : i + size]) for i in range(0, len(own) - size + 1, size)]
    for parts in replicas:
        if len(parts) > 1:
            raise ValueError(
                f"a replica on {size} GPUs (compute.topology.tensor_parallel) would lie on two nodes, which have "
                f"{' and '.join(str(len(ids)) for ids in gpus)} GPUs: choose counts of which each node has whole ones"
            )
    return [parts[0] for parts in replicas]


def learner_places(config: RunConfig, gpus: Sequence[Devices]) -> list[Place]:
    """Of the learner's ranks, one a GPU; on the CPU one a node. Those of a node follow each other."""
    if not on_gpu(config):
        return [Place(node, ()) for node in range(config.compute.nodes)]
    return _by_node(_ours(config, gpus)[: config.compute.topology.gpus_for_training or 1])


def reference_places(config: RunConfig, gpus: Sequence[Devices]) -> list[Place]:
    """Of a dedicated reference, a GPU each: those that follow the learner's."""
    if not on_gpu(config):
        return [Place(0, ())]
    first = config.compute.topology.gpus_for_training or 1
    own = _ours(config, gpus)[first : first + (config.compute.topology.gpus_for_ref or 1)]
    return [Place(node, (device,)) for node, device in own]


def ranks_of(places: Sequence[Place]) -> int:
    return sum(len(place.devices) or 1 for place in places)


def visible(devices: Sequence[str]) -> dict[str, str]:
    """The environment of a process that sees `devices` alone. Without any it must not see a GPU that is there."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(devices)}


def _ours(config: RunConfig, gpus: Sequence[Devices]) -> list[tuple[int, str]]:
    """(node, GPU) in order."""
    return [(node, device) for node, ids in enumerate(gpus) for device in ids][: config.compute.gpu_count or 0]


def _by_node(own: Sequence[tuple[int, str]]) -> list[Place]:
    found: dict[int, list[str]] = {}
    for node, device in own:
        found.setdefault(node, []).append(device)
    return [Place(node, tuple(ids)) for node, ids in found.items()]
