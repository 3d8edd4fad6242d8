"""The largest passes that a step can have, made before anything depends on them (`Learner.rehearse`).

Without them the first long episode is the first time that its memory is needed, hours into a run. Two kinds of
micro-batch are filled to training.micro_batch_tokens, with no prompt shared and every token sampled: of sequences as
long as they may be, and of those for which attention keeps its scores (attention.py), which take more a token. A
micro-batch of groups that share their prompts keeps about as much at most, whatever its lengths: attention.py bounds
it. Two things come on top, some percent of a micro-batch each: a long prompt's keys and values may be there twice, and
the backward pass of a branch holds a copy of them for a moment.
"""

from __future__ import annotations

import resource

import numpy as np
import torch

from trainer.learner import parallel
from trainer.learner.attention import SHORT
from trainer.learner.batches import TrainSequence
from trainer.learner.protocol import LearnerSettings, RehearsalResult


def passes(settings: LearnerSettings, ranks: int) -> list[list[TrainSequence]]:
    """The sequences of each pass: a full micro-batch for each rank."""
    lengths = sorted({settings.max_seq_len, min(settings.max_seq_len, SHORT)})
    return [_filled(length, settings.micro_batch_tokens, ranks) for length in lengths]


def _filled(length: int, budget: int, ranks: int) -> list[TrainSequence]:
    lengths = [length] * max(1, budget // length)
    if (rest := budget - sum(lengths)) > 1:
        lengths.append(rest)
    return [_sequence(n, tokens) for n, tokens in enumerate(lengths * ranks)]


def _sequence(n: int, tokens: int) -> TrainSequence:
    """In a group of its own."""
    zeros, ones = np.zeros(tokens, np.float32), np.ones(tokens, np.float32)
    ids, mask = np.zeros(tokens, np.int64), np.arange(tokens) > 0
    return TrainSequence(n, n, ids, mask, zeros, ones, 1.0, ones, logp_reference=zeros, reward=zeros)


def begin(device: torch.device) -> None:
    """What follows is measured."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def result(settings: LearnerSettings, device: torch.device, seconds: float) -> RehearsalResult:
    """Of the rank that took most, on every rank. What the passes took is given back to the GPU."""
    peak, memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, None
    if device.type == "cuda":
        peak, memory = torch.cuda.max_memory_reserved(), torch.cuda.mem_get_info()[1]
        torch.cuda.empty_cache()
        torch.cuda.reset_accumulated_memory_stats()  # system/alloc_retries counts those of steps
    peak, memory = max(parallel.gather((peak, memory)))
    longest = settings.max_seq_len
    return RehearsalResult(max(settings.micro_batch_tokens, longest), longest, peak, seconds, memory)
