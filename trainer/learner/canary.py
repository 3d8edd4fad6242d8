"""The learner's side of the canary: log-probabilities of candidate tokens after fixed prefixes (DESIGN 5).

The pass is the one that training makes: packed, a shared beginning computed once, the output in fp32. No gradient. Each
rank computes all of it: it is small, and rank 0 answers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.frames import Frame
from trainer.learner.batches import MicroBatch, TrainSequence, pack
from trainer.learner.policy import Policy

Ids = NDArray[np.int32]


def answer(policy: Policy, frame: Frame) -> Frame:
    """canary {prefixes: [i32], candidates: [i32]} -> result {logprobs: [f32]}, one entry a prefix."""
    prefixes, candidates = ([np.frombuffer(b, dtype="<i4") for b in frame[key]] for key in ("prefixes", "candidates"))
    found = candidate_logprobs(policy, prefixes, candidates)
    return {"type": "result", "result": {"logprobs": [row.astype("<f4").tobytes() for row in found]}}


@torch.no_grad()
def candidate_logprobs(policy: Policy, prefixes: list[Ids], candidates: list[Ids]) -> list[NDArray[np.float32]]:
    """log p(candidate | prefix) at temperature 1, a row a prefix; -inf of a token that the model does not have.
    ValueError for a prefix that is empty."""
    found: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(prefixes)
    sequences = _sequences(prefixes)
    for batch in pack(sequences, policy.settings.micro_batch_tokens):
        # the last place of each sequence; the earlier ones are marked only to end the beginning that is shared
        ends = batch.column == torch.tensor([len(sequences[batch.rows[b]].ids) - 1 for b in batch.row.tolist()])

        def work(batch: MicroBatch = batch, ends: Tensor = ends) -> Tensor:
            return policy.logits(policy.hidden_states(batch)[ends]).log_softmax(-1)

        for row, values in zip(batch.rows, policy.run(work), strict=True):
            wanted = candidates[row].astype(np.int64)
            known = (wanted >= 0) & (wanted < len(values))
            found[row] = np.full(len(wanted), -np.inf, np.float32)
            found[row][known] = values[torch.from_numpy(wanted[known]).to(values.device)].cpu().numpy()
    return found


def _sequences(prefixes: list[Ids]) -> list[TrainSequence]:
    """Neighbours that begin alike are a group: their common beginning counts as prompt, the rest as sampled, and a
    token stands in for the one that would come next."""
    sequences: list[TrainSequence] = []
    group, shared = 0, 0
    for i, ids in enumerate(prefixes):
        if not len(ids):
            raise ValueError(f"prefix {i} of the canary is empty")
        if i == 0 or not np.array_equal(ids[:shared], prefixes[i - 1][:shared]) or len(ids) < shared:
            group, shared = group + 1, _common(ids, prefixes[i + 1] if i + 1 < len(prefixes) else ids)
        length = len(ids) + 1
        zeros = np.zeros(length, np.float32)
        mask = np.arange(length) >= max(1, shared)
        whole = np.append(ids, ids[-1]).astype(np.int64)
        sequences.append(TrainSequence(i, group, whole, mask, zeros, zeros, 1.0, np.ones(length, np.float32)))
    return sequences


def _common(a: Ids, b: Ids) -> int:
    """Tokens that both begin with, at most all but the last of the shorter one."""
    n = min(len(a), len(b)) - 1
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n
