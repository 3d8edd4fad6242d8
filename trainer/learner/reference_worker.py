"""The process of a dedicated reference: log-probabilities of a step's sequences under the start weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Sequence as Items

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.frames import SCHEMA, Frame
from trainer.learner import answers
from trainer.learner.batches import TrainSequence, decode, pack
from trainer.learner.outcome import scatter
from trainer.learner.policy import Policy
from trainer.learner.protocol import LearnerInfo, LearnerSettings, Sequence, from_frame, to_frame
from trainer.learner.reference import frozen_start

log = logging.getLogger("trainer.learner")
ROLE = "reference"


class FrozenPolicy(Policy):
    """The start weights alone, in the run's dtype: the forward pass of a policy, and nothing to train."""

    def __init__(self, settings: LearnerSettings) -> None:
        self.settings, self.lora = settings, None
        self.dtype = getattr(torch, settings.dtype)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = frozen_start(settings, self.device)
        self._body, self._head = self._model.get_decoder(), self._model.get_output_embeddings()
        self.parameters = sum(p.numel() for p in self._model.parameters())

    @torch.no_grad()
    def sequence_logprobs(self, sequences: Items[TrainSequence]) -> list[NDArray[np.float32]]:
        """Of each sequence [T], 0 where its mask is 0; packed as the learner's step packs them."""
        found: dict[int, NDArray[np.float32]] = {}
        for batch in pack(sequences, self.settings.micro_batch_tokens):
            logp = scatter(batch, self.token_logprobs(batch).logp).cpu().numpy()
            found |= {row: logp[b, : len(sequences[row].ids)] for b, row in enumerate(batch.rows)}
        return [found[row] for row in range(len(sequences))]


def reference_answers() -> Callable[[Frame], Frame]:
    """Answers `hello`, `logprobs` and `stop` (protocol.py)."""
    policy: FrozenPolicy | None = None

    def hello(frame: Frame) -> Frame:
        nonlocal policy
        settings = from_frame(frame["settings"], LearnerSettings)
        policy = FrozenPolicy(settings)
        info = LearnerInfo(policy.parameters, 0, str(policy.device), settings.dtype)
        return {"type": "hello", "schema": SCHEMA, "rank": 0, "info": to_frame(info)}

    def logprobs(frame: Frame) -> Frame:
        assert policy is not None
        sequences = [decode(from_frame(entry, Sequence)) for entry in frame["sequences"]]
        found = policy.sequence_logprobs(sequences)
        return answers.result(logprobs=[logp.astype("<f4").tobytes() for logp in found])

    handlers = {"hello": hello, "logprobs": logprobs, "stop": lambda _: answers.result()}

    def answer(frame: Frame) -> Frame:
        handler = handlers.get(frame.get("type", ""))
        if handler is None or (policy is None and frame["type"] == "logprobs"):
            return answers.error(f"the reference has no answer to {frame.get('type')!r} now", "", fatal=False)
        try:
            return handler(frame)
        except Exception as error:  # answered, whatever it is
            log.debug("%s failed", frame["type"], exc_info=True)
            return answers.describe(error, ROLE)

    return answer
