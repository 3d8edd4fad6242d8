"""A run's progress in words: pure functions from its status and numbers to lines, and their printer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import IO, Any

from rltui.cli.output import put, say
from rltui.text import fit
from rltui.words import duration

Json = dict[str, Any]

# (metric, how it reads) in the order of a step's line; what a step does not have is left out
_STEP_FIELDS = (
    ("reward/mean", "reward {:.3f}"),
    ("optim/grad_norm", "grad {:.3g}"),  # not the loss: the surrogate is about 0 whatever is learned
    ("off_policy/mean", "lag {:.1f}"),
    ("throughput/samples_per_sec", "{:.1f} samples/s"),
)


def number(value: Any, form: str = "{:.3f}", none: str = "-") -> str:
    ok = isinstance(value, int | float) and not isinstance(value, bool)
    return form.format(value) if ok else none


def step_line(row: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """One optimizer update: `row` holds the step's merged metrics, `status` the totals and the time left."""
    totals = status.get("totals") or {}
    parts = [f"step {_of(row.get('step'), totals.get('steps'))}"]
    if row.get("step") != row.get("iteration") or totals.get("steps") != totals.get("iterations"):
        parts.append(f"iteration {_of(row.get('iteration'), totals.get('iterations'))}")
    shown = {**row, "off_policy/mean": row.get("off_policy/mean") or None}  # no lag is no news
    fields = [number(shown.get(name), form, "") for name, form in _STEP_FIELDS]
    clip = [row.get(f"gspo/clip_frac_{side}") for side in ("low", "high")]
    if None not in clip:
        fields.insert(2, number(sum(clip), "clip {:.2f}"))
    parts += [text for text in fields if text]
    if status.get("eta_s") is not None:
        parts.append(f"left {duration(status['eta_s'])}")
    return "  ".join(parts)


def _of(done: Any, total: Any) -> str:
    return f"{number(done, '{}')}/{total}" if total else number(done, "{}")


class Printer:
    """Lines that stay, and on a terminal one live line below them that is rewritten in place.

    `closed`: nobody reads them any more.
    """

    def __init__(self, stream: IO[str], *, quiet: bool = False) -> None:
        self.closed = False
        self._stream, self._quiet = stream, quiet
        self.live = not quiet and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = ""

    def keep(self, line: str) -> None:
        if self._quiet:
            return
        self._erase()
        self.closed |= not say(line, self._stream)

    def step(self, row: Json, line: str) -> None:
        """An optimizer update: its numbers, and the line that tells them."""
        self.keep(line)

    def rewrite(self, line: str) -> None:
        """Show `line` as the live one. Does nothing without a terminal, or when it has not changed."""
        if not self.live:
            return
        line = fit(line, shutil.get_terminal_size().columns - 1)
        if line != self._shown:
            self.closed |= not put(f"\r{line}\x1b[K", self._stream)
            self._shown = line

    def close(self) -> None:
        self._erase()

    def _erase(self) -> None:
        if self._shown:
            self.closed |= not put("\r\x1b[K", self._stream)
            self._shown = ""
