"""Packing sequences into forward passes that hold no padding and compute a group's prompt once.

A micro-batch is one flat run of tokens made of trees: `[prompt][completion 1][completion 2]...`. Every
completion continues the prompt and sees nothing of its siblings (attention.py); its position ids go on from
the prompt's end. A sequence of its own is a tree with one branch. Axes: N tokens of the micro-batch, M
sampled tokens, B sequences.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.learner.protocol import Sequence
from trainer.learner.proximal import correction, geometric_ratio, mean_log_ratio


@dataclass(frozen=True, slots=True)
class Tree:
    """Lengths of one tree in tokens: its prompt, then its branches in order."""

    prompt: int
    branches: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return self.prompt + sum(self.branches)


@dataclass(frozen=True, slots=True)
class TrainSequence:
    """A sequence as arrays. The first token is never sampled: nothing predicts it."""

    n: int
    group: int
    ids: NDArray[np.int64]  # [T]
    mask: NDArray[np.bool_]  # [T]
    logp_behavior: NDArray[np.float32]  # [T]
    advantage: NDArray[np.float32]  # [T]
    weight: float
    temperature: NDArray[np.float32]  # [T] of the call that sampled the token
    lag: int = 0
    logp_proximal: NDArray[np.float32] | None = None  # [T]; None: the anchor is the behaviour policy
    logp_reference: NDArray[np.float32] | None = None  # [T], of a dedicated reference
    reward: NDArray[np.float32] | None = None  # [T], 0 where mask is 0; what ppo's advantages are made of

    @property
    def prompt(self) -> int:
        """Tokens before the first sampled one."""
        return int(self.mask.argmax())

    @property
    def anchor(self) -> NDArray[np.float32]:
        """[T] log-probabilities in the denominator of the ratio."""
        return self.logp_behavior if self.logp_proximal is None else self.logp_proximal

    @property
    def prox(self) -> float | None:
        """c, the geometric mean of proximal / behaviour."""
        if self.logp_proximal is None:
            return None
        return geometric_ratio(mean_log_ratio(self.logp_proximal, self.logp_behavior, self.mask))

    @property
    def correction(self) -> float:
        """What the sequence's loss is weighed by."""
        return 1.0 if self.prox is None else correction(self.prox)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One forward pass. `rows` are the places of its sequences in the step's list, in the order of B."""

    rows: list[int]
    trees: list[Tree]
    ids: Tensor  # [N] int64
    positions: Tensor  # [N] int64
    source: Tensor  # [M] place in N whose hidden state predicts the token
    target: Tensor  # [M] the token
    row: Tensor  # [M] index in B
    column: Tensor  # [M] place in the sequence
    temperature: Tensor  # [M]
    mask: Tensor  # [B, T] bool
    anchor: Tensor  # [B, T] log-probabilities of the anchor policy
    advantage: Tensor  # [B, T]
    correction: Tensor  # [B] importance weight of anchor over behaviour
    reference: Tensor | None = None  # [M] log-probabilities of a dedicated reference


def decode(sequence: Sequence) -> TrainSequence:
    """The arrays of a frame. ValueError names the episode whose arrays do not fit together."""
    ids = np.frombuffer(sequence.ids, dtype="<i4").astype(np.int64)
    mask = np.frombuffer(sequence.mask, dtype="u1").astype(bool)
    logp = np.frombuffer(sequence.logp_behavior, dtype="<f4").astype(np.float32)
    advantage = np.full(len(ids), sequence.advantage, dtype=np.float32)
    if sequence.token_advantage:
        advantage = np.frombuffer(sequence.token_advantage, dtype="<f4").astype(np.float32)
    temperature = np.full(len(ids), sequence.temperature, dtype=np.float32)
    if sequence.token_temperature:
        temperature = np.frombuffer(sequence.token_temperature, dtype="<f4").astype(np.float32)
    proximal = np.frombuffer(sequence.logp_proximal, dtype="<f4").astype(np.float32) if sequence.logp_proximal else None
    reward = np.zeros(len(ids), dtype=np.float32)
    if sequence.token_reward:
        reward = np.frombuffer(sequence.token_reward, dtype="<f4").astype(np.float32)
    elif mask.any():
        reward[np.flatnonzero(mask)[-1]] = sequence.reward
    lengths = {len(ids), len(mask), len(logp), len(advantage), len(temperature), len(reward)}
    reference = None
    if sequence.logp_reference:
        reference = np.frombuffer(sequence.logp_reference, dtype="<f4").astype(np.float32)
    lengths |= {len(array) for array in (proximal, reference) if array is not None}
    if len(lengths) != 1:
        raise ValueError(f"episode {sequence.n}: its arrays have unequal lengths {sorted(lengths)}")
    if not mask.any() or mask[0]:
        raise ValueError(f"episode {sequence.n}: a sequence needs a prompt and at least one sampled token")
    if not (temperature[mask] > 0.0).all():
        raise ValueError(f"episode {sequence.n}: temperature {temperature[mask].min()} is not positive")
    if not np.isfinite(reward).all() or reward[~mask].any():
        raise ValueError(f"episode {sequence.n}: a reward is not finite, or not at a sampled token")
    return TrainSequence(
        n=sequence.n,
        group=sequence.group,
        ids=ids,
        mask=mask,
        logp_behavior=logp,
        advantage=advantage,
        weight=sequence.weight,
        temperature=temperature,
        lag=sequence.lag,
        logp_proximal=proximal,
        logp_reference=reference,
        reward=reward,
    )


def pack(sequences: Items[TrainSequence], budget: int) -> list[MicroBatch]:
    """Micro-batches of at most `budget` tokens, in order; a longer sequence has one to itself."""
    batches: list[list[list[int]]] = []
    room = 0
    for tree in _trees(sequences, budget):
        need = _shape(sequences, tree).tokens
        if not batches or need > room:
            batches.append([])
            room = budget
        batches[-1].append(tree)
        room -= need
    return [_build(sequences, trees) for trees in batches]


def _trees(sequences: Items[TrainSequence], budget: int) -> list[list[int]]:
    """Rows of each tree: neighbours of one group whose sequences begin with the first one's prompt."""
    trees: list[list[int]] = []
    room = 0
    for row, sequence in enumerate(sequences):
        first = sequences[trees[-1][0]] if trees else sequence
        more = len(sequence.ids) - first.prompt
        if trees and more <= room and _continues(sequence, first):
            trees[-1].append(row)
            room -= more
        else:
            trees.append([row])
            room = budget - len(sequence.ids)
    return trees


def _continues(sequence: TrainSequence, first: TrainSequence) -> bool:
    shared = first.prompt
    return (
        sequence.group == first.group
        and sequence.prompt >= shared
        and bool(np.array_equal(sequence.ids[:shared], first.ids[:shared]))
    )


def _shape(sequences: Items[TrainSequence], tree: list[int]) -> Tree:
    prompt = sequences[tree[0]].prompt
    return Tree(prompt, tuple(len(sequences[row].ids) - prompt for row in tree))


def _build(sequences: Items[TrainSequence], trees: list[list[int]]) -> MicroBatch:
    rows = [row for tree in trees for row in tree]
    width = max(len(sequences[row].ids) for row in rows)
    ids: list[NDArray[np.int64]] = []
    positions: list[NDArray[np.int64]] = []
    source: list[NDArray[np.int64]] = []
    target: list[NDArray[np.int64]] = []
    column: list[NDArray[np.int64]] = []
    sampled_row: list[NDArray[np.int64]] = []
    temperature: list[NDArray[np.float32]] = []
    reference: list[NDArray[np.float32]] = []
    mask = np.zeros((len(rows), width), dtype=bool)
    anchor = np.zeros((len(rows), width), dtype=np.float32)
    advantage = np.zeros((len(rows), width), dtype=np.float32)
    at = 0
    for tree in trees:
        first = sequences[tree[0]]
        shared, start = first.prompt, at
        ids.append(first.ids[:shared])
        positions.append(np.arange(shared))
        at += shared
        for row in tree:
            sequence, b = sequences[row], len(sampled_row)
            length = len(sequence.ids)
            ids.append(sequence.ids[shared:])
            positions.append(np.arange(shared, length))
            places = np.flatnonzero(sequence.mask)
            # What predicts a branch's first token is the prompt's last one, not its neighbour to the left.
            source.append(np.where(places == shared, start + shared - 1, at + places - shared - 1))
            target.append(sequence.ids[places])
            sampled_row.append(np.full(len(places), b))
            column.append(places)
            temperature.append(sequence.temperature[places])
            if sequence.logp_reference is not None:
                reference.append(sequence.logp_reference[places])
            mask[b, :length] = sequence.mask
            anchor[b, :length] = sequence.anchor
            advantage[b, :length] = sequence.advantage
            at += length - shared
    return MicroBatch(
        rows=rows,
        trees=[_shape(sequences, tree) for tree in trees],
        ids=torch.from_numpy(np.concatenate(ids)),
        positions=torch.from_numpy(np.concatenate(positions)),
        source=torch.from_numpy(np.concatenate(source)),
        target=torch.from_numpy(np.concatenate(target)),
        row=torch.from_numpy(np.concatenate(sampled_row)),
        column=torch.from_numpy(np.concatenate(column)),
        temperature=torch.from_numpy(np.concatenate(temperature)),
        mask=torch.from_numpy(mask),
        anchor=torch.from_numpy(anchor),
        advantage=torch.from_numpy(advantage),
        correction=torch.tensor([sequences[row].correction for row in rows], dtype=torch.float32),
        reference=torch.from_numpy(np.concatenate(reference)) if len(reference) == len(rows) else None,
    )
