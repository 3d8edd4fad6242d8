"""The reference policy of a KL penalty: the weights that the run started from (reference_placement "shared")."""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

from trainer.learner.batches import MicroBatch
from trainer.learner.policy import Policy, load_start

log = logging.getLogger("trainer.learner")


class Reference:
    """lora: the policy's own model with its adapters switched off, so no second copy of anything.

    full: a frozen copy of the start weights beside the policy, in the run's dtype: 2 bytes a parameter in bfloat16 or
    float16, 4 in float32. It is loaded at the first use, and a resumed run loads the same start weights.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._copy: nn.Module | None = None

    def load(self) -> None:
        """Makes ready what the first use would: an error of loading then comes at the start."""
        if self._policy.lora is None and self._copy is None:
            self._copy = load_start(self._policy.settings, self._policy.device).requires_grad_(False).eval()
            size = sum(p.numel() * p.element_size() for p in self._copy.parameters())
            log.info("the reference model is a second copy of the weights: %.1f MiB", size / 2**20)

    @torch.no_grad()
    def token_logprobs(self, batch: MicroBatch) -> Tensor:
        """[M] log-probability of every sampled token of a micro-batch; no gradient."""
        if self._policy.lora is not None:
            with self._policy.lora.switched_off():
                return self._policy.token_logprobs(batch).logp
        self.load()
        assert self._copy is not None
        return self._policy.token_logprobs(batch, model=self._copy).logp
