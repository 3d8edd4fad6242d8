"""The server behind the engine: a process of ours that is started, watched, ended and started again, or a running one.

Lifecycle: start -> serving <-> updating, and down -> (restart at the current weights) -> serving, until the restarts
are used up. A server that brings no token any more is ended, if it is ours, and so started again.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress

from trainer.inference.engine import Engine, EngineError
from trainer.inference.vllm import hang
from trainer.inference.vllm.gate import Holds, opened
from trainer.inference.vllm.http import VllmClient, without_user
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.process import VllmProcess
from trainer.inference.vllm.restarts import Restarts, start_again
from trainer.placing.base import Placing
from trainer.placing.local import LocalPlacing

BASE = "base"  # the name of the model on a server of ours
DYING_S = 8.0  # a server whose engine is dead ends by itself, and says why


class VllmServer(Engine):
    """The life of one server. `_prepare` makes it ready for calls, whenever it is another one."""

    kind = "vllm"
    _client: VllmClient

    def __init__(
        self,
        settings: VllmSettings,
        url: str | None,
        startup_timeout_s: float,
        sink: Callable[[bytes], object],
        placing: Placing | None,
        node: int,
    ) -> None:
        self.weight_version = 0
        self.notes: list[str] = []  # restarts, for the record
        self._settings, self._url = settings, url
        self.url = without_user(url or "")
        self._startup_timeout_s, self._sink = startup_timeout_s, sink
        self._placing, self.node = placing or LocalPlacing(), node
        self._process: VllmProcess | None = None
        self._base_name = BASE
        self._progress = hang.Progress()
        self._holds = Holds()
        self._open = asyncio.Event()  # set while new calls may go to the server
        self._changing = asyncio.Lock()  # held by an update, and by a restart
        self._restarts = Restarts()
        self._watcher: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()  # one look at its health at a time
        self._stopping = False
        self._why_ended = ""  # why we ended the server ourselves
        self.fate = ""  # once ended: why

    @abstractmethod
    async def _prepare(self) -> None:
        """Probes the server and brings it to the current weights. Raises EngineError."""

    @abstractmethod
    async def _hung(self) -> str | None:
        """Asks for one small call; what to say of a server that hangs."""

    @property
    def pid(self) -> int | None:
        child = self._process.child if self._process else None
        return None if child is None or child.ended.done() else child.pid

    @property
    def state(self) -> str:
        if super().state != "serving" or self._open.is_set():
            return super().state
        if self._changing.locked() and self._alive():
            return "updating"
        return "restarting" if self._restarts.count else "starting"

    @property
    def tail(self) -> str:
        """The last lines that the process printed."""
        return self._process.tail if self._process else ""

    def _begin(self) -> None:
        """It is ready: calls are let in, and it is watched from now on."""
        self._let_in()
        self._watcher = asyncio.create_task(self._watch() if self._url is None else self._watch_running())

    def _let_in(self) -> None:
        self._progress.rest()
        self._open.set()

    async def _start_process(self) -> None:
        """A new server with the current weights. Raises EngineError."""
        self._process = VllmProcess(self._settings, self._base_name, self._sink, self._placing, self.node)
        await self._process.start(self._startup_timeout_s)
        self._client = self._process.client
        await self._prepare()

    async def stop(self) -> None:
        self._stopping = True
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        if self._process is not None:
            await self._process.stop()
        elif hasattr(self, "_client"):
            await self._client.close()
        self._end()

    def _end(self) -> None:
        self._open.clear()
        if hasattr(self, "ended") and not self.ended.done():
            self.ended.set_result(None)

    async def _watch(self) -> None:
        """Starts the server again when it ends, until that has happened too often."""
        while True:
            assert self._process is not None and self._process.child is not None
            while not self._process.child.ended.done():
                await asyncio.wait([self._process.child.ended], timeout=hang.LOOK_S)
                await self._end_if_hung()
            self._open.clear()
            await self._process.stop()
            cause, self._why_ended = self._why_ended or self._process.cause_of_end(), ""
            if self._process.child.lost:  # the node does not come back
                self.fate = cause
                self._end()
                return
            async with self._changing:
                self.fate = await start_again(self._restarts, cause, self.weight_version, self._start_over, self._note)
                if self.fate:
                    self._end()
                    return
                self._let_in()

    async def _start_over(self) -> None:
        """Raises EngineError, and then nothing is left of the try."""
        try:
            await self._start_process()
        except EngineError:
            if self._process is not None:
                await self._process.stop()
            raise

    async def _watch_running(self) -> None:
        """One that is not ours can only be given up."""
        while not self.ended.done():
            await asyncio.wait([self.ended], timeout=hang.LOOK_S)
            await self._end_if_hung()

    async def _end_if_hung(self) -> None:
        if not self._progress.suspicious or self._changing.locked():
            return
        if (why := await self._hung()) and not self._changing.locked():
            await self._end_server(why, dying=False)

    async def _admitted(self) -> None:
        """Returns when calls may go to the server; waits through updates and restarts. Raises EngineError."""
        if not await opened(self._open, self.ended, self._startup_timeout_s):
            waited = f"vLLM took no calls for {self._startup_timeout_s:g} s; see its log"
            raise self._gone() if self.ended.done() else EngineError(waited)

    def _gone(self) -> EngineError:
        return EngineError(self.fate or "vLLM is not running any more; see its log")

    def held_s(self, start: float, end: float, affinity: str | None = None) -> float:
        return self._holds.within(start, end)

    def take_notes(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._sink(f"==== {text}\n".encode())

    async def _is_well(self) -> bool:
        """Asked after a failed call. A server whose engine has died answers on for a while: no call goes there any
        more, and new ones wait for the next server."""
        process = self._process
        if process is None or self._stopping:
            return True
        async with self._looking:
            if self._process is not process or process.child is None or process.child.ended.done():
                return False
            if await process.client.healthy():
                return True
            await self._end_server("vLLM did not answer /health any more", dying=True)
            return False

    async def _end_server(self, why: str, *, dying: bool) -> str:
        """It cannot be used any more; ended, one of ours is started again with the current weights. `dying`: it may be
        about to end by itself, and its own last words count more than `why`. Gives what counts."""
        self._open.clear()
        process = self._process
        if process is None or process.child is None:
            self.fate = f"the vLLM server at {self.url} cannot be used any more: {why}"
            self._end()
            return why
        if dying:
            await asyncio.wait([process.child.ended], timeout=DYING_S)
        by_itself = process.child.ended.done()
        if not by_itself:
            self._why_ended = why
        await process.stop()
        return process.cause_of_end() if by_itself else why

    def _alive(self) -> bool:
        if self._process is None:
            return not self.ended.done()
        return self.pid is not None
