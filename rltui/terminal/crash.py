"""What the app did last, and the report that is left when it fails."""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from rltui.places import state_folder
from rltui.terminal.capabilities import Terminal
from rltui.terminal.private import write_private
from rltui.text import clean

KEPT = 200
_TEXT = 200  # characters of an event in the report
_HELD = 1000  # ... and in memory: a secret is masked whole before it is cut
_LINE = 500
_LINES = 400  # of a traceback: its begin and end
_TRACEBACK = 500_000  # characters


class Recorder:
    """The last events, keys and actions, bounded. Cheap: what is shown is cleaned and masked for the report only."""

    def __init__(self, kept: int = KEPT, clock: Callable[[], float] = time.time) -> None:
        self._entries: deque[tuple[float, str, str]] = deque(maxlen=kept)
        self._clock = clock
        self._typed = 0

    def add(self, kind: str, text: str) -> None:
        """Note an event (`"screen"`, `"action"`, ...) with a few words on it."""
        self._typed = 0
        self._entries.append((self._clock(), kind, text[:_HELD]))

    def key(self, name: str, *, typing: bool = False) -> None:
        """Note a key. One that is `typing` into a field is only counted: it may be part of a secret."""
        if not typing:
            self.add("key", name)
            return
        if self._typed:
            self._entries.pop()
        self._typed += 1
        self._entries.append((self._clock(), "typed", f"{self._typed} character{'' if self._typed == 1 else 's'}"))

    def lines(self) -> list[str]:
        """Oldest first, as they were noted; not masked."""
        return [f"{_time(at)} {clean(kind, 20):<8} {clean(text, _HELD)}" for at, kind, text in self._entries]


def installed_versions() -> dict[str, str]:
    """Of what the app stands on; one that is not installed is left out."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("rltui", "textual", "rich"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_report(
    error: BaseException,
    recorder: Recorder,
    terminal: Terminal,
    versions: Mapping[str, str],
    size: tuple[int, int],
    env: Mapping[str, str] = os.environ,
) -> Path:
    """Write the report to a new file of mode 0600 in XDG state and return its path; `size` is columns and rows.

    Secrets are masked: values of variables whose names say so, and whatever looks like a key. OSError if it cannot
    be written.
    """
    return write_private(
        state_folder(env) / "crash",
        time.strftime("crash-%Y%m%d-%H%M%S"),
        report(error, recorder, terminal, versions, size, env),
    )


def report(
    error: BaseException,
    recorder: Recorder,
    terminal: Terminal,
    versions: Mapping[str, str],
    size: tuple[int, int],
    env: Mapping[str, str] = os.environ,
) -> str:
    """The text of the report."""
    mask = _masking(env)
    shown = {**asdict(terminal), **{name.lower(): env.get(name, "") for name in ("TERM", "COLORTERM", "TERM_PROGRAM")}}
    # Masked as a whole, before lines are cut.
    trace = mask(_end("".join(traceback.format_exception(error)))).splitlines()
    if len(trace) > _LINES:
        half = _LINES // 2
        trace = [*trace[:half], f"... {len(trace) - 2 * half} lines left out ...", *trace[-half:]]
    lines = [
        "rltui stopped because of an error of its own.",
        f"when      {_time(time.time())}",
        f"error     {sentence(error, env)}",
        "versions  " + ", ".join(f"{name} {value}" for name, value in versions.items()),
        "terminal  " + ", ".join(f"{name} {value}" for name, value in shown.items() if value != ""),
        f"size      {size[0]} x {size[1]}",
    ]
    events = [mask(line)[: _TEXT + 40] for line in recorder.lines()]
    return "\n".join(
        [*map(mask, lines), "", "Traceback", *map(_indented, trace), "", f"Last {len(events)} events", *events, ""]
    )


def sentence(error: BaseException, env: Mapping[str, str] = os.environ) -> str:
    """The error in one safe line without secrets."""
    try:
        words = clean(_masking(env)(str(error)[: 8 * _LINE]), 300)
    except Exception:  # of its own __str__
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def message_lines(error: BaseException, path: Path | None, env: Mapping[str, str] = os.environ) -> list[str]:
    """What to print when the terminal is restored; `path` None: no report could be written."""
    where = f"A report is in {path}" if path else "No report could be written: is the disk full?"
    return [
        f"rltui stopped because of an error of its own: {sentence(error, env)}",
        f"{where}. Runs go on without it; `rltui runs` lists them, `rltui` opens them again.",
    ]


def _masking(env: Mapping[str, str]) -> Callable[[str], str]:
    try:
        from trainer.config.secrets import masked
        from trainer.rundir.logs import known_secrets, mask_secrets
    except ImportError:  # a broken installation, which may be the very error: what cannot be masked is not shown
        return lambda text: "(not shown: the installation is broken, so secrets could not be masked)"

    known = known_secrets(env)
    return lambda text: masked(mask_secrets(text, known))


def _end(text: str) -> str:
    """The last whole lines of a text that is too long."""
    return text if len(text) <= _TRACEBACK else text[-_TRACEBACK:].partition("\n")[2]


def _indented(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))][:40] + clean(line, _LINE)


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"
