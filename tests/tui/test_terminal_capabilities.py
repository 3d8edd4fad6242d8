"""Colours, glyphs and multiplexer as told by the environment."""

from __future__ import annotations

import pytest

from rltui.terminal.capabilities import ColorMode, Terminal, detect


def never() -> bool | None:
    raise AssertionError("the terminal must not be asked here")


def found(env: dict[str, str], **more) -> Terminal:
    return detect(env, **{"encoding": "utf-8", "background": lambda: None, **more})


@pytest.mark.parametrize(
    ("env", "mode"),
    [
        ({"TERM": "xterm-256color"}, ColorMode.ANSI256),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ColorMode.TRUECOLOR),
        ({"TERM": "xterm-256color", "COLORTERM": "24bit"}, ColorMode.TRUECOLOR),
        ({"TERM": "xterm-256color", "COLORTERM": "yes"}, ColorMode.ANSI256),
        ({"TERM": "xterm-direct"}, ColorMode.TRUECOLOR),
        ({"TERM": "xterm-kitty"}, ColorMode.TRUECOLOR),
        ({"TERM": "xterm"}, ColorMode.ANSI16),
        ({}, ColorMode.ANSI16),
        ({"TERM": "linux", "COLORTERM": "truecolor"}, ColorMode.ANSI16),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, ColorMode.NONE),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, ColorMode.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, ColorMode.ANSI256),
        ({"TERM": "xterm-256color", "NO_COLOR": "1", "FORCE_COLOR": "3"}, ColorMode.NONE),
        ({"TERM": "xterm", "FORCE_COLOR": "3"}, ColorMode.TRUECOLOR),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, ColorMode.ANSI16),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "1"}, ColorMode.ANSI256),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "0"}, ColorMode.NONE),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor"}, ColorMode.TRUECOLOR),
        # screen hands on the COLORTERM of the terminal outside, whose colours it cannot show
        ({"TERM": "screen-256color", "STY": "1.a", "COLORTERM": "truecolor"}, ColorMode.ANSI256),
        ({"TERM": "screen", "STY": "1.a", "COLORTERM": "truecolor"}, ColorMode.ANSI16),
        ({"TERM": "screen-256color", "TMUX": "/s,1,0", "COLORTERM": "truecolor"}, ColorMode.TRUECOLOR),
    ],
)
def test_colour_mode(env, mode):
    assert found(env).color is mode


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"TERM": "screen-256color", "TMUX": "/s,1,0"}, "tmux"),
        ({"TERM": "tmux-256color"}, "tmux"),
        ({"TERM": "screen-256color"}, "screen"),
        ({"TERM": "xterm", "STY": "1.a"}, "screen"),
        ({"TERM": "xterm-256color"}, ""),
    ],
)
def test_multiplexer(env, name):
    assert found(env).multiplexer == name


@pytest.mark.parametrize(
    ("env", "encoding", "ascii"),
    [
        ({}, "utf-8", False),
        ({}, "UTF8", False),
        ({}, "ascii", True),
        ({}, "iso-8859-1", True),
        ({}, None, True),
        ({}, "no such thing", True),
        ({"TERM": "linux"}, "utf-8", True),
        ({"LC_ALL": "C"}, "utf-8", True),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, "utf-8", True),
        ({"LANG": "de_DE.utf8"}, "utf-8", False),
        ({"LC_CTYPE": "UTF-8"}, "utf-8", False),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, "utf-8", False),
    ],
)
def test_ascii(env, encoding, ascii):
    assert found(env, encoding=encoding).ascii is ascii


def test_ascii_and_fps_as_asked_for():
    assert found({}, ascii=True).ascii
    assert found({}).fps == 2.0
    assert found({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}).fps == 1.0
    assert found({"SSH_TTY": "/dev/pts/3"}, fps=5.0) == found({"SSH_CLIENT": "1.2.3.4 5 22"}, fps=5.0)
    assert found({"SSH_TTY": "/dev/pts/3"}, fps=5.0).fps == 5.0


def test_background_is_the_terminals_word_then_colorfgbg_then_dark():
    assert found({"COLORFGBG": "15;0"}, background=lambda: False).dark is False
    assert found({"COLORFGBG": "0;15"}).dark is False
    assert found({}).dark is True


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "linux"}, {"STY": "1.a"}, {"TERM": "screen"}]
)
def test_background_is_not_asked_where_no_answer_comes_or_helps(env):
    assert found({**env, "COLORFGBG": "0;15"}, background=never).dark is False
