"""The framework's terminal driver, but for input that is no UTF-8, a storm of sizes, and a terminal that hangs up."""

from __future__ import annotations

import asyncio
import os
import signal

from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

NOISE = (ValueError, ArithmeticError, LookupError)  # of the decoder, and of the parser on sequences it half knows


class TolerantDriver(LinuxDriver):
    """Line noise, or a key of a Latin-1 terminal, costs the bytes that came with it and not the app."""

    def run_input_thread(self) -> None:
        while not self.exit_event.is_set():
            try:
                super().run_input_thread()
            except NOISE:
                continue

    def start_application_mode(self) -> None:
        """The framework's handler reads the size and tells the app. A second signal that interrupts it in between
        tells its own first, and the older size would stay."""
        super().start_application_mode()
        tell, loop = signal.getsignal(signal.SIGWINCH), asyncio.get_running_loop()
        signal.signal(signal.SIGWINCH, lambda number, frame: loop.call_soon_threadsafe(tell, number, frame))

    def resume_application_mode(self) -> None:
        """A terminal that hangs up continues its programs, too: without a stop before it. A second thread that reads
        would then be started, of which only one is ever ended, and the process stays for ever."""
        self.disable_input()
        super().resume_application_mode()


def driver_class() -> type[Driver] | None:
    """None: the one that the environment names, which draws for a page of a browser (rltui.web)."""
    return None if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver") else TolerantDriver
