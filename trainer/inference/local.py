"""The local engine: our own batched decoding in a child process (local_server.py).

A process that ends is started again with the weights that served, a few times; new calls wait for it meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from trainer.devices import Devices, visible
from trainer.frames import SCHEMA, Channel, Frame
from trainer.inference.chat import Chat
from trainer.inference.engine import Chunk, ContextOverflow, Engine, EngineError, Json, Reply, Sampling
from trainer.inference.vllm.explain import KILLED
from trainer.inference.vllm.gate import opened
from trainer.inference.vllm.restarts import Restarts, start_again
from trainer.listening import listen
from trainer.models import ResolvedModel
from trainer.placing.base import Placed, Placing, PlacingError
from trainer.placing.local import LocalPlacing
from trainer.processes import how_ended, torch_environment
from trainer.waiting import together

DEFAULT_MAX_NUM_SEQS = 64
STOP_GRACE_S = 2.0
LOST_S = 2.0  # from the end of a connection to the news of how its process ended, or that its node is lost
LONG_TEXT = 100_000  # characters from which tokenizing is a thread's work


class ProcessLost(EngineError):
    """The process is gone. The text is the cause."""


class LocalEngine(Engine):
    """Owns the process and its socket. Chats are rendered here, so only token ids cross the socket.

    Calls that run when the process ends raise EngineError; those that have no token yet are asked of the next one."""

    kind = "local"
    cache_block = 16  # kv_cache.PrefixCache.MIN_SHARED, which this process cannot import: it has no torch

    def __init__(
        self,
        model: ResolvedModel,
        *,
        dtype: str,
        max_model_len: int,
        max_num_seqs: int | None = None,
        startup_timeout_s: float = 600.0,
        threads: int | None = None,
        deterministic: bool = False,
        tool_call_parser: str | None = None,
        devices: Devices = (),
        sink: Callable[[bytes], object] = lambda line: None,
        placing: Placing | None = None,
        node: int = 0,
    ) -> None:
        """`node`: of `placing`, which is this machine by default."""
        self.model_name, self.max_model_len, self.weight_version = model.name, max_model_len, 0
        self._model, self._dtype = model, dtype
        self._max_num_seqs = max_num_seqs or DEFAULT_MAX_NUM_SEQS
        self._startup_timeout_s, self._threads = startup_timeout_s, threads or os.cpu_count() or 1
        self._deterministic, self._sink = deterministic, sink
        self._tool_call_parser, self._devices = tool_call_parser, devices
        self._placing, self.node = placing or LocalPlacing(), node
        self._child: Placed | None = None
        self._channel: Channel | None = None
        self._reader: asyncio.Task[None] | None = None  # of the present process
        self._keeper: asyncio.Task[None] | None = None
        self._open = asyncio.Event()  # set while the process takes calls
        self._restarts = Restarts()
        self._current: tuple[Path, int] | None = None  # the weights to go back to after a restart
        self.notes: list[str] = []  # restarts, for the record
        self.fate = ""  # once ended: why
        self._ids = itertools.count()
        self._streams: dict[int, asyncio.Queue[Chunk | EngineError]] = {}
        self._answers: dict[int, asyncio.Future[Frame]] = {}

    @property
    def pid(self) -> int | None:
        return None if self._child is None or self._child.ended.done() else self._child.pid

    @property
    def state(self) -> str:
        if super().state != "serving" or self._open.is_set():
            return super().state
        return "restarting" if self._restarts.count else "starting"

    @property
    def tail(self) -> str:
        """The last lines that the process printed."""
        return self._child.tail if self._child else ""

    async def start(self) -> None:
        """Returns when the model is loaded. Raises EngineError."""
        self.ended = asyncio.get_running_loop().create_future()
        try:
            # the process takes seconds to import torch; the tokenizer loads beside it
            await together(self._start_process(), self._load_tokenizer())
        except BaseException:
            await self.stop()
            raise
        self._keeper = asyncio.create_task(self._keep())

    async def _load_tokenizer(self) -> None:
        try:
            self._chat = await asyncio.to_thread(Chat, self._model.path, self._tool_call_parser)
        except (OSError, ValueError) as error:
            raise EngineError(f"the tokenizer of {self.model_name} cannot be loaded: {error}") from None
        self.eos_token_ids, self.reasoning = self._chat.eos_token_ids, self._chat.reasoning
        self.tool_markers = self._chat.parser.markers if self._chat.parser else ()

    async def _start_process(self) -> None:
        """A new one with the current weights. Raises EngineError, and then nothing is left of it."""
        accepted: asyncio.Future[tuple[Channel, Frame]] = asyncio.get_running_loop().create_future()

        def connected(channel: Channel, hello: Frame) -> None:
            if not accepted.done():
                accepted.set_result((channel, hello))

        try:
            listener = await listen(self._placing.address, self._placing.token, connected)
        except OSError as error:
            raise EngineError(f"there is no temporary folder for the engine's socket: {error}") from None
        try:
            env = torch_environment(self._threads) | visible(self._devices)
            words = self._words(listener.target)
            try:
                child = await self._placing.place(self.node, "inference", words, sink=self._sink, env=env)
            except PlacingError as error:
                raise EngineError(f"the local engine could not be started: {error}") from None
            self._child = child
            hello = asyncio.ensure_future(self._hello(accepted))
            try:
                await asyncio.wait([hello, child.ended], timeout=self._startup_timeout_s, return_when="FIRST_COMPLETED")
            finally:
                hello.cancel()
            if not hello.done():
                if child.ended.done():
                    raise EngineError(f"the local engine could not load {self.model_name}: {self._cause()}")
                raise EngineError(
                    f"the local engine did not answer within {self._startup_timeout_s:g} s; "
                    "raise inference.startup_timeout_s"
                )
            hello.result()
            self._reader = asyncio.create_task(self._read())
            if self._current is not None:
                await self._load(*self._current)
        except BaseException:
            await self._end_process()
            raise
        finally:
            listener.close()
        self._open.set()

    async def _keep(self) -> None:
        """Starts the process again when it ends, until that has happened too often."""
        while not self.ended.done():
            assert self._child is not None and self._reader is not None
            await asyncio.wait([self._reader, self._child.ended], return_when=asyncio.FIRST_COMPLETED)
            if not self._child.lost:  # a machine that is gone without a word leaves its connection open
                await asyncio.wait([self._reader], timeout=2 * LOST_S)
            cause = self._cause()
            self._drop(cause)
            await self._end_process()
            if self._child.lost:  # the node does not come back
                self._end(cause)
                return
            fate = await start_again(self._restarts, cause, self.weight_version, self._start_process, self._note)
            if fate:
                self._end(fate)

    def _cause(self) -> str:
        """Why the process has ended."""
        if self._child is None or not self._child.ended.done():
            return "the local engine process ended; see its log"
        code = self._child.ended.result()
        hint = f"; if nobody killed it, {KILLED}" if code == -9 else ""
        return self._child.lost or f"the local engine process ended ({how_ended(code)}){hint}"

    def _words(self, target: str) -> list[str]:
        start = ["-m", "trainer.inference.local_server", "--socket", target, "--model", str(self._model.path)]
        return [*start, *self._options()]

    def _options(self) -> list[str]:
        argv = ["--dtype", self._dtype, "--threads", str(self._threads)]
        argv += ["--max-model-len", str(self.max_model_len), "--max-num-seqs", str(self._max_num_seqs)]
        return argv + (["--deterministic"] if self._deterministic else [])

    async def _hello(self, accepted: asyncio.Future[tuple[Channel, Frame]]) -> None:
        self._channel, _ = await accepted
        frame = await self._channel.receive()
        if frame is None or frame["type"] != "hello":
            cause = "" if frame is None else f": {frame['message']}"
            raise EngineError(f"the local engine could not load {self.model_name}{cause}")
        if frame["schema"] != SCHEMA:
            raise EngineError("the local engine is of another version; install rltui anew")

    async def render(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] | None = None,
        template_kwargs: Json | None = None,
    ) -> list[int]:
        # A request of 10 MB takes 20 s, in which the coordinator has to go on with everything else.
        if len(msgspec.json.encode(messages)) > LONG_TEXT:
            return await asyncio.to_thread(self._chat.render, messages, tools, template_kwargs)
        return self._chat.render(messages, tools, template_kwargs)

    async def tokenize(self, text: str) -> list[int]:
        if len(text) > LONG_TEXT:
            return await asyncio.to_thread(self._chat.tokenize, text)
        return self._chat.tokenize(text)

    async def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None = None) -> Reply:
        return self._chat.derender(token_ids, tools)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._chat.decode(token_ids)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, affinity: str | None = None
    ) -> AsyncGenerator[Chunk, None]:
        if len(prompt_ids) >= self.max_model_len:
            raise ContextOverflow(f"the prompt has {len(prompt_ids)} tokens, the context limit is {self.max_model_len}")
        begun = False
        while True:
            await self._admitted()
            try:
                async with contextlib.aclosing(self._stream(prompt_ids, sampling)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except ProcessLost:
                if begun:
                    raise

    async def _stream(self, prompt_ids: Sequence[int], sampling: Sampling) -> AsyncGenerator[Chunk, None]:
        id, stream = next(self._ids), asyncio.Queue[Chunk | EngineError]()
        self._streams[id] = stream
        finished = False
        try:
            await self._send(
                {"type": "generate", "id": id, "prompt_ids": list(prompt_ids), "sampling": asdict(sampling)}
            )
            while not finished:
                chunk = await stream.get()
                if isinstance(chunk, EngineError):
                    finished = True
                    raise chunk
                finished = chunk.finish_reason is not None
                yield chunk
        finally:
            del self._streams[id]
            if not finished and self._open.is_set():
                with contextlib.suppress(EngineError):  # or it would take the place of what ends the call
                    await self._send({"type": "abort", "id": id})

    async def load_weights(self, path: Path, version: int) -> None:
        """A process that ends meanwhile is started again at the earlier weights, and asked once more. Raises
        EngineError."""
        await self._admitted()
        try:
            await self._load(path, version)
        except ProcessLost:
            await self._admitted()
            await self._load(path, version)

    async def _load(self, path: Path, version: int) -> None:
        id = next(self._ids)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"type": "load", "id": id, "path": str(path), "version": version})
            frame = await answer
        finally:
            del self._answers[id]
        if frame["type"] == "error":
            raise EngineError(f"the local engine could not load weight version {version}: {frame['message']}")
        self.weight_version, self._current = version, (path, version)

    async def _admitted(self) -> None:
        """Returns when the process takes calls; waits through a restart. Raises EngineError."""
        if not hasattr(self, "ended"):
            raise EngineError("the local engine is not running")
        if not await opened(self._open, self.ended, self._startup_timeout_s):
            waited = f"the local engine took no calls for {self._startup_timeout_s:g} s; see its log"
            raise EngineError(self.fate if self.ended.done() else waited)

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._drop("the local engine was stopped")
        await self._end_process()
        if hasattr(self, "ended"):
            self._end("the local engine was stopped")

    async def _end_process(self) -> None:
        """Nothing is left of it; repeatable."""
        if self._channel is not None:
            await self._channel.close()  # the process ends by itself when its socket closes
        if self._child is not None:
            await asyncio.wait([self._child.ended], timeout=STOP_GRACE_S)
            await self._child.terminate()
        if self._reader is not None:
            self._reader.cancel()

    def take_notes(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._sink(f"==== {text}\n".encode())

    def describe(self) -> Json:
        return {
            "kind": self.kind,
            "version": importlib.metadata.version("rltui"),
            "options": self._options(),
            "render": "template",
            "generate": "ids over its own socket",
            "derender": "tokenizer",
            "parser": parser.name if self._reader is not None and (parser := self._chat.parser) else None,
            "model": self.model_name,
            "revision": self._model.revision,
            "dtype": self._dtype,
            "max_model_len": self.max_model_len,
            "max_num_seqs": self._max_num_seqs,
            "threads": self._threads,
            "deterministic": self._deterministic,
        }

    async def _send(self, frame: Frame) -> None:
        """Raises ProcessLost."""
        assert self._channel is not None and self._reader is not None
        channel, reader = self._channel, self._reader
        try:
            await channel.send(frame)
        except (OSError, RuntimeError):
            self._open.clear()
            await channel.close()  # no process is kept that cannot be reached
            await asyncio.wait([reader], timeout=2 * LOST_S)  # which learns how it ended
            raise ProcessLost(self._cause()) from None

    async def _read(self) -> None:
        assert self._channel is not None
        while (frame := await self._channel.receive()) is not None:
            if frame["type"] == "tokens":
                version = frame["version"]
                for id, token, logp, finish, detail, top in frame["items"]:
                    if (stream := self._streams.get(id)) is not None:
                        tops = None if top is None else [top]
                        stream.put_nowait(Chunk([token], [logp], version, finish, detail, top=tops))
            elif (stream := self._streams.get(frame["id"])) is not None:
                stream.put_nowait(EngineError(frame["message"]))
            elif (answer := self._answers.get(frame["id"])) is not None and not answer.done():
                answer.set_result(frame)
        if self._child is not None:
            await asyncio.wait([self._child.ended], timeout=LOST_S)
        self._drop(self._cause())

    def _drop(self, cause: str) -> None:
        """New calls wait; every running call and load raises ProcessLost(cause)."""
        self._open.clear()
        for stream in self._streams.values():
            stream.put_nowait(ProcessLost(cause))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ProcessLost(cause))

    def _end(self, fate: str) -> None:
        """It is gone for good: whoever waits for it is told why."""
        if not self.ended.done():
            self.fate = fate
            self.ended.set_result(None)
