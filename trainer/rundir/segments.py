"""Records of any size in numbered files of bounded size: the text and the token arrays of episodes (WIRE 5.6)."""

from __future__ import annotations

from collections.abc import Callable

from trainer.rundir.disk import AppendFile, Disk, sync_folder
from trainer.rundir.layout import RunPaths


class Segments:
    """Files `NAME-00000`, `NAME-00001`, …: the next one begins where a record would pass the size limit.

    A torn block at the end of a token segment may stay: no reference points to it.
    """

    def __init__(
        self,
        paths: RunPaths,
        disk: Disk,
        put: Callable[[AppendFile, bytes], int],
        name: Callable[[int], str],
        limit: int,
        *,
        lines: bool,
    ) -> None:
        """`put` appends to a file and gives the offset; `lines`: a torn last line is cut off when one is opened."""
        self._paths, self._disk, self._put = paths, disk, put
        self._name = name
        self._limit = limit
        self._lines = lines
        self.number = 0
        while (paths.root / name(self.number + 1)).is_file():
            self.number += 1
        self.file = self._open()

    def _open(self) -> AppendFile:
        file = AppendFile(self._paths, self._name(self.number), self._disk)
        if self._lines:
            file.cut_torn_line()
        return file

    def append(self, data: bytes) -> list[int]:
        """[segment, offset, bytes]"""
        if self.file.size and self.file.size + len(data) > self._limit:
            self.file.sync()
            self.file.close()
            self.number += 1
            self.file = self._open()
            sync_folder(self.file.path.parent)
        offset = self._put(self.file, data)
        return [self.number, offset, len(data)]

    def position(self) -> tuple[int, int]:
        return self.number, self.file.size

    def cut_back(self, position: tuple[int, int]) -> None:
        """Take back what was appended since; in an earlier segment unreferenced bytes may stay."""
        number, size = position
        self.file.forget(size if number == self.number else 0)
