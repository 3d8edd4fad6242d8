"""The reference policy of a KL penalty: the weights that the run started from, in either reference_placement."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch import Tensor, nn

from trainer.learner import parallel
from trainer.learner.batches import MicroBatch
from trainer.learner.policy import CPU, Policy, adapted, load_start
from trainer.learner.protocol import LearnerSettings
from trainer.learner.start import load_adapter

log = logging.getLogger("trainer.learner")


def frozen_start(settings: LearnerSettings, device: torch.device) -> nn.Module:
    """The weights that the run started from: of qlora those of the 4-bit base. An adapter that it goes on with is part
    of them as it is of the policy."""
    quantised = settings.trainer_mode == "qlora"
    sharded, adapters = parallel.size() > 1 and not quantised, []
    model = load_start(settings, CPU if sharded else device)
    if quantised or settings.start_adapter:
        lora = adapted(model, settings, keep=not sharded)
        if settings.start_adapter:
            load_adapter(lora.model, Path(settings.start_adapter))
            lora.merge()
        adapters = [p for p in lora.model.parameters() if p.requires_grad]
    model.requires_grad_(False).eval()
    if sharded:
        parallel.shard(model, getattr(torch, settings.dtype), device, replicas=adapters)
    return model


class DedicatedReference:
    """A process of its own has computed them (reference_worker.py): they come with the sequences."""

    def load(self) -> None:
        """It has loaded its model itself."""

    def token_logprobs(self, batch: MicroBatch) -> Tensor:
        """[M]. ValueError where they are missing; a micro-batch without a sequence has none."""
        if not batch.rows:
            return torch.zeros(len(batch.target))
        if batch.reference is None:
            raise ValueError("sequences came without the log-probabilities of the dedicated reference")
        return batch.reference


class SharedReference:
    """On the learner's own device.

    lora: the policy's own model with its adapters switched off, so no second copy of anything.
    full, and an adapter that goes on from an earlier run (policy.source): a frozen copy of the start weights beside the
    policy, in the run's dtype: 2 bytes a parameter in bfloat16 or float16, 4 in float32. It is loaded at the first
    use, and a resumed run loads the same start weights.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._copy: nn.Module | None = None
        self._switches_off = policy.lora is not None and policy.settings.start_adapter is None

    def load(self) -> None:
        """Makes ready what the first use would: an error of loading then comes at the start."""
        if not self._switches_off and self._copy is None:
            self._copy = frozen_start(self._policy.settings, self._policy.device)
            size = sum(p.numel() * p.element_size() for p in self._copy.parameters())
            log.info("the reference model is a second copy of the weights: %.1f MiB", size / 2**20)

    @torch.no_grad()
    def token_logprobs(self, batch: MicroBatch) -> Tensor:
        """[M] log-probability of every sampled token of a micro-batch; no gradient."""
        if self._switches_off:
            assert self._policy.lora is not None
            with self._policy.lora.switched_off():
                return self._policy.token_logprobs(batch).logp
        self.load()
        assert self._copy is not None
        return self._policy.token_logprobs(batch, model=self._copy).logp
