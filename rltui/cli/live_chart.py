"""`--stream-format chart`: the rewards of a run that is followed as a chart below its lines, drawn anew in place."""

from __future__ import annotations

import shutil
from typing import IO, TYPE_CHECKING

from rltui.cli.output import put, say
from rltui.cli.progress import Json, Printer
from rltui.text import fit

if TYPE_CHECKING:
    from rltui.model.metrics import MetricStore

FORMATS = ("cli", "chart")


def printer_of(form: str, stream: IO[str], *, quiet: bool) -> Printer:
    return ChartPrinter(stream, quiet=quiet) if form == "chart" else Printer(stream, quiet=quiet)


class ChartPrinter(Printer):
    """Steps are points, not lines. Without a terminal the chart is printed once, at the end."""

    def __init__(self, stream: IO[str], *, quiet: bool = False) -> None:
        super().__init__(stream, quiet=quiet)
        self._store: MetricStore | None = None
        self._rows = 0  # of the chart on the terminal, above the live line

    def step(self, row: Json, line: str) -> None:
        if self._store is None:
            from rltui.model.metrics import MetricStore

            self._store = MetricStore()
        self._store.add([row])

    def rewrite(self, line: str) -> None:
        if not self.live or line == self._shown:
            return
        self._erase()
        self._draw()
        columns = shutil.get_terminal_size().columns - 1
        self.closed |= not put(f"{fit(line, columns)}\x1b[K", self._stream)
        self._shown = line

    def close(self) -> None:
        self._erase()
        if not self._quiet:
            self._draw()
            self._rows = 0  # it stays

    def _erase(self) -> None:
        up = f"\x1b[{self._rows}A" if self._rows else ""
        if self._shown or up:
            self.closed |= not put(f"\r{up}\x1b[J", self._stream)
        self._shown, self._rows = "", 0

    def _draw(self) -> None:
        from rltui.cli.overview import look_here
        from rltui.model.overview_text import reward_chart

        if self._store is None:
            return
        lines = reward_chart(self._store, look_here(), shutil.get_terminal_size().columns - 1)
        for line in lines:
            self.closed |= not say(line, self._stream)
        self._rows = len(lines)
