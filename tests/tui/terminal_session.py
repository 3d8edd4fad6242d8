"""A program under a pseudo-terminal of its own, driven and read as a person's terminal does. Linux only.

A thread takes every byte as it comes, with its time, and answers what programs ask a terminal. All waiting is for
bytes or for the end of the process, never for the clock alone. What is on the screen is worked out by pyte, in the
thread of the caller, when asked for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyte

TRUECOLOR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
KEYS = {
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "escape": b"\x1b",
    "space": b" ",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "f1": b"\x1bOP",
} | {f"ctrl+{letter}": bytes([ord(letter) - 96]) for letter in "abcdefghijklmnopqrstuvwxyz"}

# Of the person who runs the tests: what would make the same program draw something else.
_DROPPED = re.compile(
    r"NO_COLOR|FORCE_COLOR|COLORFGBG|COLORTERM|COLUMNS|LINES|TMUX.*|STY|SSH_.*|TEXTUAL.*|RLTUI.*|LC_.*"
)
_QUERY = re.compile(
    rb"\x1b\](?P<osc>1[01]);\?(?:\x07|\x1b\\)|\x1b\[\?(?P<mode>\d+)\$p|\x1b\[(?P<da1>0?c)|\x1b\[(?P<place>6n)"
)
# What pyte takes for text: private sequences but those of `?`, and device control strings.
_FOREIGN = re.compile(rb"\x1b\[[<=>][0-9;:]*[ -/]*[@-~]|\x1bP.*?\x1b\\", re.DOTALL)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|P(?:(?!\x1b\\).)*|\](?:(?!\x07|\x1b\\).)*)?\Z", re.DOTALL)
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)
END = b"\0"  # what we write behind a program's last words
_PRIVATE_MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")


class Press(NamedTuple):
    """What came of one key: ms to the first byte (None: nothing came in time), and how many bytes."""

    ms: float | None
    bytes: int


class TerminalSession:
    """`with TerminalSession([...]) as terminal:` starts the program; leaving kills what is left of it."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        background: str | None = "1e1e/1e1e/1e1e",
        answers: bool = True,
    ) -> None:
        """`env` is laid over a cleaned environment (None drops a name). `background`: of the OSC 11 answer; None: that
        question stays open. `answers=False`: a terminal that answers nothing."""
        self.columns, self.rows = columns, rows
        self.background, self.answers = background, answers
        self.env = environment(env)
        self._chunks: list[tuple[float, bytes]] = []
        self._news = threading.Condition()
        self._finished = False
        self._asked = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = 0  # chunks that pyte has seen
        self._held = b""  # the beginning of a sequence, until its end has come
        self._master, self._slave = os.openpty()
        self._set_size()
        self.modes_before = self.terminal_modes()
        self._wake_read, self._wake = os.pipe()
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [os.fspath(word) for word in command],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=self.env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.pid = self.process.pid
        self._reader = threading.Thread(target=self._read, name=f"terminal of {self.pid}", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs in the session's process group, and let go of the terminal. Twice is fine."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    # What the person does

    def send(self, *keys: str) -> None:
        """Keys by their names in KEYS, other words letter by letter. No wait."""
        for key in keys:
            self.write(KEYS[key] if key in KEYS else key.encode())

    def write(self, data: bytes) -> None:
        os.write(self._master, data)

    def resize(self, columns: int, rows: int) -> None:
        """A new size, which the kernel tells the program by SIGWINCH."""
        self._feed()
        self.columns, self.rows = columns, rows
        self._screen.resize(rows, columns)
        self._set_size()

    def hang_up(self) -> None:
        """The terminal goes away, as when a link drops: the program gets SIGHUP, and its reads and writes fail."""
        if self._master < 0:
            return
        os.close(self._wake)
        self._reader.join()
        os.close(self._wake_read)
        os.close(self._master)
        self._master = -1

    def kill(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.pid, number)

    # What is waited for

    def wait_for(self, what: str | re.Pattern[str] | Callable[[Self], Any], timeout: float = 60.0) -> float:
        """Wait until the text is on the screen, or the test of this session holds. Gives the time (perf_counter) at
        which its last byte came. AssertionError: it did not in `timeout` seconds, or the program ended before."""
        holds = _test(what)
        deadline = time.perf_counter() + timeout
        while True:
            with self._news:
                seen, finished = len(self._chunks), self._finished
                last = self._chunks[-1][0] if self._chunks else self.started
            if holds(self):
                return last
            with self._news:
                left = deadline - time.perf_counter()
                if finished or left <= 0:
                    why = "the program ended" if finished else f"{timeout} s passed"
                    raise AssertionError(f"{why} without {_name(what)} on the screen:\n{self.screen()}")
                if len(self._chunks) == seen and not self._finished:
                    # a test of other things than the screen is asked again from time to time
                    self._news.wait(left if isinstance(what, str | re.Pattern) else min(left, 0.05))

    def drain_until_quiet(self, quiet_ms: float = 100, timeout: float = 60.0) -> None:
        """Wait until nothing has come for `quiet_ms`. AssertionError: it never was so quiet."""
        deadline = time.perf_counter() + timeout
        with self._news:
            seen = -1
            while seen != len(self._chunks):
                assert time.perf_counter() < deadline, f"never quiet for {quiet_ms} ms in {timeout} s"
                seen = len(self._chunks)
                self._news.wait_for(lambda seen=seen: len(self._chunks) != seen, quiet_ms / 1000)

    def press(self, key: str, *, window_ms: float = 120, timeout: float = 2.0) -> Press:
        """Send one key and measure its answer: time to the first byte, bytes within `window_ms` of the key."""
        with self._news:
            seen = len(self._chunks)
        sent = time.perf_counter()
        self.send(key)
        with self._news:
            if not self._news.wait_for(lambda: len(self._chunks) > seen, timeout):
                return Press(None, 0)
            end = sent + window_ms / 1000
            while (left := end - time.perf_counter()) > 0:
                self._news.wait(left)
            came = self._chunks[seen:]
        return Press(1000 * (came[0][0] - sent), sum(len(data) for at, data in came if at <= end))

    def wait(self, timeout: float = 60.0) -> int:
        """The exit status (negative: the signal that ended it), once all its output is here."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    # What there is to see

    @property
    def raw(self) -> bytes:
        """Every byte so far."""
        with self._news:
            return b"".join(data for _, data in self._chunks)

    @property
    def chunks(self) -> list[tuple[float, bytes]]:
        """Every read so far, with the time (perf_counter) at which it was made."""
        with self._news:
            return list(self._chunks)

    def screen(self) -> str:
        """The rows on the screen, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self.emulator().display)

    def emulator(self) -> pyte.Screen:
        """pyte's screen: `buffer[y][x]` has a cell's text and colours, `cursor` its place."""
        self._feed()
        return self._screen

    def private_modes(self) -> dict[int, bool]:
        """Each DEC private mode that was touched (1049 alternate screen, 25 cursor, 1000 mouse …): is it on?"""
        modes: dict[int, bool] = {}
        for numbers, letter in _PRIVATE_MODE.findall(self.raw):
            modes |= {int(number): letter == b"h" for number in numbers.split(b";") if number}
        return modes

    def terminal_modes(self) -> list[Any]:
        """The line discipline as termios has it; equal before and after means it was put back."""
        return termios.tcgetattr(self._slave)

    def first_text(self) -> float | None:
        """When (perf_counter) the first character came that shows; None: not yet."""
        text = b""
        for at, data in self.chunks:
            text += data
            if _SEQUENCE.sub(b"", _UNFINISHED.sub(b"", text)).strip():
                return at
        return None

    def rss_mb(self) -> float:
        """Resident memory of the program itself, in MB of 10^6 bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise ProcessLookupError(f"process {self.pid} has ended")

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _set_size(self) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def _feed(self) -> None:
        chunks = self.chunks
        data = self._held + b"".join(data for _, data in chunks[self._fed :])
        self._fed = len(chunks)
        cut = _UNFINISHED.search(data)
        whole, self._held = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
        self._stream.feed(_FOREIGN.sub(b"", whole))

    def _read(self) -> None:
        """Of the thread: take what comes until the program has ended, or the terminal is let go."""
        ended = os.pidfd_open(self.pid)
        watched = [self._master, ended, self._wake_read]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [])
                if self._wake_read in ready:
                    break
                if self._master not in ready:  # its last words may still be on their way, before ours
                    watched.remove(ended)
                    os.set_blocking(self._slave, False)
                    os.write(self._slave, END)
                elif self._take(last=ended not in watched):
                    break
        except OSError:  # the pty is gone
            pass
        finally:
            os.close(ended)
            with self._news:
                self._finished = True
                self._news.notify_all()

    def _take(self, last: bool) -> bool:
        """Read what is there. `last`: END was sent; whether it has come."""
        data = os.read(self._master, 65536)
        came = last and END in data
        data = data.replace(END, b"") if came else data
        with self._news:
            self._chunks.append((time.perf_counter(), data))
            self._news.notify_all()
        if self.answers:
            self._asked = (self._asked + data)[-65536 - 64 :]
            end = 0
            for found in _QUERY.finditer(self._asked):
                end = found.end()
                if reply := self._reply(found):
                    os.write(self._master, reply)
            self._asked = self._asked[end:][-64:]
        return came

    def _reply(self, query: re.Match[bytes]) -> bytes:
        """As xterm does; of the modes asked for only 2026, synchronised output, is there."""
        if code := query["osc"]:
            colour = self.background if code == b"11" else "d0d0/d0d0/d0d0"
            return b"\x1b]%s;rgb:%s\x1b\\" % (code, colour.encode()) if colour else b""
        if mode := query["mode"]:
            return b"\x1b[?%s;%d$y" % (mode, 2 if mode == b"2026" else 0)
        return b"\x1b[?62;22c" if query["da1"] else b"\x1b[1;1R"


def environment(more: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This process's environment without what changes how programs draw, for a 24-bit colour terminal in UTF-8."""
    env = {name: value for name, value in os.environ.items() if not _DROPPED.fullmatch(name)}
    env |= TRUECOLOR | {"LANG": "C.UTF-8"}
    for name, value in (more or {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def _test(what: str | re.Pattern[str] | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(what, str):
        return lambda session: what in session.screen()
    if isinstance(what, re.Pattern):
        return lambda session: what.search(session.screen())
    return what


def _name(what: str | re.Pattern[str] | Callable[[Any], Any]) -> str:
    return "what was waited for" if callable(what) else repr(what)
