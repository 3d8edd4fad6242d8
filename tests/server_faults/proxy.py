"""A way between client and server that can be cut: with a word to both, or in silence, as a cable is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

AT_ONCE = 1 << 16
NO_LINGER = struct.pack("ii", 1, 0)  # closing resets


class Proxy:
    """Leads from a port of its own to `port`."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.came = 0  # bytes from the server
        self._cut_at: tuple[int, bool] | None = None
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._call(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._socket.close()

    def cut(self, *, silent: bool) -> None:
        """`silent`: nothing comes through and nobody is told; a new connection gets no answer. Else all are reset, and
        so is each new one."""
        self._call(lambda: self._cut(silent))

    def cut_at(self, came: int, *, silent: bool) -> None:
        """The same, by itself once so many bytes came from the server."""
        self._cut_at = (came, silent)

    @property
    def is_cut(self) -> bool:
        return not self._flows.is_set()

    def mend(self) -> None:
        """What was held back goes on, where its two ends are still there."""
        self._refusing = False
        self._call(self._flows.set)

    def _call(self, do: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(do)

    def _cut(self, silent: bool) -> None:
        self._flows.clear()
        if not silent:
            self._refusing = True
            self._break_off()

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.start_server(self._lead, sock=self._socket))
        self._loop.run_forever()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _break_off(self) -> None:
        for writer in self._writers:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            if self._refusing:
                return
            await self._flows.wait()
            from_there, there = await asyncio.open_connection("127.0.0.1", self._to)
            self._writers.add(there)
            await asyncio.gather(self._pump(reader, there), self._pump(from_there, writer, counts=True))
        except OSError:
            pass
        finally:
            for end in (writer, there):
                if end is not None:
                    self._writers.discard(end)
                    end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counts: bool = False) -> None:
        while data := await reader.read(AT_ONCE):
            self.came += len(data) if counts else 0
            if self._cut_at is not None and self.came >= self._cut_at[0]:
                silent, self._cut_at = self._cut_at[1], None
                self._cut(silent)
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        await self._flows.wait()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()
