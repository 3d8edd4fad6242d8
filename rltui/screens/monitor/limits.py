"""The line for the ends of a y-axis."""

from __future__ import annotations

from math import isfinite

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from rltui.charts.numbers import number
from rltui.charts.scale import Limits
from rltui.screens.dialog import Dialog, answer
from rltui.text import clean
from rltui.text_lines import printable
from rltui.widgets.lines import look_of
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt

FREE = "-"  # stands for an end that follows the data


def limits_of(text: str) -> Limits:
    """ "0 1", "- 1", "0"; nothing: both ends are free. ValueError: a sentence."""
    words = text.replace(",", " ").split()
    if len(words) > 2:
        raise ValueError("two numbers at most: the lowest and the highest value")
    low, high = (_end(word) for word in (*words, *[FREE] * (2 - len(words))))
    if low is not None and high is not None and low >= high:
        raise ValueError(f"the first has to be below the second: {number(low)} is not below {number(high)}")
    return low, high


def _end(word: str) -> float | None:
    if word == FREE:
        return None
    try:
        end = float(word)
    except ValueError:
        end = float("nan")
    if not isfinite(end):
        raise ValueError(f"{clean(word, 40)} is not a number; {FREE} leaves an end to the data")
    return end


def written(limits: Limits) -> str:
    """As it is typed."""
    if limits == (None, None):
        return ""
    return " ".join(FREE if end is None else f"{end:g}" for end in limits)


class LimitsScreen(Dialog[Limits | None]):
    """Dismissed with the limits, None for escape."""

    DEFAULT_CSS = """
    LimitsScreen { align: center middle; background: transparent; }
    LimitsScreen > Pane { width: 64; max-width: 96%; height: auto; background: $background; }
    LimitsScreen > Pane > Static { height: auto; padding: 0 1; }
    """

    def __init__(self, metric: str, limits: Limits) -> None:
        super().__init__()
        self._metric, self._limits = metric, limits

    def compose(self) -> ComposeResult:
        """The line in a box, with room for what is wrong with it."""
        prompt = Prompt("y", placeholder="LOW HIGH   - leaves an end to the data")
        yield Pane(prompt, Static(id="problem"), title=f"The y-axis of {clean(self._metric, 40)}")

    def opened(self) -> None:
        """The line has the keys."""
        self.query_one(Pane).set_subtitle("empty: as the data are, esc changes nothing")
        self.query_one(Prompt).open(written(self._limits))

    @on(Prompt.Submitted)
    def _taken(self, event: Prompt.Submitted) -> None:
        try:
            limits = limits_of(event.value)
        except ValueError as error:
            style = Style.from_rich_style(look_of(self).style("watch"))
            self.query_one("#problem", Static).update(Content.styled(printable(str(error)), style))
            return
        answer(self, limits)

    @on(Prompt.Cancelled)
    def _cancelled(self) -> None:
        answer(self)
