"""The coordinator's end of a dedicated reference (no torch): processes as the learner's, in another role."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trainer.learner import protocol
from trainer.learner.client import LearnerProcess


class ReferenceProcess(LearnerProcess):
    """Computes log-probabilities alone, on a GPU of its own."""

    role = "reference"

    async def fill(self, sequences: Sequence[protocol.Sequence]) -> None:
        """Puts `logp_reference` into the sequences of a step. Raises LearnerError."""
        reply = await self._ask("logprobs", sequences=[protocol.to_frame(s) for s in sequences])
        for sequence, logp in zip(sequences, reply["result"]["logprobs"], strict=True):
            sequence.logp_reference = logp


class ReferencePool:
    """A process for each of `compute.topology.gpus_for_ref`; on a CPU one."""

    def __init__(self, processes: Sequence[ReferenceProcess]) -> None:
        self.processes = processes

    async def fill(self, sequences: Sequence[protocol.Sequence]) -> None:
        """As that of a process; each has a part, in which neighbours stay neighbours. Raises LearnerError."""
        size = -(-len(sequences) // len(self.processes))
        parts = [sequences[i : i + size] for i in range(0, len(sequences), size)]
        await asyncio.gather(*(process.fill(part) for process, part in zip(self.processes, parts, strict=False)))
