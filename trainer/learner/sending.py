"""Weights from device to device, by vLLM's own trainer ends: an NCCL broadcast, or CUDA IPC on one GPU (DESIGN 5).

The coordinator speaks with the servers. So the control client that those ends ask for says nothing; over CUDA IPC it
keeps what would have been said, the handles of the tensors, for the coordinator to pass on.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from vllm.distributed.weight_transfer import ParamMeta, TrainerWeightTransferEngine, WeightSource
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo, IPCTrainerWeightTransferEngine
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo, NCCLTrainerWeightTransferEngine

from trainer.learner import parallel
from trainer.learner.policy import Policy


class PolicySource(WeightSource):
    """The weights that an engine is sent, gathered one by one, by all ranks in one order."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def metadata(self) -> list[ParamMeta]:
        return [ParamMeta(name, self._policy.dtype, tuple(shape)) for name, shape in self._policy.shapes.items()]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self._policy.weights())


class _Silent:
    """vLLM's control client (VLLMWeightSyncClient). `update`: what the servers were to be told of the last sending."""

    update: dict[str, Any]

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...
    def start_weight_update(self) -> None: ...
    def finish_weight_update(self, weight_version: str | None = None) -> None: ...

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.update = update_info


class Sender:
    """On every rank, whose calls are collective; rank 0 sends."""

    def __init__(self, policy: Policy) -> None:
        self._source, self._client = PolicySource(policy), _Silent()
        self._end: TrainerWeightTransferEngine | None = None

    def layout(self) -> dict[str, list[Any]]:
        """What is sent, as vLLM's update call wants it told. Raises RuntimeError where nothing can be sent."""
        if not torch.cuda.is_available():
            raise RuntimeError("the learner has no GPU to send weights from")
        sent = self._source.metadata()
        return {
            "names": [item.name for item in sent],
            "dtype_names": [str(item.dtype).removeprefix("torch.") for item in sent],
            "shapes": [list(item.shape) for item in sent],
        }

    def connect(self, way: str, address: str, port: int, world_size: int) -> None:
        """Over NCCL returns once all `world_size` ends have met at `address`. Raises RuntimeError and others."""
        info: NCCLTrainerInitInfo | IPCTrainerInitInfo
        if way == "ipc":
            info = IPCTrainerInitInfo(rank=parallel.rank())
            self._end = IPCTrainerWeightTransferEngine.trainer_init(info, client=self._client, source=self._source)
            return
        info = NCCLTrainerInitInfo(address, port, world_size, rank=parallel.rank())
        end = NCCLTrainerWeightTransferEngine.trainer_init(info, client=self._client, source=self._source)
        if end.model_update_group is not None and not end.model_update_group.available:
            raise RuntimeError("the NCCL library could not be loaded")  # vLLM says so in its log alone
        self._end = end

    def send(self) -> dict[str, Any]:
        """Over NCCL returns once all is sent. Over CUDA IPC what opens the tensors is returned: they are the learner's
        own, which must not change until the engine has read them."""
        assert self._end is not None
        self._end.send_weights()
        handles = self._client.update.pop("ipc_handles", None) if parallel.rank() == 0 else None
        if handles is None:
            return {}
        told = {name: self._client.update[name] for name in ("names", "dtype_names", "shapes")}
        return {**told, "ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode()}
