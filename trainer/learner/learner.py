"""One optimizer step from a batch of sequences, and the state that has to survive a restart."""

from __future__ import annotations

import time
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import torch

from trainer.learner.batches import MicroBatch, TrainSequence, decode, pack
from trainer.learner.loss import LOSSES, LossInput, LossOutput, sequence_weights
from trainer.learner.metrics import SequenceFigures, split_finite, step_metrics
from trainer.learner.noise import sequence_noise
from trainer.learner.optimizer import Optimizer, UpdateStats, schedule
from trainer.learner.policy import Policy, TokenLogprobs
from trainer.learner.protocol import LearnerInfo, LearnerSettings, Sequence, SequenceResult, StepResult

MAX_SKIPPED = 3
SETTABLE = ("learning_rate", "clip_eps_low", "clip_eps_high")


class TrainingFailed(RuntimeError):
    """The run cannot go on. The text says what happened; `hint` what to change."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class _Outcome:
    """What the micro-batches of one step left behind."""

    figures: dict[int, SequenceFigures]  # by row
    logp: dict[int, bytes]
    log_ratio: dict[int, float]
    loss: float = 0.0
    problem: str | None = None
    culprits: list[int] | None = None


class Learner:
    def __init__(self, settings: LearnerSettings) -> None:
        """ValueError for settings that cannot be followed."""
        if settings.variety not in LOSSES:
            raise ValueError(f"algorithm.variety {settings.variety!r} is not one of {', '.join(LOSSES)}")
        if settings.anchor != "behavior":
            raise ValueError(f"training.anchor {settings.anchor!r} is not supported by this learner: use 'behavior'")
        if settings.deterministic:
            torch.use_deterministic_algorithms(True)
        self.settings = settings
        self.policy = Policy(settings)
        self.optimizer = Optimizer(
            self.policy.trainable, weight_decay=settings.weight_decay, max_grad_norm=settings.max_grad_norm
        )
        self.steps = 0  # the last step that was taken, skipped ones included
        self.skipped = 0  # in a row
        self.sd_seq: float | None = None
        self.logp_noise: dict[str, float] | None = None  # of weight version 0

    @property
    def info(self) -> LearnerInfo:
        return LearnerInfo(
            parameters=self.policy.parameters,
            trainable=sum(p.numel() for p in self.policy.trainable.values()),
            device=str(self.policy.device),
            dtype=self.settings.dtype,
            step=self.steps,
        )

    def set(self, values: dict[str, float]) -> None:
        """Changes what may change while a run is going; ValueError names anything else."""
        for name, value in values.items():
            if name not in SETTABLE:
                raise ValueError(f"{name} cannot be changed while a run is going; these can: {', '.join(SETTABLE)}")
            setattr(self.settings, name, float(value))

    def step(self, step: int, frames: Items[Sequence]) -> StepResult:
        """Update number `step`. Raises TrainingFailed at the third skipped step in a row."""
        started = time.perf_counter()
        sequences = [decode(frame) for frame in frames]
        if not sequences:
            raise ValueError(f"step {step} has no sequence that carries gradient")
        outcome = self._forward_backward(sequences)
        forward_backward = time.perf_counter() - started
        self._measure_noise(sequences, outcome)
        update = None if outcome.problem else self._update(step)
        self.steps = step
        values = self._metrics(outcome, update) | {
            "optim/lr": self._rate(step),
            "optim/skipped": float(update is None),
            "time/forward_backward": forward_backward,
        }
        metrics, nonfinite = split_finite(values)
        result = StepResult(
            step=step,
            metrics=metrics,
            sequences=[_result(frames[row], f, outcome.logp[row]) for row, f in sorted(outcome.figures.items())],
            skipped=outcome.problem,
            culprits=outcome.culprits or [],
            nonfinite=nonfinite,
            seconds=time.perf_counter() - started,
        )
        self._count_skipped(result)
        return result

    def _forward_backward(self, sequences: list[TrainSequence]) -> _Outcome:
        settings, policy = self.settings, self.policy
        weights = sequence_weights(
            torch.tensor([s.weight for s in sequences], dtype=torch.float64),
            torch.tensor([int(s.mask.sum()) for s in sequences], dtype=torch.float64),
            settings.loss_aggregation,
        )
        denominator = float(weights.sum())
        outcome = _Outcome({}, {}, {})
        for batch in pack(sequences, settings.micro_batch_tokens):
            tokens = policy.token_logprobs(batch)
            data = _loss_input(batch, tokens, weights[batch.rows].float(), denominator, settings)
            output = LOSSES[settings.variety](data)
            _collect(outcome, batch, sequences, data, tokens, output)
            bad = _not_finite(outcome, batch, output)
            if bad:
                outcome.problem, outcome.culprits = "the loss is not finite", [sequences[r].n for r in bad]
                break
            with policy.arithmetic():
                output.loss.backward()
            if not np.isfinite(self.optimizer.grad_norm()):
                outcome.problem = "a gradient is not finite"
                outcome.culprits = [sequences[r].n for r in batch.rows]
                break
        if outcome.problem:
            self.optimizer.discard()
        return outcome

    def _update(self, step: int) -> UpdateStats:
        update = self.optimizer.step(self._rate(step))
        if not np.isfinite(update.update_ratio):
            raise TrainingFailed(
                f"the weights are no longer finite after step {step}; they were not synced",
                "lower training.learning_rate and resume from the last checkpoint",
            )
        self.policy.refresh()
        return update

    def _rate(self, step: int) -> float:
        s = self.settings
        return s.learning_rate * schedule(s.lr_schedule, step, s.warmup_steps, s.total_steps)

    def _measure_noise(self, sequences: list[TrainSequence], outcome: _Outcome) -> None:
        """Where no update lies between sampling and learning, only numeric noise moves a ratio."""
        fresh = [row for row in outcome.figures if sequences[row].lag == 0]
        if not fresh or outcome.problem:
            return
        measured = sequence_noise([outcome.log_ratio[row] for row in fresh])
        self.sd_seq = self.sd_seq if measured is None else measured
        if self.logp_noise is None and self.steps == 0:
            gap = np.abs(np.concatenate([outcome.figures[row].delta for row in fresh]))
            self.logp_noise = {"mean": float(gap.mean()), "sd": float(gap.std())}

    def _metrics(self, outcome: _Outcome, update: UpdateStats | None) -> dict[str, float]:
        s = self.settings
        values = {"gspo/loss": outcome.loss}
        values |= step_metrics(list(outcome.figures.values()), self.sd_seq, s.clip_eps_low, s.clip_eps_high)
        if update is not None:
            values["optim/grad_norm"] = update.grad_norm
            values["optim/clipped_frac"] = float(update.clipped)
            values["optim/update_ratio"] = update.update_ratio
        return values

    def _count_skipped(self, result: StepResult) -> None:
        self.skipped = self.skipped + 1 if result.skipped else 0
        if self.skipped >= MAX_SKIPPED:
            episodes = ", ".join(str(n) for n in result.culprits[:10])
            raise TrainingFailed(
                f"{self.skipped} steps in a row made no update: {result.skipped} (episodes {episodes})",
                "lower training.learning_rate, or set training.dtype to float32, and resume",
            )


def _loss_input(
    batch: MicroBatch,
    tokens: TokenLogprobs,
    weight: torch.Tensor,
    denominator: float,
    settings: LearnerSettings,
) -> LossInput:
    device = tokens.logp.device
    place = (batch.row.to(device), batch.column.to(device))
    logp = torch.zeros(batch.mask.shape, device=device).index_put(place, tokens.logp)
    return LossInput(
        logp=logp,
        anchor=batch.anchor.to(device),
        mask=batch.mask.to(device),
        advantage=batch.advantage.to(device),
        weight=weight.to(device),
        denominator=denominator,
        clip_eps_low=settings.clip_eps_low,
        clip_eps_high=settings.clip_eps_high,
    )


def _collect(
    outcome: _Outcome,
    batch: MicroBatch,
    sequences: list[TrainSequence],
    data: LossInput,
    tokens: TokenLogprobs,
    output: LossOutput,
) -> None:
    outcome.loss += output.loss.item()
    logp = data.logp.detach().cpu().numpy()
    entropies = np.split(
        tokens.entropy.double().cpu().numpy(), np.cumsum([int(sequences[r].mask.sum()) for r in batch.rows])
    )
    for b, row in enumerate(batch.rows):
        sequence = sequences[row]
        own = logp[b, : len(sequence.ids)]
        clip = "low" if output.clipped_low[b] else "high" if output.clipped_high[b] else "none"
        outcome.figures[row] = SequenceFigures(
            ratio=float(output.ratio[b]),
            weight=sequence.weight,
            clip=clip,
            delta=(own - sequence.logp_behavior)[sequence.mask].astype(np.float64),
            entropy=entropies[b],
        )
        outcome.logp[row] = own.astype("<f4").tobytes()
        outcome.log_ratio[row] = float(output.log_ratio[b])


def _not_finite(outcome: _Outcome, batch: MicroBatch, output: LossOutput) -> list[int]:
    """Rows whose log-ratio is not finite; all of the micro-batch if its loss is not and none stands out."""
    bad = [row for row in batch.rows if not np.isfinite(outcome.log_ratio[row])]
    return bad or ([] if np.isfinite(output.loss.item()) else batch.rows)


def _result(frame: Sequence, figures: SequenceFigures, logp: bytes) -> SequenceResult:
    gap = np.abs(figures.delta)
    return SequenceResult(
        n=frame.n,
        branch=frame.branch,
        ratio=figures.ratio,
        clip=figures.clip,
        gap_mean=float(gap.mean()),
        gap_sd=float(gap.std()),
        logp_learner=logp,
    )
