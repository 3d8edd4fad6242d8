"""The framework's terminal driver, but for input that is no UTF-8, and for a terminal that hangs up."""

from __future__ import annotations

import os

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

    def resume_application_mode(self) -> None:
        """A terminal that hangs up continues its programs, too: without a stop before it. A second thread that reads
        would then be started, of which only one is ever ended, and the process stays for ever."""
        self.disable_input()
        super().resume_application_mode()


def driver_class() -> type[Driver] | None:
    """None: the one that the environment names, which draws for a page of a browser (rltui.web)."""
    return None if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver") else TolerantDriver
