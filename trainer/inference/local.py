"""The local engine: our own batched decoding in a child process (local_server.py)."""

from __future__ import annotations

import asyncio
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
from trainer.listening import listen
from trainer.models import ResolvedModel
from trainer.placing.base import Placed, Placing, PlacingError
from trainer.placing.local import LocalPlacing
from trainer.processes import torch_environment

DEFAULT_MAX_NUM_SEQS = 64
STOP_GRACE_S = 2.0
LOST_S = 2.0  # from the end of a connection to the news that its node is lost
LONG_TEXT = 100_000  # characters from which tokenizing is a thread's work


class LocalEngine(Engine):
    """Owns the process and its socket. Chats are rendered here, so only token ids cross the socket.

    `ended` is done as soon as the process is gone, whatever the reason; running calls then raise EngineError."""

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
        self._reader: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._ids = itertools.count()
        self._streams: dict[int, asyncio.Queue[Chunk | EngineError]] = {}
        self._answers: dict[int, asyncio.Future[Frame]] = {}

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def state(self) -> str:
        return "starting" if self._reader is None and self._failure is None else super().state

    @property
    def tail(self) -> str:
        """The last lines that the process printed."""
        return self._child.tail if self._child else ""

    @property
    def fate(self) -> str:
        """Why it has ended, where its log cannot tell."""
        return self._child.lost if self._child else ""

    async def start(self) -> None:
        """Returns when the model is loaded. Raises EngineError."""
        self.ended = asyncio.get_running_loop().create_future()
        accepted: asyncio.Future[tuple[Channel, Frame]] = asyncio.get_running_loop().create_future()

        def connected(channel: Channel, hello: Frame) -> None:
            if not accepted.done():
                accepted.set_result((channel, hello))

        try:
            listener = await listen(self._placing.address, self._placing.token, connected)
        except OSError as error:
            raise EngineError(f"there is no temporary folder for the engine's socket: {error}") from None
        try:
            # the process takes seconds to import torch; the tokenizer loads beside it
            env = torch_environment(self._threads) | visible(self._devices)
            words = self._words(listener.target)
            try:
                child = await self._placing.place(self.node, "inference", words, sink=self._sink, env=env)
            except PlacingError as error:
                raise EngineError(f"the local engine could not be started: {error}") from None
            self._child = child
            try:
                self._chat = await asyncio.to_thread(Chat, self._model.path, self._tool_call_parser)
            except (OSError, ValueError) as error:
                raise EngineError(f"the tokenizer of {self.model_name} cannot be loaded: {error}") from None
            self.eos_token_ids, self.reasoning = self._chat.eos_token_ids, self._chat.reasoning
            self.tool_markers = self._chat.parser.markers if self._chat.parser else ()
            hello = asyncio.ensure_future(self._hello(accepted))
            await asyncio.wait([hello, child.ended], timeout=self._startup_timeout_s, return_when="FIRST_COMPLETED")
            if not hello.done():
                hello.cancel()
                if child.ended.done():
                    why = f": {child.lost}" if child.lost else ""
                    raise EngineError(f"the local engine ended while it loaded {self.model_name}{why}")
                raise EngineError(
                    f"the local engine did not answer within {self._startup_timeout_s:g} s; "
                    "raise inference.startup_timeout_s"
                )
            hello.result()
            child.ended.add_done_callback(self._lost)
        except BaseException:
            await self.stop()
            raise
        finally:
            listener.close()
        self._reader = asyncio.create_task(self._read())

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
            if not finished and self._failure is None:
                await self._send({"type": "abort", "id": id})

    async def load_weights(self, path: Path, version: int) -> None:
        id = next(self._ids)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"type": "load", "id": id, "path": str(path), "version": version})
            frame = await answer
        finally:
            del self._answers[id]
        if frame["type"] == "error":
            raise EngineError(f"the local engine could not load weight version {version}: {frame['message']}")
        self.weight_version = version

    async def stop(self) -> None:
        if self._failure is None:
            self._fail("the local engine was stopped")
        if self._channel is not None:
            await self._channel.close()  # the process ends by itself when its socket closes
        if self._child is not None:
            await asyncio.wait([self._child.ended], timeout=STOP_GRACE_S)
            await self._child.terminate()
        if self._reader is not None:
            self._reader.cancel()

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
        if self._failure is not None or self._channel is None:
            raise EngineError(self._failure or "the local engine is not running")
        try:
            await self._channel.send(frame)
        except (OSError, RuntimeError):
            raise EngineError("the connection to the local engine is lost; see its log") from None

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
        if self._child is not None and self._child.node:
            await asyncio.wait([self._child.ended], timeout=LOST_S)
        self._fail(self.fate or "the local engine process ended; see its log")

    def _lost(self, _: object) -> None:
        """A machine that is gone without a word leaves its connection open."""
        if self.fate:
            self._fail(self.fate)

    def _fail(self, cause: str) -> None:
        """Every running call and load raises EngineError(cause), and `ended` is done."""
        if self._failure is None:
            self._failure = cause
        for stream in self._streams.values():
            stream.put_nowait(EngineError(cause))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EngineError(cause))
        if hasattr(self, "ended") and not self.ended.done():
            self.ended.set_result(None)
