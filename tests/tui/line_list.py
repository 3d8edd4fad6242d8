"""A small list of lines that stands in for the interface where the harness and the bench are tested.

`python line_list.py --runs-dir DIR` lists DIR; `python line_list.py attach RUN` lists the run's episodes on key R.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

CURSOR = Style(reverse=True)


class LineList(ScrollView, can_focus=True):
    BINDINGS = (
        Binding("down,j", "move(1)"),
        Binding("up,k", "move(-1)"),
        Binding("q", "app.quit"),
        Binding("R", "fill"),
    )

    def __init__(self, lines: list[str], later: list[str]) -> None:
        super().__init__()
        self.lines, self.later, self.at = lines, later, 0
        self.virtual_size = Size(40, len(lines))

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        text = self.lines[row] if row < len(self.lines) else ""
        return Strip([Segment(text, CURSOR if row == self.at else None)]).adjust_cell_length(self.size.width)

    def action_move(self, by: int) -> None:
        before, self.at = self.at, max(0, min(len(self.lines) - 1, self.at + by))
        top = self.scroll_offset.y
        self.scroll_to_region(Region(0, self.at, 1, 1), animate=False)
        for row in (before, self.at) if self.scroll_offset.y == top else ():
            self.refresh(Region(0, row - top, self.size.width, 1))

    def action_fill(self) -> None:
        self.lines = self.later
        self.virtual_size = Size(40, len(self.lines))
        self.refresh()


class LineListApp(App[None]):
    def __init__(self, lines: list[str], later: list[str]) -> None:
        super().__init__()
        self.list = LineList(lines, later)

    def compose(self) -> ComposeResult:
        yield self.list


def main(arguments: list[str]) -> None:
    folder = Path(arguments[1])
    if arguments[0] == "attach":
        count = (folder / "rollouts" / "index.jsonl").read_bytes().count(b"\n")
        LineListApp(["press R", "SUCCEEDED", "charts 1-6 of 6"], [f"{count} episodes", *map(str, range(count))]).run()
    else:
        LineListApp(sorted(path.name for path in folder.iterdir()), []).run()


if __name__ == "__main__":
    main(sys.argv[1:])
