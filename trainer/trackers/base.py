"""What a tracker is, and what it is told of the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One attempt of a run.

    Attributes:
        name: of the run, as people read it; `job_id` is the same over all attempts.
        folder: `trackers/` of the run directory, where local data belong.
        config: every value of the resolved config.
        tags: of the config's [tags].
        from_step: updates done before this attempt; what an earlier one told after it no longer counts.
    """

    job_id: str
    name: str
    folder: Path
    config: Mapping[str, Any]
    tags: Mapping[str, Any]
    from_step: int = 0


class Tracker(ABC):
    """Opened, told and closed from one thread of its own. Whatever it raises switches it off, and no more."""

    @abstractmethod
    def __init__(self, run: RunFacts, project: str) -> None:
        """project: ignored by trackers that know none."""

    @abstractmethod
    def row(self, step: int, values: Mapping[str, float]) -> None:
        """Finite numbers by metric name, at `step`. Steps may go back: an evaluation stands at its own."""

    @abstractmethod
    def close(self) -> None:
        """Everything is written, or sent."""


def tag_list(tags: Mapping[str, Any]) -> list[str]:
    """`name=value`, for trackers whose tags are plain texts."""
    parts = ((name, ",".join(map(str, v)) if isinstance(v, list) else v) for name, v in tags.items())
    return [f"{name}={value}" for name, value in parts]
