"""How much room checkpoints take, by the tensors in them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}  # of a parameter, by training.dtype


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of a checkpoint: of what stays, and of the optimizer state that only the newest has."""

    weights: int
    optimizer: int

    @property
    def newest(self) -> int:
        return self.weights + self.optimizer

    def kept(self, checkpoints: int) -> int:
        """Bytes of so many kept ones, and of the newest beside the one that it replaces."""
        return checkpoints * self.weights + 2 * self.newest


def checkpoint_need(trainer_mode: str, dtype: str, parameters: int, trainable: int) -> Need:
    """At least that much: the tensors alone. Adapters and optimizer state are fp32, two moments a parameter."""
    if trainer_mode == "full":
        return Need(parameters * BYTES[dtype], trainable * 4 * 3)  # moments and masters
    return Need(trainable * 4, trainable * 4 * 2)
