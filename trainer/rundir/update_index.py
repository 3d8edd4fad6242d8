"""Which lines of updates.jsonl tell of an episode: 4 bytes a line and 4 an episode, however many there are."""

from __future__ import annotations

from array import array
from threading import Lock

import msgspec

from trainer.rundir.layout import UPDATE_BYTES, RunPaths

NAME = "rollouts/updates.jsonl"
CHUNK_ROWS = 10_000  # 3.2 MB at a time


_AS_WRITTEN = b'{"n":'  # how our own writer begins a line: read without decoding it


class _Key(msgspec.Struct):
    n: int


_decode = msgspec.json.Decoder(_Key).decode


class UpdateIndex:
    """For each episode its newest line, and for each line the one before it of the same episode."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._newest = array("i")  # by n: row, or -1
        self._before = array("i")  # by row: row, or -1
        self._lock = Lock()  # a viewer's threads may ask at the same moment

    @property
    def rows(self) -> int:
        """Lines that are known."""
        return len(self._before)

    def refresh(self, episodes: int) -> None:
        """Take in new lines. An n beyond what two files of these sizes can hold is damage, and must not cost memory."""
        with self._lock:
            try:
                total = self._paths.updates.lstat().st_size // UPDATE_BYTES
            except FileNotFoundError:
                total = 0
            if total < self.rows:
                del self._newest[:], self._before[:]
            self._newest.extend([-1] * (episodes + total - len(self._newest)))
            while self.rows < total:
                first = self.rows
                count = min(total - first, CHUNK_ROWS)
                data = self._paths.read(NAME, first * UPDATE_BYTES, count * UPDATE_BYTES)
                if len(data) < UPDATE_BYTES:
                    break
                self._take(data)

    def rows_of(self, n: int) -> list[int]:
        """Rows of the file that tell of episode n, oldest first."""
        row = self._newest[n] if 0 <= n < len(self._newest) else -1
        found = []
        while row >= 0:
            found.append(row)
            row = self._before[row]
        return found[::-1]

    def _take(self, data: bytes) -> None:
        newest, before, count = self._newest, self._before, len(self._newest)
        for start in range(0, len(data) - UPDATE_BYTES + 1, UPDATE_BYTES):
            row = len(before)
            n = _number(data, start)
            if 0 <= n < count:
                before.append(newest[n])
                newest[n] = row
            else:
                before.append(-1)


def _number(data: bytes, start: int) -> int:
    """The n of a line; -1: it has none, and belongs to no episode. Whether the rest can be read shows later."""
    if data.startswith(_AS_WRITTEN, start):
        try:
            return int(data[start + len(_AS_WRITTEN) : data.index(b",", start, start + UPDATE_BYTES)])
        except ValueError:
            pass
    try:
        return _decode(data[start : start + UPDATE_BYTES]).n
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return -1
