"""What is known of the field under the cursor: its type and help, what is wrong, where it stands, what follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.segment import Segment

from rltui.doctor.watched import watched_by
from rltui.screens.config.fields import safe
from rltui.text import clean
from rltui.text_lines import printable, wrap
from rltui.widgets.lines import Lines, look_of

if TYPE_CHECKING:
    from rltui.model.form_rows import Row, View
    from trainer.config import Problem

Said = tuple[str, str]  # (text, style)
MOST_RULES = 3  # that are named
LABEL = 10  # cells of the name of a number
WIDE = 48  # cells from which on the sums behind the numbers are shown


def facts(row: Row, view: View) -> Iterator[Said]:
    """The help on one field, most important first. An empty text is a blank line."""
    known = row.known
    first = row.problem is not None and row.problem.level == "error"
    for problem in row.problems if first else ():
        yield from _problem(problem)
    if row.missing:
        yield "! it must be given", "act"
    if known is not None:
        unit = f" in {known.unit}" if known.unit else ""
        need = " · required" if known.required else ""
        yield f"{known.allowed}{unit}{need}", "dim"
    for problem in () if first else row.problems:
        yield from _problem(problem)
    if known is not None:
        yield known.help, "text"
    yield from _place(row, view)
    if known is not None:
        if known.meta.get("checks"):
            yield str(known.meta["checks"]), "dim"
        if known.live:
            yield "may change while a run is going", "dim"
        elif known.resume:
            yield "may differ when a run is resumed", "dim"
        if rules := watched_by(row.key):
            more = f" and {len(rules) - MOST_RULES} more" if len(rules) > MOST_RULES else ""
            yield f"watched by {', '.join(rules[:MOST_RULES])}{more} of the Doctor", "dim"
        example = known.meta.get("example")
        if example is not None and not row.given:
            from trainer.config.toml_values import format_value

            yield f"example: {format_value(example)}", "dim"


def _problem(problem: Problem) -> Iterator[Said]:
    from rltui.model.form_fix import in_words

    style = {"error": "act", "warning": "watch"}.get(problem.level, "info")
    sign = {"error": "!", "warning": "warning:", "note": "note:"}[problem.level]
    yield f"{sign} {problem.why}", style
    if problem.fix and problem.code != "missing":
        key = "m" if problem.code == "migrated" else "x"
        yield f"{key}: {in_words(problem)}", "key"


def _place(row: Row, view: View) -> Iterator[Said]:
    origin = view.loaded.origins.get(row.key) if view.loaded is not None else None
    parts = []
    if row.line is not None:
        parts.append(f"line {row.line}")
    if row.written and row.written != row.key:
        parts.append(f"as {row.written}")
    if row.was is not None:
        parts.append(f"before: {row.was}")
    elif row.state == "changed":
        parts.append("before: not there")
    if not row.given:
        known = row.known
        if origin is not None and origin.kind == "derived":
            parts.append(f"derived: {origin.was}" + (f" ({origin.note})" if origin.note else ""))
        elif known is not None and known.derived:
            parts.append(f"derived: {known.derived}")
        elif origin is not None and origin.at:
            parts.append(f"from {origin.at}")
        elif known is not None:
            parts.append("not in the file: the default counts" if known.default is not None else "not in the file")
    elif row.known is not None and row.known.default is not None:
        from rltui.model.form_values import shown_value

        parts.append(f"default {shown_value(row.known.default)}")
    if parts:
        yield " · ".join(parts), "dim"


_LATER = "What follows from the values is shown here once the config is valid."


class About(Lines):
    """`show` what is known of a row; it scrolls by itself where it is longer than the pane."""

    def __init__(self) -> None:
        super().__init__(id="about")
        self._row: Row | None = None
        self._view: View | None = None
        self._extra: tuple[Said, ...] = ()
        self._rows: list[list[Said]] = []

    def show(self, row: Row | None, view: View | None, extra: tuple[Said, ...] = ()) -> None:
        """`extra`: what is known beside it, such as whether an address answered."""
        if (row, view, extra) != (self._row, self._view, self._extra):
            if row is None or self._row is None or row.key != self._row.key:
                self.set_reactive(Lines.scroll_y, 0.0)
            self._row, self._view, self._extra = row, view, extra
            self._lay_out()

    def tell(self, *said: Said) -> None:
        """Something else than a field."""
        self._row, self._view, self._extra = None, None, said
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        room = max(20, self.size.width - 2)
        rows: list[list[Said]] = []
        known = facts(self._row, self._view) if self._row is not None and self._view is not None else ()
        for text, style in (*self._extra, *known):
            rows += [[(line, style)] for line in wrap(printable(clean(text, 2000)), room)] if text else []
        if self._view is not None:
            narrow, wide = self.size.height <= 4, self.size.width >= WIDE
            if not narrow and self._view.numbers:
                title = "derived" if self._view.fresh and not self._view.errors else "derived, while it was valid"
                rows += [[], [(title, "title")]]
                for number in self._view.numbers:
                    first, *rest = wrap(safe(number.text), max(10, room - LABEL))
                    rows.append([(f"{number.label:<{LABEL}}", "dim"), (first, "text")])
                    rows += [[(" " * LABEL + line, "text")] for line in rest]
                    if wide and number.sum:
                        lines = wrap(safe(number.sum, 400), max(10, room - LABEL))
                        rows += [[(" " * LABEL + line, "dim")] for line in lines]
            elif not narrow and self._row is not None:
                rows += [[]] + [[(line, "dim")] for line in wrap(_LATER, room)]
        self._rows = rows
        self.line_count = len(rows)
        self.refresh_changed()

    def line(self, y: int, width: int) -> list[Segment]:
        look = look_of(self)
        if y >= len(self._rows):
            return []
        return [Segment(" ")] + [Segment(text, look.style(style)) for text, style in self._rows[y]]

    def action_up(self) -> None:
        self.scroll_by(-1)

    def action_down(self) -> None:
        self.scroll_by(1)
