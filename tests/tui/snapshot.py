"""Snapshots of screens: the text, and which style each run of cells has, in files that a review can read.

A file of tests/tui/snapshots/ holds one state of the app in sections: `== 80x24` is the text, `== styles dark` a
legend of letters and for each row its runs of cells, such as `a3 b77`. Rows that only repeat the row above are
counted. To write them anew: `UPDATE_SNAPSHOTS=1 python -m pytest tests/tui/test_snapshots.py`, then read the diff.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import string
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from rltui.app import RltuiApp
from rltui.widgets.key_bar import KeyBar
from rltui.widgets.virtual_list import VirtualList

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = bool(os.environ.get("UPDATE_SNAPSHOTS"))
WAIT_S = 60.0  # until a screen looks as it should
CALM_S = 0.4  # without a change, before an update takes a screen for settled
_SECTION = "== "
_MORE = "⋮ "


Part = slice | str | None  # of a screen: some rows, or the widget that a selector finds; None: all of it


def strips(app: RltuiApp, only: Part = None) -> list[Strip]:
    rows = app.screen._compositor.render_strips()
    if isinstance(only, slice):
        return rows[only]
    if isinstance(only, str):
        region = app.screen.query_one(only).region
        return [strip.crop(region.x, region.right) for strip in rows[region.y : region.bottom]]
    return rows


def text_of(app: RltuiApp, only: Part = None) -> list[str]:
    """The rows of the screen, without blanks at their ends."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips(app, only)]


def styles_of(app: RltuiApp, only: Part = None) -> list[str]:
    """Legend and rows of styles. Letters go by first appearance."""
    letters: dict[str, str] = {}
    rows = []
    for strip in strips(app, only):
        cells = [(str(segment.style or Style()), segment.cell_length) for segment in strip]
        runs = [(style, sum(n for _, n in run)) for style, run in groupby(cells, key=lambda cell: cell[0])]
        rows.append(" ".join(f"{letters.setdefault(style, _letter(len(letters)))}{n}" for style, n in runs if n))
    return [*(f"{letter} = {style}" for style, letter in letters.items()), *rows]


def all_styles(app: RltuiApp) -> set[Style]:
    return {segment.style for strip in strips(app) for segment in strip if segment.style is not None}


def background(app: RltuiApp) -> Color | None:
    """Of the first cell, and so of whatever says nothing else."""
    return next(segment.style.bgcolor for strip in strips(app) for segment in strip if segment.style is not None)


def folded(rows: Iterable[str]) -> list[str]:
    """Rows that repeat the one above as one line that counts them."""
    found = []
    for row, same in groupby(rows):
        more = sum(1 for _ in same) - 1
        found += [row] * min(2, more + 1) if more < 2 else [row, f"{_MORE}{more} more"]
    return found


async def check(app: RltuiApp, name: str, section: str, only: Part = None) -> None:
    """The screen, or `only` a part of it, comes to look as a section of `name`.txt says. AssertionError: the diff.

    A section whose name begins with "styles" is about styles, any other about text.
    """
    take = styles_of if section.startswith("styles") else text_of
    loop = asyncio.get_running_loop()
    if UPDATE:
        seen, since = None, loop.time()
        while seen is None or loop.time() - since < CALM_S:
            now = folded(take(app, only))
            if now != seen:
                seen, since = now, loop.time()
            await asyncio.sleep(0.02)
        _write(name, section, seen)
        return
    wanted = read(name).get(section)
    assert wanted is not None, f"no section {section!r} in {name}.txt: see {Path(__file__).name} on how to write it"
    deadline = loop.time() + WAIT_S
    while (now := folded(take(app, only))) != wanted:
        if loop.time() > deadline:
            diff = "\n".join(difflib.unified_diff(wanted, now, "wanted", "shown", lineterm="", n=2))
            raise AssertionError(f"{name}.txt, {section}:\n{diff}")
        await asyncio.sleep(0.02)


def read(name: str) -> dict[str, list[str]]:
    """The sections of a file; none if it is not there."""
    try:
        lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for line in lines[:-1]:
        if line.startswith(_SECTION):
            rows = found[line.removeprefix(_SECTION)] = []
        else:
            rows.append(line)
    return found


def _write(name: str, section: str, rows: list[str]) -> None:
    sections = read(name) | {section: rows}
    FOLDER.mkdir(exist_ok=True)
    order = sorted(
        sections, key=lambda title: (title.startswith("styles"), [int(n) for n in re.findall(r"\d+", title)])
    )
    lines = [line for title in order for line in (_SECTION + title, *sections[title])]
    (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _order(section: str) -> tuple[bool, list[int], str]:
    """Text before styles, small screens before large ones."""
    return section.startswith("styles"), [int(number) for number in re.findall(r"\d+", section)], section


def _letter(i: int) -> str:
    return string.ascii_letters[i] if i < 52 else f"{string.ascii_letters[i - 52]}'"


# What holds on every screen


def faults(app: RltuiApp) -> str:
    """What is wrong with the screen in general; "" for nothing."""
    return _clipped_keys(app) or _hidden_focus(app)


def _clipped_keys(app: RltuiApp) -> str:
    """Every key in the bar stands there with its whole label, the help among them."""
    frame = app.frame
    assert frame is not None
    bar = frame.query_one(KeyBar)
    if app.screen is not frame or not bar.items:
        return ""
    line = left = text_of(app)[bar.region.y].strip()
    keys = [f"{item.key} {item.label}" for item in bar.items]
    while item := next((key for key in keys if re.match(re.escape(key) + r"(?:  |$)", left)), None):
        left = left[len(item) :].strip()
    if left and (bar._notice or bar._status) is None:
        return f"clipped in the key bar: {left!r}"
    return "" if keys[-1] in line else f"no help among the keys: {line}"


def _hidden_focus(app: RltuiApp) -> str:
    """What has the focus is on the screen, and the line under its cursor too."""
    widget = app.screen.focused
    if widget is None or (isinstance(widget, VirtualList) and not widget.line_count):  # nothing to point at
        return ""
    if not widget.region or widget.region not in app.screen.region.grow((1, 1, 1, 1)):
        return f"the focus is out of sight: {widget} at {widget.region}"
    if isinstance(widget, VirtualList) and not widget.is_visible_line(widget.cursor):
        return f"the cursor of {widget} is out of sight: line {widget.cursor} from {widget.top}"
    return ""
