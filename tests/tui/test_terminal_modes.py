"""The terminal is given back: after an error, SIGTERM, SIGHUP, with and without the framework, by real ptys."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
from pathlib import Path

import pytest

from rltui.terminal.modes import RESTORE

ROOT = str(Path(__file__).resolve().parents[2])
LIMIT_S = 60.0  # until a test gives up; nothing waits for it

ALONE = """
import os, signal, sys, termios, tty
from rltui.terminal.modes import Guard
what = sys.argv[1]

def detach(number):
    global done
    done = what == "detaches"
    if what == "fails":
        raise RuntimeError("no loop")

done = False
with Guard(detach, grace_s=60.0 if what == "detaches" else 0.05) as guard:
    tty.setraw(0)
    os.write(2, b"\\x1b[?1049h\\x1b[?1003h\\x1b[?25lREADY")
    if what == "raises":
        raise SystemExit(7)
    if what == "stopped":
        termios.tcflow(0, termios.TCOOFF)  # as ctrl+s does
        os.kill(os.getpid(), signal.SIGTERM)
    while not done:
        signal.pause()
os.write(2, b"AFTER")
sys.exit(guard.exit_code)
"""

APP = """
import asyncio, sys
from textual.app import App
from textual.widgets import Static
from rltui.terminal.modes import Guard

class Small(App):
    BINDINGS = [("s", "suspend_process", "")]  # sends SIGTSTP

    def compose(self):
        yield Static()
    def on_mount(self):
        self.loop = asyncio.get_running_loop()
    def on_resize(self, event):
        self.query_one(Static).update(f"SIZE-{event.size.width}-{event.size.height}-")

app = Small()
with Guard(lambda number: app.loop.call_soon_threadsafe(app.exit), grace_s=float(sys.argv[1])) as guard:
    app.run()
sys.exit(guard.exit_code or 0)
"""


class Child:
    """A Python script in a session of its own, on a terminal of its own."""

    def __init__(self, script: str, *arguments: str) -> None:
        go, told = os.pipe()  # the script begins once the terminal's first state is known
        self.pid, self.master = os.forkpty()
        if self.pid == 0:
            os.read(go, 1)
            env = {**os.environ, "PYTHONPATH": ROOT, "TERM": "xterm-256color"}
            os.execve(sys.executable, [sys.executable, "-c", script, *arguments], env)
        self.before = termios.tcgetattr(self.master)
        os.write(told, b"!")
        os.close(go)
        os.close(told)
        self.output = b""
        self.seen = 0
        self.status: int | None = None
        self.resize(80, 24)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text: bytes | None) -> bytes:
        """What comes up to `text`, or to the end (None); the next call goes on from there."""
        start = self.seen
        while text is None or text not in self.output[start:]:
            assert select.select([self.master], [], [], LIMIT_S)[0], self.output[-2000:]
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # EIO: nobody has it open any more
                piece = b""
            if not piece:
                assert text is None, self.output[-2000:]
                break
            self.output += piece
        self.seen = len(self.output) if text is None else self.output.index(text, start) + len(text)
        return self.output[start : self.seen]

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def attributes(self) -> list:
        return termios.tcgetattr(self.master)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self.master >= 0:
            os.close(self.master)


def modes(output: bytes) -> dict[int, bool]:
    """The last state of each private mode, queries left out."""
    return {int(number): state == b"h" for number, state in re.findall(rb"\x1b\[\?(\d+)([hl])", output)}


NORMAL = {7: True, 25: True}


def are_normal(output: bytes) -> bool:
    return {number: on for number, on in modes(output).items() if on} == NORMAL


def test_restore_has_each_mode_once_and_the_keyboard_before_the_screen():
    off = [1049, 2026, 1000, 1002, 1003, 1006, 1015, 1016, 2004, 1004, 2048]
    assert modes(RESTORE) == dict.fromkeys(off, False) | NORMAL
    assert RESTORE.index(b"\x1b[<u") < RESTORE.index(b"\x1b[?1049l") < RESTORE.index(b"\x1b[?25h")
    assert RESTORE.endswith(b"\x1b[0m")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["hangs", "fails"])
def test_what_does_not_end_by_itself_is_ended(number, what):
    with Child(ALONE, what) as child:
        child.read_until(b"READY")
        assert child.attributes() != child.before
        os.kill(child.pid, number)
        assert child.wait() == 128 + number
        assert child.attributes() == child.before
        assert child.read_until(None) == RESTORE


def test_a_clean_end_after_a_signal_leaves_the_cursor_where_it_is():
    with Child(ALONE, "detaches") as child:
        child.read_until(b"READY")
        os.kill(child.pid, signal.SIGTERM)
        rest = child.read_until(None)
        assert child.wait() == 128 + signal.SIGTERM
        # the alternate screen has been left by then: a second time would put the cursor back over later lines
        assert b"1049l" not in rest and b"[<u" not in rest and b"\x1b[?1003l" in rest
        assert rest.endswith(b"AFTER")


def test_an_exception_passes_and_the_terminal_is_restored():
    with Child(ALONE, "raises") as child:
        child.read_until(b"READY")
        assert child.wait() == 7
        assert child.attributes() == child.before
        assert are_normal(child.read_until(None) and child.output)


def test_a_terminal_that_is_gone_ends_it_without_an_error():
    with Child(ALONE, "hangs") as child:
        child.read_until(b"READY")
        os.close(child.master)
        child.master = -1
        assert child.wait() == 128 + signal.SIGHUP


def test_a_terminal_that_takes_nothing_does_not_hold_it():
    with Child(ALONE, "stopped") as child:
        assert child.wait() == 128 + signal.SIGTERM
        assert child.attributes() == child.before
        assert RESTORE not in child.read_until(None)


def test_with_the_framework_resize_stop_continue_and_sigterm():
    with Child(APP, str(LIMIT_S)) as child:
        child.read_until(b"SIZE-80-24-")
        assert modes(child.output)[1049] and child.attributes() != child.before
        child.resize(100, 30)
        child.read_until(b"SIZE-100-30-")

        os.write(child.master, b"s")
        child.read_until(b"\x1b[?1004l")
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        assert child.attributes() == child.before
        os.kill(child.pid, signal.SIGCONT)
        child.read_until(b"\x1b[?1049h")
        child.read_until(b"SIZE-100-30-")

        os.kill(child.pid, signal.SIGTERM)
        child.read_until(None)
        assert child.wait() == 128 + signal.SIGTERM
        assert child.attributes() == child.before
        assert are_normal(child.output)
        assert child.output.count(b"\x1b[<u") == len(re.findall(rb"\x1b\[>\d+u", child.output)) == 2


def test_with_the_framework_a_hang_up_ends_it():
    """Its writer thread dies of the first EIO, and its main thread would wait for that for ever."""
    with Child(APP, "0.5") as child:
        child.read_until(b"SIZE-80-24-")
        os.close(child.master)
        child.master = -1
        assert child.wait() == 128 + signal.SIGHUP
