"""Helpers for tests of the run directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.rollout.types import Branch, Span
from trainer.rundir import EpisodeRecord, RunWriter
from trainer.rundir.disk import Disk


class SmallDisk(Disk):
    """A disk of `capacity` bytes: what lies under `root` counts; a write that does not fit is cut short."""

    def __init__(self, root: Path, capacity: int) -> None:
        self.root = root
        self.capacity = capacity
        self.cannot_cut = False

    def write(self, fd: int, data: bytes) -> int:
        used = sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())
        room = self.capacity - used
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data[:room])

    def truncate(self, fd: int, size: int) -> None:
        if self.cannot_cut:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(fd, size)


def branch(tokens: int = 6, sampled: int = 3, version: int = 0) -> Branch:
    prompt = tokens - sampled
    return Branch(
        ids=list(range(100, 100 + tokens)),
        mask=[0] * prompt + [1] * sampled,
        turn=[0] * tokens,
        logp=[0.0] * prompt + [-0.5] * sampled,
        spans=[Span(start=prompt, end=tokens, weight_version=version)],
        weight=1.0,
        first_turn=0,
        calls=[0],
        prefix=["first"],
    )


def episode(number: int = 0, **fields: Any) -> EpisodeRecord:
    values: dict[str, Any] = {
        "cid": f"rl_0-1-0-{number}-0-abc",
        "step": 2,
        "iteration": 1,
        "split": "train",
        "seed": 7,
        "group": 0,
        "member": number,
        "R": 0.123456789,
        "O": 0.5,
        "t": 1_750_000_000.123456,
        "wall": 1.5,
        "branches": [branch()],
        "turns": [{"t": 0, "calls": [0], "messages": [{"role": "user", "text": f"episode {number}"}]}],
    }
    return EpisodeRecord(**(values | fields))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def writer_at(root: Path) -> Callable[..., RunWriter]:
    def make(**fields: Any) -> RunWriter:
        return RunWriter(root, **({"job_id": "rl_0123456789abcdef", "label": "test"} | fields))

    return make
