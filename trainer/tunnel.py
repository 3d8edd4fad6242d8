"""A public address for a server on this host, through the program `cloudflared` (a quick tunnel, no account).

The address is read from the program's log, which is watched for as long as the tunnel is wanted: when the program
ends, it is started again with back-off, and gets a new address.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress

from trainer.processes import Child, spawn

PROGRAM = "cloudflared"
START_S = 60.0  # until the program has an address and its first connection
MAX_WAIT_S = 60.0  # between two tries to reopen

# The program's log: "... INF |  https://four-dashed-words.trycloudflare.com  |", then "... INF Registered tunnel ...".
_ADDRESS = re.compile(rb"\|\s+(https?://[^\s|]+)\s+\|")
_CONNECTED = re.compile(rb"Registered tunnel connection|Connection [0-9a-f-]+ registered")

Sleep = Callable[[float], Awaitable[None]]


class TunnelError(RuntimeError):
    """There is no tunnel. `message` says what happened, `hint` what to do, `evidence` is the end of the log."""

    def __init__(self, message: str, hint: str, evidence: str = "") -> None:
        super().__init__(f"{message}; {hint}")
        self.message, self.hint, self.evidence = message, hint, evidence


class Tunnel:
    """Leads a public https address to `target`, an http address of this host.

    Args:
        on_change: called with each address but the first, once it works.
        sink: gets the program's log line by line.
        sleep: waits between tries to reopen.
    """

    def __init__(
        self,
        target: str,
        *,
        on_change: Callable[[str], None] = lambda url: None,
        sink: Callable[[bytes], object] = lambda line: None,
        start_timeout_s: float = START_S,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._target, self._on_change, self._sink = target, on_change, sink
        self._start_timeout_s, self._sleep = start_timeout_s, sleep
        self._child: Child | None = None
        self._watching: asyncio.Task[None] | None = None
        self.url: str | None = None  # the last address that worked

    @property
    def pid(self) -> int | None:
        """Of the program, while it runs."""
        return self._child.pid if self._child is not None and not self._child.ended.done() else None

    async def start(self) -> str:
        """Opens the tunnel and returns its address. Raises TunnelError, and then leaves nothing behind."""
        self.url = await self._open()
        self._watching = asyncio.create_task(self._watch())
        return self.url

    async def stop(self) -> None:
        """Ends the program. Repeatable."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        if self._child is not None:
            await self._child.terminate()

    async def _open(self) -> str:
        """Starts the program and waits for its address and its first connection."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise TunnelError(
                f"the program {PROGRAM} is not installed, and a quick tunnel needs it",
                "install it from https://github.com/cloudflare/cloudflared/releases, or give a public address yourself",
            )
        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # An empty config: the ingress rules of a user's named tunnel would hide our server.
        options = ["--no-autoupdate", "--config", os.devnull, "--url", self._target]
        child = await spawn("tunnel", [program, "tunnel", *options], sink=_Reader(opened, self._sink))
        self._child = child
        try:
            await asyncio.wait([opened, child.ended], timeout=self._start_timeout_s, return_when="FIRST_COMPLETED")
            if opened.done():
                return opened.result()
            ended = child.ended.done()
        except BaseException:
            await child.terminate()
            raise
        await child.terminate()
        what = "ended while it opened" if ended else f"took over {self._start_timeout_s:g} s to open"
        raise TunnelError(
            f"{PROGRAM} {what} a tunnel",
            "check that this host reaches the internet, or give a public address yourself",
            child.tail,
        )

    async def _watch(self) -> None:
        """Reopens the tunnel whenever the program ends: at once, then after 1, 2, 4, ... s, at most a minute."""
        while True:
            assert self._child is not None
            await asyncio.shield(self._child.ended)
            wait = 0.0
            while True:
                await self._sleep(wait)
                with suppress(TunnelError, OSError):
                    self.url = await self._open()
                    self._on_change(self.url)
                    break
                wait = min(max(1.0, 2 * wait), MAX_WAIT_S)


class _Reader:
    """Reads the program's log: `opened` gets the address when the first connection stands."""

    def __init__(self, opened: asyncio.Future[str], sink: Callable[[bytes], object]) -> None:
        self._opened, self._sink = opened, sink
        self._address: str | None = None

    def __call__(self, line: bytes) -> None:
        if self._address is None and (match := _ADDRESS.search(line)):
            self._address = match[1].decode().rstrip("/")
        if self._address is not None and not self._opened.done() and _CONNECTED.search(line):
            self._opened.set_result(self._address)
        self._sink(line)
