"""What may differ between two attempts of a run (CONFIG section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer.config.errors import shown
from trainer.config.keys import all_keys

# Values that nobody gave and that follow from the machine, or from a key that may differ. They change no result.
FOLLOWING = (
    "vllm.",
    "compute.",
    "smoke.",
    "training.gradient_checkpointing",
    "training.micro_batch_tokens",
    "training.weight_sync.mode",
    "evaluation.max_concurrent_rollouts",
)
UNGIVEN = ("default", "derived")


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose value is another one than before."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key} was {shown(self.old)} and is now {shown(self.new)}"


def differences(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    """All of them, from leaves {value, origin} by key path."""
    found = []
    for key in sorted({*old, *new}):
        before, after = old.get(key, {}).get("value"), new.get(key, {}).get("value")
        if before != after:
            found.append(Difference(key, before, after))
    return found


def forbidden(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]], *, given_only: bool = False
) -> list[Difference]:
    """Those that make it another run.

    Args:
        given_only: values that are given in neither are not compared: some are known only with the model.
    """
    return [
        item
        for item in differences(old, new)
        if not may_differ(item.key) and not _is_free(item.key, old.get(item.key), new.get(item.key), given_only)
    ]


def may_differ(key: str) -> bool:
    known = all_keys().get(key)
    return known is not None and (known.live or known.resume)


def live_keys() -> list[str]:
    """Keys that can be changed while a run is going."""
    return [name for name, key in all_keys().items() if key.live]


def resume_keys() -> list[str]:
    return [name for name in all_keys() if may_differ(name)]


def _is_free(key: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, given_only: bool) -> bool:
    if any(leaf is not None and leaf.get("origin") not in UNGIVEN for leaf in (old, new)):
        return False
    return given_only or key.startswith(FOLLOWING)
