"""One optimizer step from a batch of sequences, the anchor of an iteration, and the state that a restart needs."""

from __future__ import annotations

import time
from collections.abc import Sequence as Items

import numpy as np
import torch
from torch import Tensor

from trainer.learner import parallel, proximal, rehearsal
from trainer.learner.batches import TrainSequence, decode
from trainer.learner.loss import LOSSES, sequence_weights
from trainer.learner.metrics import split_finite, step_metrics
from trainer.learner.noise import noise_of
from trainer.learner.optimizer import Optimizer, UpdateStats, schedule
from trainer.learner.outcome import Outcome, collect, loss_input, merged, not_finite, scatter, sequence_result
from trainer.learner.policy import Policy
from trainer.learner.protocol import (
    AnchoredSequence,
    AnchorResult,
    LearnerInfo,
    LearnerSettings,
    RehearsalResult,
    Sequence,
    StepResult,
)
from trainer.learner.reference import DedicatedReference, SharedReference
from trainer.learner.value import ValueHead, estimate

FAR_RATIO = 5.0  # |mean log-ratio| of a sequence that no update of ours explains
MAX_SKIPPED = 3
SETTABLE = ("learning_rate", "clip_eps_low", "clip_eps_high", "kl_coef")
ANCHORS = ("behavior", "proximal")
REFERENCES = ("none", "shared", "dedicated")


class TrainingFailed(RuntimeError):
    """The run cannot go on. The text says what happened; `hint` what to change."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Learner:
    """Policy, loss and optimizer of one run: `step` makes an update of its sequences (DESIGN 4), `anchor` fixes the
    log-probabilities of the proximal policy."""

    def __init__(self, settings: LearnerSettings) -> None:
        """ValueError for settings that cannot be followed."""
        if settings.variety not in LOSSES:
            raise ValueError(f"algorithm.variety {settings.variety!r} is not one of {', '.join(LOSSES)}")
        if settings.anchor not in ANCHORS:
            raise ValueError(f"training.anchor {settings.anchor!r} is not one of {', '.join(ANCHORS)}")
        if settings.reference not in REFERENCES:
            raise ValueError(
                f"compute.topology.reference_placement {settings.reference!r} is not one of {', '.join(REFERENCES)}"
            )
        _check_kl(settings.kl_coef, settings)
        if settings.deterministic:
            torch.use_deterministic_algorithms(True)
        self.settings = settings
        self.policy = Policy(settings)
        width = self.policy.config.get_text_config().hidden_size
        self.value = ValueHead(width, self.policy.device) if settings.variety == "ppo" else None
        self.optimizer = Optimizer(
            self.trainable, weight_decay=settings.weight_decay, max_grad_norm=settings.max_grad_norm
        )
        self.reference: SharedReference | DedicatedReference | None = None
        if settings.reference != "none":
            shared = settings.reference == "shared"
            self.reference = SharedReference(self.policy) if shared else DedicatedReference()
        if self.reference is not None and settings.kl_coef > 0:
            self.reference.load()
        self.steps = 0  # the last step that was taken, skipped ones included
        self.skipped = 0  # in a row
        self.sd_seq: float | None = None  # noise of a sequence's mean log-ratio, between engine and learner
        self.sd_clip: float | None = None  # noise of the log-ratio that the clip sees
        self._anchored_at: int | None = None  # `steps` when the proximal anchor was computed
        self.logp_noise: dict[str, float] | None = None  # of weight version 0

    @property
    def trainable(self) -> dict[str, Tensor]:
        """What the optimizer steps: the policy, and with ppo the value head."""
        return self.policy.trainable | (self.value.trainable if self.value is not None else {})

    @property
    def info(self) -> LearnerInfo:
        return LearnerInfo(
            parameters=self.policy.parameters,
            trainable=sum(p.numel() for p in self.trainable.values()),
            device=str(self.policy.device),
            dtype=self.settings.dtype,
            step=self.steps,
        )

    def set(self, values: dict[str, float]) -> None:
        """Changes what may change while a run is going, all or nothing; ValueError names what cannot be."""
        for name in values:
            if name not in SETTABLE:
                raise ValueError(f"{name} cannot be changed while a run is going; these can: {', '.join(SETTABLE)}")
        _check_kl(values.get("kl_coef", self.settings.kl_coef), self.settings)
        for name, value in values.items():
            setattr(self.settings, name, float(value))

    def rehearse(self) -> RehearsalResult:
        """The largest passes that a step can have, beside all that one finds in memory: the gradients of an earlier
        micro-batch and the optimizer's moments. Leaves nothing behind: no update, no gradient, no random number drawn.
        Numbers that are not finite take as much memory, and are the first step's to tell.
        """
        started, device = time.perf_counter(), self.policy.device
        rehearsal.begin(device)
        moments = self.optimizer.moments_to_come()
        try:
            for sequences in rehearsal.passes(self.settings, parallel.size()):
                for tensor in self.trainable.values():
                    tensor.grad = torch.zeros_like(tensor)
                self._forward_backward(sequences, rehearses=True)
        finally:
            self.optimizer.discard()
            del moments
        return rehearsal.result(self.settings, device, time.perf_counter() - started)

    def anchor(self, updates: Items[Items[Sequence]]) -> AnchorResult:
        """Log-probabilities of an iteration's sequences with the present weights, before its first update.

        Each step's sequences are packed as the step packs them, so that in the first one only what was masked in
        between moves the ratio.

        Args:
            updates: the sequences of each step; `lag` of the k-th counts the k steps before it.
        """
        started = time.perf_counter()
        found = []
        for k, frames in enumerate(updates):
            sequences = [decode(frame) for frame in frames]
            for frame, sequence, logp in zip(frames, sequences, self._logps(sequences), strict=True):
                mean = proximal.mean_log_ratio(logp, sequence.logp_behavior, sequence.mask)
                found.append((frame, logp, mean, sequence.lag == k))
        measured = noise_of([mean for _, _, mean, fresh in found if fresh and np.isfinite(mean)])
        self.sd_seq = self.sd_seq if measured is None else measured
        self._anchored_at = self.steps
        low, high = proximal.band(self.sd_seq)
        result = AnchorResult(low, high, [], self.sd_seq)
        for frame, logp, mean, _ in found:
            c = proximal.geometric_ratio(mean)
            masked = c < low or c > high  # not one that is no number: its step names it and is skipped
            result.sequences.append(AnchoredSequence(frame.n, frame.branch, c, masked, logp.astype("<f4").tobytes()))
        result.seconds = time.perf_counter() - started
        return result

    @torch.no_grad()
    def _logps(self, sequences: Items[TrainSequence]) -> list[np.ndarray]:
        """Of each sequence [T], 0 where its mask is 0."""
        found: dict[int, np.ndarray] = {}
        for batch in parallel.share(sequences, self.settings.micro_batch_tokens):
            logp = scatter(batch, self.policy.token_logprobs(batch).logp).cpu().numpy()
            found |= {row: logp[b, : len(sequences[row].ids)] for b, row in enumerate(batch.rows)}
        found = {row: logp for part in parallel.gather(found) for row, logp in part.items()}
        return [found[row] for row in range(len(sequences))]

    def step(self, step: int, frames: Items[Sequence]) -> StepResult:
        """Update number `step`. Raises TrainingFailed at the third skipped step in a row."""
        started = time.perf_counter()
        sequences = [decode(frame) for frame in frames]
        if not sequences:
            raise ValueError(f"step {step} has no sequence that carries gradient")
        for sequence in sequences:
            if (sequence.logp_proximal is None) == (self.settings.anchor == "proximal"):
                has = "no log-probabilities" if sequence.logp_proximal is None else "log-probabilities"
                raise ValueError(f"episode {sequence.n} has {has} of a proximal anchor: it is {self.settings.anchor}")
        outcome = self._forward_backward(sequences)
        forward_backward = time.perf_counter() - started
        self._refuse_far_ratios(sequences, outcome)
        self._measure_noise(sequences, outcome)
        update = None if outcome.problem else self._update(step)
        self.steps = step
        values = self._metrics(outcome, update) | {
            "optim/lr": self._rate(step),
            "optim/skipped": float(update is None),
            "time/forward_backward": forward_backward,
        }
        if self.policy.device.type == "cuda":
            retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
            values["system/alloc_retries"] = float(sum(parallel.gather(retries)))  # since the start, of all ranks
        metrics, nonfinite = split_finite(values)
        result = StepResult(
            step=step,
            metrics=metrics,
            sequences=[sequence_result(frames[row], sequences[row], row, outcome) for row in sorted(outcome.figures)],
            skipped=outcome.problem,
            culprits=outcome.culprits,
            nonfinite=nonfinite,
            seconds=time.perf_counter() - started,
        )
        self._count_skipped(result)
        return result

    def _forward_backward(self, sequences: list[TrainSequence], *, rehearses: bool = False) -> Outcome:
        """Ends at the first micro-batch whose loss or gradient is not finite, unless it `rehearses`."""
        settings, policy = self.settings, self.policy
        weights = sequence_weights(
            torch.tensor([s.weight for s in sequences], dtype=torch.float64),
            torch.tensor([int(s.mask.sum()) for s in sequences], dtype=torch.float64),
            settings.loss_aggregation,
        )
        denominator = float(weights.sum())
        outcome = Outcome()
        for batch in parallel.share(sequences, settings.micro_batch_tokens):
            reference = None
            if self.reference is not None and settings.kl_coef > 0:
                reference = self.reference.token_logprobs(batch)
            tokens = policy.token_logprobs(batch)
            loss, bad = tokens.logp.sum() * 0.0, []  # of a rank that has no sequence left
            if batch.rows:
                critic = None
                if self.value is not None:
                    critic = estimate(batch, sequences, scatter(batch, self.value(tokens.hidden)), settings)
                weight = weights[batch.rows].float()
                data = loss_input(batch, tokens.logp, reference, weight, denominator, settings, critic)
                output = LOSSES[settings.variety](data)
                collect(outcome, batch, sequences, data, tokens, output, settings.variety)
                loss, bad = output.loss, not_finite(outcome, batch, output)
            if not rehearses and parallel.agree(bool(bad)):
                outcome.problem, outcome.culprits = "the loss is not finite", [sequences[r].n for r in bad]
                break
            with policy.arithmetic():
                loss.backward()
            bad = [] if np.isfinite(self.optimizer.grad_norm()) else batch.rows
            if not rehearses and parallel.agree(bool(bad)):
                outcome.problem, outcome.culprits = "a gradient is not finite", [sequences[r].n for r in bad]
                break
        outcome = merged(parallel.gather(outcome))
        if outcome.problem:
            self.optimizer.discard()
        else:
            parallel.sum_gradients(self.trainable.values())
        return outcome

    def _refuse_far_ratios(self, sequences: list[TrainSequence], outcome: Outcome) -> None:
        """Where most ratios have left every bound, the surrogate says nothing of the policy, and clipping hides it."""
        far = [row for row, found in outcome.figures.items() if abs(found.mean_log_ratio) > FAR_RATIO]
        if outcome.problem is None and 2 * len(far) > len(outcome.figures):
            outcome.problem = (
                f"most ratios are beyond e^{FAR_RATIO:g} a token: the weights are far from those that sampled"
            )
            outcome.culprits = sorted({sequences[row].n for row in far})
            self.optimizer.discard()

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

    def _measure_noise(self, sequences: list[TrainSequence], outcome: Outcome) -> None:
        """Where no update lies between the anchor and this step, only numeric noise moves a ratio."""
        if outcome.problem:
            return
        figures = outcome.figures
        fresh = [row for row in figures if sequences[row].lag == 0]
        still = fresh
        if self.settings.anchor == "proximal":  # sd_seq is then measured with the anchor, before the mask
            still = list(figures) if self._anchored_at == self.steps else []
        elif (measured := noise_of([figures[row].mean_log_ratio for row in fresh])) is not None:
            self.sd_seq = measured
        if still and (measured := noise_of(np.concatenate([figures[row].log_ratios for row in still]))) is not None:
            self.sd_clip = measured
        if fresh and self.logp_noise is None and self.steps == 0:
            gap = np.abs(np.concatenate([figures[row].delta for row in fresh]))
            self.logp_noise = {"mean": float(gap.mean()), "sd": float(gap.std())}

    def _metrics(self, outcome: Outcome, update: UpdateStats | None) -> dict[str, float]:
        s = self.settings
        values = {"gspo/loss": outcome.loss}
        if outcome.value_loss is not None:
            values["ppo/value_loss"] = outcome.value_loss
        figures = list(outcome.figures.values())
        values |= step_metrics(figures, self.sd_seq, self.sd_clip, s.clip_eps_low, s.clip_eps_high)
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


def _check_kl(coefficient: float, settings: LearnerSettings) -> None:
    if coefficient < 0:
        raise ValueError(f"training.kl_coef {coefficient:g} is negative")
    if coefficient > 0 and settings.reference == "none":
        raise ValueError("training.kl_coef needs a reference model: compute.topology.reference_placement is none")
