"""The question for the background, through a pty with a terminal that answers as told."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Callable

import pytest

from rltui.terminal.background import QUERY, from_colorfgbg, is_dark, query_background

DA1 = b"\x1b[?64;1;2c"


def ask(answer: Callable[[int], None], timeout_s: float, late_s: float = 0.0) -> bool | None:
    """What `query_background` says to a terminal where `answer(master)` runs as soon as the query is read.

    In a child, because it takes a process in the foreground of a terminal of its own. The child also finds that the
    terminal's attributes are as before, and that nothing is left to be read as keys.
    """
    pid, master = os.forkpty()
    if pid == 0:
        code = 99
        try:
            before = termios.tcgetattr(0)
            dark = query_background(0, 1, timeout_s, late_s)
            clean = termios.tcgetattr(0) == before and not waiting(0)
            code = {None: 0, True: 1, False: 2}[dark] if clean else 50
        finally:
            os._exit(code)
    read = b""
    while QUERY not in read:
        read += os.read(master, 100)
    answer(master)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master)
    return {0: None, 1: True, 2: False}[status]


def waiting(fd: int) -> bool:
    """Whether keys wait, also those of a line that has not ended."""
    attributes = termios.tcgetattr(fd)
    attributes[3] &= ~termios.ICANON
    termios.tcsetattr(fd, termios.TCSANOW, attributes)
    return bool(select.select([fd], [], [], 0)[0])


def saying(*pieces: bytes) -> Callable[[int], None]:
    def answer(master: int) -> None:
        for piece in pieces:
            os.write(master, piece)

    return answer


@pytest.mark.parametrize(
    ("pieces", "dark"),
    [
        ([b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", DA1], True),
        ([b"\x1b]11;rgb:ff/ff/ff\x07", DA1], False),
        ([b"\x1b]1", b"1;rgb:ffff/ff", b"ff/ffff\x1b", b"\\\x1b[?6", b"4c"], False),
        ([b"\x1b]11;rgb:nonsense\x07", DA1], None),
        ([b"\x1b[I\x1b]11;rgba:0000/0000/0000/8000\x07" + DA1], True),  # a focus event in front
    ],
)
def test_answers(pieces, dark):
    assert ask(saying(*pieces), 60) is dark


def test_a_terminal_that_does_not_know_the_question_needs_no_wait():
    assert ask(saying(DA1), 3600) is None  # or this test never ends


def test_a_terminal_that_says_nothing():
    assert ask(saying(), 0.01) is None


def test_an_answer_over_a_slow_link_is_waited_for():
    assert ask(saying(b"\x1b]11;rgb:ff/ff/ff\x07", DA1), 0.0, late_s=60) is False


def test_an_unfinished_answer_leaves_no_keys_behind():
    assert ask(saying(b"\x1b]11;rgb:ffff/ff"), 0.5) is None


def test_nothing_is_asked_of_a_pipe():
    out, into = os.pipe()
    try:
        assert query_background(out, into) is None
        os.set_blocking(out, False)
        with pytest.raises(BlockingIOError):
            os.read(out, 1)
    finally:
        os.close(out)
        os.close(into)


@pytest.mark.parametrize(
    ("color", "dark"),
    [
        ("rgb:0/0/0", True),
        ("rgb:f/f/f", False),
        ("rgb:fff/fff/fff", False),
        ("rgb:0000/2b2b/3636", True),  # solarized, dark
        ("rgb:fdfd/f6f6/e3e3", False),  # ... and light
        ("rgb:0000/0000/ffff", True),  # blue is dark
        ("rgb:0000/ffff/0000", False),  # green is light
        ("RGBA:FFFF/FFFF/FFFF/0000", False),
        ("rgb:fffff/0/0", None),
        ("#ffffff", None),
        ("", None),
    ],
)
def test_is_dark(color, dark):
    assert is_dark(color) is dark


@pytest.mark.parametrize(
    ("value", "dark"),
    [
        ("15;0", True),
        ("7;8", True),
        ("0;15", False),
        ("0;7", False),
        ("0;default;15", False),
        ("15;default", None),
        ("0;16", None),
        ("0;\u0665", None),
        ("", None),
    ],
)
def test_colorfgbg(value, dark):
    assert from_colorfgbg({"COLORFGBG": value}) is dark
    assert from_colorfgbg({}) is None
