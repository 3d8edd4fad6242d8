"""Deleting a run of the folder: the question that names its size, and what is done on a yes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.message import Message

from rltui.screens.base import AppScreen
from rltui.sources.base import Unreadable
from rltui.sources.deleting import bytes_of, delete
from rltui.text import clean
from rltui.words import size

if TYPE_CHECKING:
    from rltui.sources.folder import RunRow


class _Sized(Message):
    """What a run takes is known."""

    def __init__(self, row: RunRow, count: int) -> None:
        super().__init__()
        self.row, self.count = row, count


class _Deleted(Message):
    """`why`: it was not."""

    def __init__(self, row: RunRow, why: str = "") -> None:
        super().__init__()
        self.row, self.why = row, why


class Deleting(AppScreen):
    _asked: RunRow | None = None  # the run that is to be asked about, while its size is counted

    def ask_to_delete(self, row: RunRow) -> None:
        self._asked = row
        self._aside(lambda: self.post_message(_Sized(row, bytes_of(row.path))))

    @on(_Sized)
    def _ask_now(self, event: _Sized) -> None:
        from rltui.screens.confirm import Answer, ConfirmScreen

        row = event.row
        if row is not self._asked or not self.is_current:  # its answer is not to be taken by another question
            return
        self._asked = None
        intro = [f"{row.name}: {size(event.count)} in {row.path}", "Its record, checkpoints and logs go for good."]
        if (scratch := Path(row.path, "checkpoints")).is_symlink():  # checkpoint.dir
            intro[1] = f"Its record and logs go for good; its checkpoints, in {clean(scratch.readlink(), 200)}, stay."
        answers = [Answer("d", "delete", "delete it", danger=True)]
        ask = ConfirmScreen("Delete", intro, answers)
        self.app.push_screen(ask, lambda answer: self._answered(row, answer))

    def _answered(self, row: RunRow, answer: str | None) -> None:
        if answer == "delete":
            self._aside(partial(self._delete, row))

    def _delete(self, row: RunRow) -> None:
        try:
            delete(Path(row.path))
        except Unreadable as error:
            self.post_message(_Deleted(row, str(error)))
            return
        self.post_message(_Deleted(row))

    @on(_Deleted)
    def _deleted(self, event: _Deleted) -> None:
        if event.why:
            self.say(clean(event.why), "act")
            return
        self.say(f"{event.row.name} is deleted")
        self.gone(event.row.path)

    def gone(self, path: str) -> None:
        """A run is not there any more."""
        raise NotImplementedError

    def _aside(self, job: Callable[[], object]) -> None:
        self.run_worker(job, thread=True, exclusive=True, group="delete", exit_on_error=False)
