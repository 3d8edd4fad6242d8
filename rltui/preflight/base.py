"""What a check is, what it finds, and what it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rltui.launch.base import Launcher
    from rltui.model.estimates import Facts
    from rltui.preflight.gpus import Gpu
    from trainer.config import Loaded, RunConfig

Verdict = Literal["ok", "warn", "fail", "skipped"]


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found: a sentence. fix: what to do; key: the config's key to jump to; tried: what was looked at."""

    verdict: Verdict
    message: str
    fix: str = ""
    key: str = ""
    tried: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A check, done."""

    id: str
    title: str
    seconds: float
    found: Found

    @property
    def verdict(self) -> Verdict:
        return self.found.verdict

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        found = self.found
        return {
            "id": self.id,
            "title": self.title,
            "verdict": found.verdict,
            "seconds": round(self.seconds, 4),
            "message": found.message,
            "fix": found.fix or None,
            "key": found.key or None,
            "tried": found.tried or None,
            "notes": list(found.notes),
        }


@dataclass(frozen=True, slots=True)
class Began:
    """A check runs from now on."""

    id: str


@dataclass
class Context:
    """One launch that is considered. The first check fills `loaded`, without which no other runs.

    `stopped`: set when nobody waits for the answers any more; who holds a process or a connection lets go of it then.
    """

    config: Path
    sets: tuple[str, ...] = ()
    allow_unknown: bool = False
    run_dir: Path | None = None  # None: a new one in logging.runs_dir
    launcher: Launcher | None = None  # of the target; None: this machine
    environ: Mapping[str, str] = field(default_factory=dict)
    loaded: Loaded | None = None
    facts: Facts | None = None
    gpus: list[Gpu] | None = None  # None: the driver was not asked, or gave no answer
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def cfg(self) -> RunConfig:
        """The valid config."""
        assert self.loaded is not None
        return self.loaded.config


@dataclass(frozen=True, slots=True)
class Check:
    """run: may block, in a thread of its own. limit_s: after which it counts as failed. needs: ids of checks that have
    to have found no failure first. holds: it starts processes, which it ends when the context is stopped."""

    id: str
    title: str
    run: Callable[[Context], Found]
    needs: tuple[str, ...] = ("config",)
    limit_s: float = 15.0
    holds: bool = False


def ok(message: str, *notes: str, tried: str = "") -> Found:
    return Found("ok", message, tried=tried, notes=notes)


def skipped(why: str) -> Found:
    return Found("skipped", why)


def took(seconds: float) -> str:
    """`12 ms`, `2.4 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"
