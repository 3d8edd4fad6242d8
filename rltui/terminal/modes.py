"""The terminal's modes are given back whatever ends the app: its end, an error, SIGTERM or SIGHUP.

The framework restores them at its own end. This is for what it does not reach: an error outside it, a main thread
that hangs, and a terminal that is gone, on which its writer stops for ever.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# Harmless wherever it is sent, also a second time and outside the alternate screen.
MODES_OFF = (
    b"\x1b\\"  # ends an unfinished OSC or DCS
    b"\x1b[?2026l"  # synchronised output: show what was held back
    # mouse: clicks, drags, moves; SGR, urxvt and pixel coordinates
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"
    b"\x1b[?2004l"  # bracketed paste
    b"\x1b[?1004l"  # focus events
    b"\x1b[?2048l"  # in-band resize
    b"\x1b[?7h"  # line wrap
    b"\x1b[?25h"  # cursor
    b"\x1b[0m"
)
# The kitty keyboard flags are kept by screen: they go before the alternate screen does. Leaving that puts the cursor
# where it was at its start, so this is not sent after the framework has left it.
LEAVE = b"\x1b\\\x1b[<u\x1b[?1049l"
RESTORE = LEAVE + MODES_OFF

GRACE_S = 3.0  # from a signal to the end by force
_WRITE_WAIT_S = 0.5  # for a terminal that is stopped (ctrl+s)
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Guard:
    """Around the app, in the main thread: `with Guard(detach) as guard: app.run()`.

    `on_signal(number)` is called once, in the main thread between two of its instructions, so it must only post
    (`loop.call_soon_threadsafe(app.exit)`). If the block has not ended `grace_s` later, or the callback raises, the
    terminal is restored and the process exits with 128 + number. A second signal changes nothing: a hang-up often
    comes twice, from the kernel and from the shell.
    """

    def __init__(
        self, on_signal: Callable[[int], None], *, fd_in: int = 0, fd_out: int = 2, grace_s: float = GRACE_S
    ) -> None:
        self.signal: int | None = None  # what asked the app to end
        self._on_signal = on_signal
        self._fd_in = fd_in
        self._fd_out = fd_out
        self._grace_s = grace_s
        self._attributes: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._ended = threading.Event()

    @property
    def exit_code(self) -> int | None:
        """Of a process that a signal asked to end; None: none did."""
        return None if self.signal is None else 128 + self.signal

    def __enter__(self) -> Guard:
        with contextlib.suppress(OSError, termios.error):  # no terminal: nothing to restore
            self._attributes = termios.tcgetattr(self._fd_in)
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self.restore(left=kind is None)
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def restore(self, *, left: bool = False) -> None:
        """Send the sequences and set the terminal's attributes back; `left`: it has left the alternate screen.

        Never raises, and never waits long for a terminal that takes nothing.
        """
        # From the background, where a stopped app may be, setting attributes would stop the process again.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            _send(self._fd_out, MODES_OFF if left else RESTORE)
            if self._attributes is not None:
                with contextlib.suppress(OSError, termios.error):
                    termios.tcsetattr(self._fd_in, termios.TCSANOW, self._attributes)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            return
        self.signal = number
        try:
            threading.Thread(target=self._end_by_force, args=(number,), daemon=True, name="rltui-end").start()
            self._on_signal(number)
        except Exception:  # a signal ends the program all the same
            self._exit(number)

    def _end_by_force(self, number: int) -> None:
        if not self._ended.wait(self._grace_s):
            self._exit(number)

    def _exit(self, number: int) -> None:
        self.restore()
        os._exit(128 + number)


def _send(fd: int, data: bytes) -> None:
    """Write to a terminal that may be gone (EIO, EPIPE) or stopped."""
    with contextlib.suppress(OSError, ValueError):
        if os.isatty(fd) and select.select([], [fd], [], _WRITE_WAIT_S)[1]:
            os.write(fd, data)
