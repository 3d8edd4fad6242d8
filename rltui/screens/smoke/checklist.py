"""The stages below each other: verdict, time, what is wrong and how to mend it; unfolded, what went over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType

from rltui.model.smoke_test import SmokeModel, StageRow
from rltui.screens.own_app import own_app
from rltui.smoke.report import Exchange
from rltui.text import clean
from rltui.text_lines import crop, pad, pieces, printable, wrap
from rltui.widgets.anchored import Anchored
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import look_of
from rltui.words import duration

# by state: (word, glyph, style)
STATES = {
    "waiting": ("", "state_queued", "dim"),
    "running": ("run", "state_running", "live"),
    "ok": ("ok", "good", "good"),
    "warn": ("WARN", "watch", "watch"),
    "fail": ("FAIL", "act", "act"),
    "skipped": ("skip", "dot", "dim"),
}
VERDICTS = {"ready": "good", "ready_with_warnings": "watch", "not_ready": "act"}  # and their style
INDENT = 9  # of what stands below a stage: under its id
SAID = 64  # cells from which on a stage that passed says what it found
HEAD, TITLE = 13, 27  # cells: verdict and id, title
LONGEST = 200  # lines of a request or reply that are shown


def took(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s" if seconds < 60 else duration(seconds)


class Checklist(Anchored, inherit_bindings=False):
    """`clock`: seconds, as the model was told them. The cursor follows the stage that runs until a person moves it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("checklist")

    def __init__(self, model: SmokeModel, clock: Callable[[], float]) -> None:
        super().__init__()
        self._model, self._clock = model, clock
        self._unfolded: set[str] = set()
        self._kinds: dict[int, list[str]] = {}  # style of each row of an item
        self._shown: dict[int, object] = {}  # what an item was laid out for
        self._following = True

    # What there is

    def item_count(self) -> int:
        return len(self._model.stages) + (self._verdict() is not None)

    def lay_out(self, item: int, width: int) -> list[str]:
        rows = list(self._verdict_rows(width) if item == len(self._model.stages) else self._rows(item, width))
        self._kinds[item] = [kind for kind, _ in rows]
        return [text for _, text in rows]

    def _verdict(self) -> tuple[str, str] | None:
        """(style, sentence)"""
        report = self._model.whole
        if self._model.phase == "failed":
            return "act", f"not tested: {self._model.why}"
        if report is None or self._model.running:
            return None
        return VERDICTS[report.verdict], report.verdict_text

    def _verdict_rows(self, width: int) -> Iterator[tuple[str, str]]:
        style, sentence = self._verdict() or ("text", "")
        yield "text", ""
        for at, row in enumerate(wrap(printable(clean(sentence, 2_000)), width - 3)):
            yield style if at == 0 else "text", f" {row}"

    def _rows(self, item: int, width: int) -> Iterator[tuple[str, str]]:
        row = self._model.stages[item]
        yield "head", ""
        stage = row.stage
        if stage is None:
            return
        room = max(20, width - INDENT - 1)
        opened = row.id in self._unfolded
        if opened or row.state in ("warn", "fail"):
            yield from _told(STATES[row.state][2], stage.message, room)
            yield from _told("text", f"fix: {stage.fix}" if stage.fix else "", room)
        if opened:
            for note in stage.notes:
                yield from _told("dim", note, room)
            for exchange in stage.exchanges:
                yield from _exchange(exchange, room)
            if not stage.exchanges:
                yield from _told("dim", "nothing was sent to the app by this stage", room)
        elif row.state == "fail" and stage.exchanges:
            last = stage.exchanges[-1]
            yield "dim", _indented(crop(printable(clean(f"> {last.method} {last.url} {last.request}", 400)), room))
            answer = last.status or "no answer"
            yield "dim", _indented(crop(printable(clean(f"< {answer} {last.response}", 400)), room))

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        kind = self._kinds[item][row]
        look = look_of(self)
        if kind != "head":
            return [Segment(text, look.style(kind))]
        found = self._model.stages[item]
        word, glyph, style = STATES[found.state]
        right = self._right(found)
        inline = found.state == "skipped" or (found.state == "ok" and width >= SAID)
        passed = found.stage.message if found.stage is not None and inline else ""
        title_style = (
            "strong" if found.state == "running" else "dim" if found.state in ("waiting", "skipped") else "text"
        )
        head = [
            Segment(f" {look.glyph(glyph)} {word:<4}  ", look.style(style)),
            Segment(f"{found.id} ", look.style("dim")),
        ]
        time = cell_len(right)
        room = width - HEAD - time - 2
        title = crop(found.title, room, more=look.glyph("ellipsis"))
        if passed and width >= SAID:
            title = pad(title, TITLE)
        left = room - cell_len(title) - 3
        said = crop(printable(clean(passed, 200)), left, more=look.glyph("ellipsis")) if left > 8 else ""
        middle = [Segment(title, look.style(title_style)), Segment(f"   {said}" if said else "", look.style("dim"))]
        fill = room - sum(segment.cell_length for segment in middle)
        end = Segment(" " * fill + f" {right:>{time}}", look.style("dim" if found.state != "running" else "text"))
        return [*head, *middle, end]

    def _right(self, row: StageRow) -> str:
        planned = self._model.planned(row.id)
        if row.state == "running":
            return f"{row.done}/{planned}" if planned else f"{max(0.0, self._clock() - row.began):.0f} s"
        return took(row.stage.seconds) if row.stage is not None and row.state != "skipped" else ""

    # Keeping up

    def update(self) -> None:
        """Show what the model knows now."""
        changed = []
        for item in range(self.item_count()):
            if item < len(self._model.stages):
                row = self._model.stages[item]
                seen: object = (row.state, row.stage, self._right(row))
            else:
                seen = self._verdict()
            if self._shown.get(item) != seen:
                self._shown[item] = seen
                changed.append(item)
        self._follow()
        self.repaint(changed)

    def _follow(self) -> None:
        """To the stage that runs; at the end to what is worst."""
        if not self._following or not self.window.height:
            return
        states = [row.state for row in self._model.stages]
        wanted = "running" if self._model.running else "fail"
        if wanted in states:
            self.put((states.index(wanted), 0))
            self._following = True

    def again(self) -> None:
        """A new test has begun."""
        self._unfolded.clear()
        self._shown.clear()
        self._following = True
        self.cursor = self.window.top = (0, 0)
        self.window.forget()

    def moved(self) -> None:
        self._following = False

    @property
    def stage(self) -> StageRow:
        """The one under the cursor."""
        return self._model.stages[min(self.cursor[0], len(self._model.stages) - 1)]

    def action_toggle(self) -> None:
        id, item = self.stage.id, min(self.cursor[0], len(self._model.stages) - 1)
        self._unfolded ^= {id}
        self.window.forget(item)
        self.put((item, 0))
        self.repaint((item,))

    def action_copy(self) -> None:
        stage = self.stage.stage
        if stage is None:
            return
        lines = [f"{stage.id} {stage.title}: {stage.verdict}", stage.message, stage.fix, *stage.notes]
        for exchange in stage.exchanges:
            lines += [f"> {exchange.method} {exchange.url}", exchange.request]
            lines += [f"< {exchange.status or 'no answer'}", exchange.response]
        own_app(self).copy("\n".join(filter(None, lines)), "stage")


def _told(style: str, text: str, room: int) -> Iterator[tuple[str, str]]:
    for row in wrap(printable(clean(text, 1_000)), room) if text else ():
        yield style, _indented(row)


def _exchange(exchange: Exchange, room: int) -> Iterator[tuple[str, str]]:
    yield from _told("key", f"> {exchange.method} {exchange.url}", room)
    yield from _body(exchange.request, room)
    answer = f"< {exchange.status if exchange.status is not None else 'no answer'}   {took(exchange.seconds)}"
    yield from _told("key", answer + ("   (the longer text is cut)" if exchange.cut else ""), room)
    yield from _body(exchange.response, room)


def _body(text: str, room: int) -> Iterator[tuple[str, str]]:
    lines = list(pieces(_pretty(text))) if text else []
    for line in lines[:LONGEST]:
        shown = printable(line)
        lead = " " * min(2 + len(shown) - len(shown.lstrip(" ")), room // 2)
        for row in wrap(shown.lstrip(" "), room - len(lead)):
            yield "text", _indented(lead + row)
    if len(lines) > LONGEST:
        yield "dim", _indented(f"  {len(lines) - LONGEST} lines more: y copies them all")


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _indented(text: str) -> str:
    return pad("", INDENT) + text
