"""Several ranks of one learner: who computes what, and how they agree. With one rank every function is the plain thing.

torchrun starts the ranks. The weights that are sharded are `DTensor`s (fully_shard, FSDP2: each layer is gathered for
its pass and given up after it); all other trainable tensors are replicas: the same values on every rank, since the same
gradient, summed over the ranks, steps them. A collective has to be called by all ranks in the same order: whatever
decides about one is decided by `agree`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from trainer.learner.batches import MicroBatch, TrainSequence, pack

TIMEOUT_S = 600  # of one collective; the longest wait is for the micro-batch of another rank
T = TypeVar("T")


def start() -> None:
    """Joins the other ranks, where torchrun started several. Repeatable."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT_S))


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


# --- agreeing


def agree(flag: bool) -> bool:
    """Whether it is true on any rank."""
    return total(float(flag)) > 0.0


def total(value: float) -> float:
    """The sum over all ranks."""
    if size() == 1:
        return value
    summed = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(summed)
    return summed.item()


def gather(value: T) -> list[T]:
    """That of each rank, on every rank; through pickle."""
    if size() == 1:
        return [value]
    found: list[Any] = [None] * size()
    dist.all_gather_object(found, value)
    return found


def sum_gradients(replicas: Iterable[Tensor]) -> None:
    """Sums the gradients of those that are not sharded, in one piece; the sharded ones have been, in each backward
    pass. Sharded tensors among them are passed by."""
    plain = [tensor for tensor in replicas if not isinstance(tensor, DTensor)]
    if size() == 1 or not plain:
        return
    for tensor in plain:
        if tensor.grad is None:
            tensor.grad = torch.zeros_like(tensor)
    together = torch.cat([tensor.grad.flatten() for tensor in plain])
    dist.all_reduce(together)
    for tensor, part in zip(plain, together.split([t.numel() for t in plain]), strict=True):
        tensor.grad.copy_(part.view_as(tensor))


# --- sharing out a step


def share(sequences: Items[TrainSequence], budget: int) -> list[MicroBatch]:
    """The micro-batches of this rank, out of those of all `sequences`.

    On every rank there are as many, for each is a round of collectives: a rank that has none left goes through an empty
    one, whose `rows` is []. Those of a round are about as long. Their budget is lowered as far as that shortens the
    rounds: the members of a group stay together where the prompt that they share is worth it.
    """
    ranks = size()
    if ranks == 1:
        return pack(sequences, budget)
    longest = max((len(s.ids) for s in sequences), default=1)
    budgets = [min(budget, max(1, sum(len(s.ids) for s in sequences)))]
    while budgets[-1] > longest:
        budgets.append(budgets[-1] // 2)
    plans = [sorted(pack(sequences, b), key=lambda batch: -len(batch.ids)) for b in budgets]
    plan = min(plans, key=lambda batches: sum(len(batch.ids) for batch in batches[::ranks]))
    mine = plan[rank() :: ranks]
    return mine + [_nothing()] * (math.ceil(len(plan) / ranks) - len(mine))


def _nothing() -> MicroBatch:
    """Two tokens that belong to no sequence."""
    mask, zeros = np.array([False, True]), np.zeros(2, np.float32)
    filler = TrainSequence(-1, -1, np.zeros(2, np.int64), mask, zeros, zeros, 0.0, np.ones(2, np.float32))
    return replace(pack([filler], 2)[0], rows=[])


# --- sharded weights


def shard(model: nn.Module, dtype: torch.dtype, device: torch.device, replicas: Items[nn.Parameter] = ()) -> None:
    """Cuts the weights of a causal language model into one part a rank, on `device`, layer by layer.

    What is trained has to be fp32: it is stepped as it is, gathered in `dtype`, and its gradients are summed in fp32.
    From now on the model computes nothing but within `run`.

    Args:
        replicas: parameters that stay whole on each rank.
    """
    mesh = init_device_mesh(device.type, (size(),))
    precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    kinds = set(getattr(model, "_no_split_modules", None) or ())
    for module in [*(m for m in model.modules() if type(m).__name__ in kinds), model]:
        fully_shard(module, mesh=mesh, mp_policy=precision, reshard_after_forward=True, ignored_params=set(replicas))
        assert isinstance(module, FSDPModule)
        module.set_gradient_divide_factor(1.0)  # the loss has its denominator already: a sum, no mean
        module.set_force_sum_reduction_for_comms(True)  # a plain sum, which gloo has too
    for parameter in replicas:
        parameter.data = parameter.data.to(device)
    # An attribute of the instance: what is left of the class's own forward are the hooks around it.
    model.forward = lambda work: work()


def run(model: nn.Module, work: Callable[[], T]) -> T:
    """`work`, a pass through parts of `model`, with the weights gathered that do not belong to one of its layers. It
    returns a tensor or a tuple of them."""
    return model(work) if isinstance(model, FSDPModule) else work()


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a sharded tensor, sharing its memory; another tensor itself."""
    return tensor.detach().to_local() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor gathered, by all ranks; another tensor itself."""
    return tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def as_shard(part: Tensor, like: Tensor) -> Tensor:
    """`part` as this rank's part of a tensor that is sharded as `like` is; `part` itself if that is not."""
    if not isinstance(like, DTensor):
        return part
    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a whole tensor, if it is sharded as `like` is; else `tensor`."""
    if not isinstance(like, DTensor):
        return tensor
    assert like.placements == (Shard(0),)
    parts = tensor.chunk(size())
    return parts[rank()] if rank() < len(parts) else tensor[:0]
