"""Textual, told what `textual_app` says, sends only colours of the terminal's mode. Read from a pty."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rltui.look import ColorMode, Look, default_look
from rltui.look.textual_app import app_arguments

APP = """
import os, sys
from rltui.look import ColorMode, Look, default_look
from rltui.look.textual_app import app_arguments, environment
color = ColorMode(sys.argv[1])
for name, value in environment(color).items():
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value

from rich.segment import Segment
from textual.app import App
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import Input
from rltui.look.styles import STYLES

look = Look(default_look().theme, color, ascii=False)

class Demo(Widget):
    DEFAULT_CSS = "Demo { height: 50; border: round $border; background: $surface; }"
    def render_line(self, y):
        names = list(STYLES)[y : y + 1]
        words = [Segment(name, self.rich_style + look.style(name)) for name in names]
        steps = [Segment("#", look.gradient("diverging", i / 9)) for i in range(10)]
        return Strip(words + [Segment("#", look.series(y))] + steps)

class Demos(App):
    CSS = "Screen { background: $background; color: $text; }"
    def __init__(self):
        super().__init__(**app_arguments(color))
        self.register_theme(Theme(**look.textual_theme()))
        self.theme = look.theme.name
    def compose(self):
        yield Input("an input")
        yield Demo()
    def on_ready(self):
        self.call_after_refresh(self.call_after_refresh, self.exit)

Demos().run()
"""
_SGR = re.compile(rb"\x1b\[([0-9;]*)m")


def output(color: ColorMode) -> bytes:
    """What the app sends to a terminal that promises everything and asks for no colour, against the mode."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "90", "LINES": "60"}
    env |= {"NO_COLOR": "1", "TEXTUAL_FILTERS": "dim"}
    command = [sys.executable, "-c", APP, color]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True) as app:
        os.close(theirs)
        sent = b""
        try:
            while chunk := os.read(ours, 65_536):
                sent += chunk
        except OSError:  # Linux says so when the other side is closed
            pass
        os.close(ours)
    assert app.returncode == 0, sent[-2000:].decode(errors="replace")
    return sent


def colors(sent: bytes) -> Iterator[str]:
    """The kind of each colour code: rgb, 256, 16 or default."""
    for match in _SGR.finditer(sent):
        codes = iter(int(code or b"0") for code in match[1].split(b";"))
        for code in codes:
            if code in (38, 48):
                kind = next(codes)
                yield "rgb" if kind == 2 else "256"
                for _ in range(3 if kind == 2 else 1):
                    next(codes)
            elif code in (39, 49):
                yield "default"
            elif 30 <= code <= 47 or 90 <= code <= 107:
                yield "16"


@pytest.mark.parametrize(
    ("color", "allowed"),
    [
        (ColorMode.TRUECOLOR, {"rgb"}),
        (ColorMode.ANSI256, {"256"}),
        (ColorMode.ANSI16, {"16", "default"}),
        (ColorMode.NONE, {"default"}),
    ],
)
def test_only_colours_of_the_mode_are_sent(color: ColorMode, allowed: set[str]) -> None:
    sent = output(color)
    assert b"role_assistant" in sent and b"an input" in sent
    assert set(colors(sent)) == allowed


@pytest.mark.parametrize("color", ColorMode)
def test_the_theme_and_the_app_agree_on_ansi(color: ColorMode) -> None:
    arguments = Look(default_look().theme, color, ascii=False).textual_theme()
    assert arguments["ansi"] is app_arguments(color)["ansi_color"]
    if color in (ColorMode.ANSI16, ColorMode.NONE):
        assert arguments["background"] == arguments["surface"] == "ansi_default"
        assert not any("#" in value for value in arguments["variables"].values())
    if color is ColorMode.NONE:
        named = {value for value in arguments["variables"].values() if value.startswith("ansi_")}
        assert named == {"ansi_default"}
