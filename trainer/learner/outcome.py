"""What the micro-batches of one step leave behind: figures for the metrics, log-probabilities for the record."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.learner.batches import MicroBatch, TrainSequence
from trainer.learner.loss import TOKEN_LEVEL, LossInput, LossOutput
from trainer.learner.metrics import SequenceFigures
from trainer.learner.policy import TokenLogprobs
from trainer.learner.protocol import LearnerSettings, Sequence, SequenceResult
from trainer.learner.value import Critic


@dataclass(slots=True)
class Outcome:
    """By row: the place of a sequence in the step's list. `problem` says why there can be no update."""

    figures: dict[int, SequenceFigures] = field(default_factory=dict)
    logp: dict[int, bytes] = field(default_factory=dict)
    loss: float = 0.0  # of the policy: without the critic's
    value_loss: float | None = None  # ppo
    advantage: dict[int, bytes] = field(default_factory=dict)  # ppo
    problem: str | None = None
    culprits: list[int] = field(default_factory=list)  # n of the episodes behind it


def merged(parts: Items[Outcome]) -> Outcome:
    """Of the whole step, from those of its ranks: each sequence is in one of them."""
    critics = [part.value_loss for part in parts if part.value_loss is not None]
    return Outcome(
        figures={row: figures for part in parts for row, figures in part.figures.items()},
        logp={row: logp for part in parts for row, logp in part.logp.items()},
        loss=sum(part.loss for part in parts),
        value_loss=sum(critics) if critics else None,
        advantage={row: values for part in parts for row, values in part.advantage.items()},
        problem=next((part.problem for part in parts if part.problem), None),
        culprits=sorted({n for part in parts for n in part.culprits}),
    )


def scatter(batch: MicroBatch, values: Tensor) -> Tensor:
    """[B, T] from values [M] of the sampled tokens; 0 elsewhere."""
    place = (batch.row.to(values.device), batch.column.to(values.device))
    return torch.zeros(batch.mask.shape, device=values.device).index_put(place, values)


def loss_input(
    batch: MicroBatch,
    logp: Tensor,
    reference: Tensor | None,
    weight: Tensor,
    denominator: float,
    settings: LearnerSettings,
    critic: Critic | None = None,
) -> LossInput:
    """logp and reference [M]: of the sampled tokens; weight [B]; with a critic its advantages take the place of the
    batch's."""
    device = logp.device
    advantage = batch.advantage.to(device) if critic is None else critic.advantage
    return LossInput(
        logp=scatter(batch, logp),
        anchor=batch.anchor.to(device),
        mask=batch.mask.to(device),
        advantage=advantage,
        weight=weight.to(device),
        correction=batch.correction.to(device),
        denominator=denominator,
        clip_eps_low=settings.clip_eps_low,
        clip_eps_high=settings.clip_eps_high,
        episode_tokens=settings.episode_tokens,
        reference=None if reference is None else scatter(batch, reference.to(device)),
        kl_coef=settings.kl_coef,
        value=None if critic is None else critic.value,
        returns=None if critic is None else critic.returns,
        value_coef=settings.value_coef,
    )


def collect(
    outcome: Outcome,
    batch: MicroBatch,
    sequences: Items[TrainSequence],
    data: LossInput,
    tokens: TokenLogprobs,
    output: LossOutput,
    variety: str,
) -> None:
    """Adds a micro-batch to `outcome`."""
    outcome.loss += output.loss.item()
    if output.value_loss is not None:
        part = output.value_loss.item()
        outcome.loss -= data.value_coef * part
        outcome.value_loss = (outcome.value_loss or 0.0) + part
    logp = data.logp.detach().cpu().numpy()
    entropies = np.split(
        tokens.entropy.double().cpu().numpy(), np.cumsum([int(sequences[r].mask.sum()) for r in batch.rows])
    )
    for b, row in enumerate(batch.rows):
        sequence = sequences[row]
        own, mask = logp[b, : len(sequence.ids)], sequence.mask
        mean = float(output.log_ratio[b])
        seen_by_clip = (own - sequence.anchor)[mask] if variety in TOKEN_LEVEL else np.array([mean])
        outcome.figures[row] = SequenceFigures(
            mean_log_ratio=mean,
            ratio=float(output.ratio[b]),
            log_ratios=seen_by_clip.astype(np.float64),
            weight=sequence.weight,
            correction=sequence.correction,
            clipped_low=float(output.clipped_low[b]),
            clipped_high=float(output.clipped_high[b]),
            delta=(own - sequence.logp_behavior)[mask].astype(np.float64),
            entropy=entropies[b],
            kl=None if output.kl is None else float(output.kl[b]),
            value=_sampled(data.value, b, mask),
            returns=_sampled(data.returns, b, mask),
        )
        outcome.logp[row] = own.astype("<f4").tobytes()
        if data.value is not None:
            outcome.advantage[row] = data.advantage[b, : len(mask)].cpu().numpy().astype("<f4").tobytes()


def _sampled(values: Tensor | None, b: int, mask: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """[T_i] of values [B, T]."""
    return None if values is None else values[b, : len(mask)].detach().double().cpu().numpy()[mask]


def not_finite(outcome: Outcome, batch: MicroBatch, output: LossOutput) -> list[int]:
    """Rows with a ratio that is not finite; all of the micro-batch if its loss is not and none stands out."""
    figures = outcome.figures
    bad = [row for row in batch.rows if not np.isfinite(figures[row].mean_log_ratio + figures[row].correction)]
    return bad or ([] if np.isfinite(output.loss.item()) else batch.rows)


def sequence_result(frame: Sequence, sequence: TrainSequence, row: int, outcome: Outcome) -> SequenceResult:
    """The answer for row `row` of a step: `frame` as it came, `sequence` as it was trained on."""
    figures = outcome.figures[row]
    gap = np.abs(figures.delta)
    return SequenceResult(
        n=frame.n,
        branch=frame.branch,
        ratio=figures.ratio,
        clip=figures.clip,
        gap_mean=float(gap.mean()),
        gap_sd=float(gap.std()),
        logp_learner=outcome.logp[row],
        prox=sequence.prox,
        advantage=outcome.advantage.get(row, b""),
    )
