"""Which GPUs each process of a run may see (CONFIG, [compute]). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.config import RunConfig

Devices = tuple[str, ...]  # as CUDA_VISIBLE_DEVICES names them; empty: on the CPU


def on_gpu(config: RunConfig) -> bool:
    return config.compute.topology.type not in (None, "cpu") and bool(config.compute.gpu_count)


def replica_devices(config: RunConfig, environ: Mapping[str, str]) -> list[Devices]:
    """Of each engine replica. In a split the learner has the first GPUs and the engine the last; colocated, they
    share the first."""
    if not on_gpu(config):
        return [()]
    topology, ours = config.compute.topology, _ours(config, environ)
    size = topology.tensor_parallel or 1
    if topology.type == "single_node_colocate":
        return [ours[:size]]
    wanted = topology.gpus_for_vllm or size
    own = ours[len(ours) - wanted :]
    return [own[i : i + size] for i in range(0, wanted - size + 1, size)]


def learner_devices(config: RunConfig, environ: Mapping[str, str]) -> Devices:
    if not on_gpu(config):
        return ()
    return _ours(config, environ)[: config.compute.topology.gpus_for_training or 1]


def reference_devices(config: RunConfig, environ: Mapping[str, str]) -> Devices:
    """Of a dedicated reference: those that follow the learner's."""
    if not on_gpu(config):
        return ()
    first = config.compute.topology.gpus_for_training or 1
    return _ours(config, environ)[first : first + (config.compute.topology.gpus_for_ref or 1)]


def learner_ranks(config: RunConfig) -> int:
    """One a GPU; one on the CPU."""
    return (config.compute.topology.gpus_for_training or 1) if on_gpu(config) else 1


def visible(devices: Sequence[str]) -> dict[str, str]:
    """The environment of a process that sees `devices` alone. Without any it must not see a GPU that is there."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(devices)}


def _ours(config: RunConfig, environ: Mapping[str, str]) -> Devices:
    """The GPUs of the run: the first of those that its own environment lets it see."""
    count = config.compute.gpu_count or 0
    named = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return tuple((named or [str(i) for i in range(count)])[:count])
