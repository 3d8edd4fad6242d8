"""The runs of one folder as rows, read one after the other and again only where something changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.sources.base import TERMINAL, Json, Unreadable
from rltui.sources.find import is_run, job_id_of
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.doctor.bands import Table

TAIL_BYTES = 64 << 10  # of metrics.jsonl, for the sparkline
SPARK_VALUES = 60
_REWARD = "reward/mean"


@dataclass(frozen=True)
class RunRow:
    """One run. Equal rows look alike. Texts are cleaned, but for `path`; what is not known is None."""

    name: str
    path: str
    job_id: str
    label: str | None
    state: str  # of status.json, a dead run as failed; unreadable: see `problem`
    phase: str | None = None
    silent: bool = False  # no sign of life for long
    step: int | None = None
    steps: int | None = None
    reward: float | None = None
    eval_reward: float | None = None
    spark: tuple[float, ...] = ()  # the last reward/mean, oldest first
    created: float | None = None  # epoch seconds
    updated: float | None = None
    elapsed_s: float | None = None
    eta_s: float | None = None
    host: str | None = None
    error: str | None = None  # why it failed, in a sentence
    hint: str | None = None  # what to do
    problem: str | None = None  # why it cannot be read
    finding: str | None = None  # of the doctor, the worst one at a glance
    finding_state: str | None = None  # act or watch
    tags: tuple[str, ...] = ()  # name=value


@dataclass
class _Known:
    row: RunRow
    stamp: tuple[int, ...]  # of status.json
    source: Any = None  # kept while it lives: it watches the beat
    metrics: tuple[int, int] = (0, 0)  # inode and size behind `row.spark`


class RunsFolder:
    """`scan` may be called again and again; it belongs to one thread; `end` and `go_on` to any.

    `left`: names that nobody wanted to wait for; no scan reads them. `cut`: whether the last scan was ended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scanned = self.total = 0  # of the scan that goes on
        self.left: set[str] = set()
        self.cut = self._end = False
        self._known: dict[str, _Known] = {}
        self._table: Table | None = None

    def scan(self) -> Iterator[RunRow]:
        """Every run, each as soon as it is read, newest folder first. Unreadable: the folder cannot be listed.

        A folder that is not there has no runs.
        """
        names = self._names()
        for name in self._known.keys() - set(names):
            del self._known[name]
        self.left = self.left & set(names)
        names = [name for name in names if name not in self.left]
        self.scanned, self.total, self.cut, self._end = 0, len(names), False, False
        for i, name in enumerate(names):
            if self._end:
                self.cut = True
                self.left = self.left | (set(names[i:]) - self._known.keys())
                return
            row = self._row(name)
            self.scanned += 1
            if row is None:
                self.total -= 1
                self.scanned -= 1
                self._known.pop(name, None)
                continue
            yield row

    def end(self) -> None:
        """The scan that goes on ends before its next run, and the runs that it has not come to are left out."""
        self._end = True

    def go_on(self) -> None:
        """The next scan reads them, too."""
        self._end = False
        self.left = set()

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                found = [(entry.stat().st_mtime, entry.name) for entry in entries if _is_folder(entry)]
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise Unreadable(f"{self.folder} is not a folder: give the folder that holds the runs") from error
        except OSError as error:
            raise Unreadable(f"{self.folder} cannot be read: {error.strerror or error}") from error
        return [name for _, name in sorted(found, reverse=True)]

    def _row(self, name: str) -> RunRow | None:
        """None: it is no run."""
        path = self.folder / name
        known = self._known.get(name)
        stamp: tuple[int, ...] = ()
        try:
            about = os.lstat(path / "status.json")
            stamp = (about.st_ino, about.st_mtime_ns, about.st_size)
        except FileNotFoundError:
            if not is_run(path):
                return None
        except OSError as error:
            return self._keep(name, _unreadable(path, f"status.json cannot be read: {error.strerror}"))
        if known is not None and known.stamp == stamp and known.source is None and stamp:
            return known.row
        return self._read(path, stamp, known)

    def _read(self, path: Path, stamp: tuple[int, ...], known: _Known | None) -> RunRow:
        from rltui.sources.local import LocalRunSource  # the first paint does not wait for it

        source = known.source if known is not None and known.source is not None else LocalRunSource(path)
        try:
            status = source.status()
            measured, tail = _tail(path, known)
            spark = _rewards(tail) if tail is not None else known.row.spark if known is not None else ()
            row = _row_of(path, status, spark)
            row = _glanced(row, status, tail, known, self._bands())
        except Unreadable as error:
            return self._keep(path.name, _unreadable(path, str(error)))
        except (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            # A status of strange shapes: one bad run hides no other.
            return self._keep(path.name, _unreadable(path, f"its record is damaged: {error}"))
        if known is not None and known.row == row:
            row = known.row
        # One that is dead today may be alive again tomorrow, with a new status.json.
        over = status is not None and bool(stamp) and row.state in TERMINAL
        self._known[path.name] = _Known(row, stamp, None if over else source, measured)
        return row

    def _bands(self) -> Table:
        if self._table is None:
            from rltui.doctor.bands import bands_file, load

            self._table = load(bands_file())
        return self._table

    def _keep(self, name: str, row: RunRow) -> RunRow:
        """One that cannot be read is tried again at each scan."""
        self._known[name] = _Known(row, ())
        return row


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:
        return False


def _unreadable(path: Path, problem: str) -> RunRow:
    return RunRow(clean(path.name, 300), str(path), job_id_of(path), None, "unreadable", problem=clean(problem, 300))


def _row_of(path: Path, status: Json | None, spark: tuple[float, ...]) -> RunRow:
    status = status or {}
    totals, latest, error = (_object(status.get(name)) for name in ("totals", "latest", "error"))
    return RunRow(
        name=clean(path.name, 300),
        path=str(path),
        job_id=clean(status.get("job_id") or job_id_of(path), 100),
        label=text(status.get("label"), 100),
        state=text(status.get("state"), 20) or "starting",
        phase=text(status.get("phase"), 20),
        silent=bool(status.get("silent")),
        step=whole(status.get("step")),
        steps=whole(totals.get("steps")),
        reward=number(latest.get(_REWARD)),
        eval_reward=number(latest.get("eval/reward_mean")),
        spark=spark,
        created=epoch(status.get("created_at")),
        updated=epoch(status.get("updated_at")),
        elapsed_s=number(status.get("elapsed_s")),
        eta_s=number(status.get("eta_s")),
        host=text(status.get("host"), 100),
        error=text(error.get("message"), 300),
        hint=text(error.get("hint"), 300),
    )


def _tail(path: Path, known: _Known | None) -> tuple[tuple[int, int], bytes | None]:
    """Inode and size of the metrics, and their last 64 KB from a whole line on; None: they are as they were."""
    from trainer.rundir.layout import RunPaths, read_range

    try:
        fd = RunPaths(path).open("metrics.jsonl")
    except OSError:  # not there yet, or a link: the row does without
        return (0, 0), b""
    try:
        about = os.fstat(fd)
        measured = about.st_ino, about.st_size
        if not stat.S_ISREG(about.st_mode):
            return (0, 0), b""
        if known is not None and known.metrics == measured:
            return measured, None
        start = max(0, about.st_size - TAIL_BYTES)
        data = read_range(fd, start, about.st_size)
    finally:
        os.close(fd)
    return measured, data if start == 0 else data[data.find(b"\n") + 1 :]


def _glanced(row: RunRow, status: Json | None, tail: bytes | None, known: _Known | None, table: Table) -> RunRow:
    """The row with what the doctor says at a glance; while neither metrics nor state are new, what it said."""
    from rltui.doctor.glance import glance

    if tail is None and known is not None and known.row.state == row.state:
        return replace(row, finding=known.row.finding, finding_state=known.row.finding_state)
    found = glance(tail or b"", status or {}, table)
    if found is None:
        return row
    return replace(row, finding=f"{found.rule.id} {found.line}", finding_state=found.state.value)


def _rewards(data: bytes) -> tuple[float, ...]:
    """Rewards of the whole lines in `data`; of a step that was played again only the last."""
    from trainer.rundir.jsonl import decode_object

    found: list[float] = []
    before = float("inf")
    for line in reversed(data[: data.rfind(b"\n") + 1].split(b"\n")):
        if b'"reward/mean"' not in line:
            continue
        try:
            row = decode_object(line)
        except ValueError:
            continue
        step, value = row.get("step"), number(row.get(_REWARD))
        # Steps fall on the way back; where one does not, an attempt went on from before it.
        if value is None or not isinstance(step, int) or step >= before:
            continue
        before = step
        found.append(value)
        if len(found) == SPARK_VALUES:
            break
    return tuple(reversed(found))


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def text(value: Any, limit: int) -> str | None:
    return (clean(value, limit) or None) if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 1e300:
        return None
    return float(value) if isfinite(value) else None


def epoch(value: Any) -> float | None:
    from trainer.rundir.jsonl import from_iso

    try:
        return from_iso(value)
    except (TypeError, ValueError, OverflowError):
        return None
