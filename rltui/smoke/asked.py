"""What a smoke test is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Asked:
    """A config, an app, or both; the rest as the options of `rltui smoke`."""

    config: Path | None = None
    url: str | None = None
    policy: str | None = None
    seeds: Sequence[int] | None = None
    group_size: int | None = None
    rollouts: int | None = None
    full: bool = False
    sets: tuple[str, ...] = ()
    allow_unknown: bool = False
