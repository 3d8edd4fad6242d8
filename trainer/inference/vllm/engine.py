"""The vLLM engine: a server process of ours, or a running server, behind the Engine ABC.

Lifecycle: start -> serving <-> updating, and down -> (restart at the current weights) -> serving, until the restarts
are used up. New calls wait while it is updating or down; running ones go on through an update and fail with the
process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from trainer.inference.engine import Chunk, ContextOverflow, Engine, EngineError, Json, Reply, Sampling
from trainer.inference.vllm import calls, updates
from trainer.inference.vllm.adapters import Adapters
from trainer.inference.vllm.chats import VllmChat
from trainer.inference.vllm.http import Refused, VllmClient, without_user
from trainer.inference.vllm.options import VllmSettings, arguments, lora_rank
from trainer.inference.vllm.probe import (
    SOME_PROMPT,
    Capabilities,
    check_logprobs,
    lacking,
    probe,
    served_model,
    started_with,
    updates_in_place,
)
from trainer.inference.vllm.process import VllmProcess
from trainer.inference.vllm.restarts import WINDOW_S, Restarts
from trainer.models import ResolvedModel

BASE = "base"  # the name of the model on a server of ours
QUIET_S = 0.1  # a stream that brings nothing for so long after a pause is drained


class VllmEngine(Engine):
    """`settings.sync` says what `load_weights` gets: folders of merged weights, or of adapters."""

    kind = "vllm"

    def __init__(
        self,
        model: ResolvedModel,
        settings: VllmSettings,
        *,
        url: str | None = None,
        startup_timeout_s: float = 600.0,
        sink: Callable[[bytes], object] = lambda line: None,
    ) -> None:
        """`url`: a running server, which is neither started nor stopped. VLLM_API_KEY holds its key."""
        self.model_name, self.max_model_len, self.weight_version = model.name, settings.max_model_len, 0
        self.notes: list[str] = []  # restarts, for the record; the reader empties it
        self._model, self._settings, self._url = model, settings, url
        self.url = without_user(url or "")
        self._salt = secrets.token_hex(8)  # an earlier run on the same server had a version 1 as well
        self._loads = 0  # and a version may be sent twice, after a canary that failed
        self._startup_timeout_s, self._sink = startup_timeout_s, sink
        self._process: VllmProcess | None = None
        self._base_name, self._name = BASE, BASE  # name of the base model; name that new calls ask for
        self._current: tuple[Path, int] | None = None  # the weights to go back to after a restart
        self._adapters = Adapters(settings.max_loras, self._note)
        self._last_chunk = 0.0
        self._open = asyncio.Event()  # set while new calls may go to the server
        self._changing = asyncio.Lock()  # held by an update, and by a restart
        self._restarts = Restarts()
        self._watcher: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()  # one look at its health at a time
        self._stopping = False

    # --- life -----------------------------------------------------------------------------------------------

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

    async def start(self) -> None:
        """Returns when the server answers and can do what a run needs of it. Raises EngineError."""
        self.ended = asyncio.get_running_loop().create_future()
        try:
            self._chat = await asyncio.to_thread(VllmChat, self._model.path, self._settings.tool_call_parser)
            self._base = await asyncio.to_thread(updates.folder_header, self._model.path)
        except (OSError, ValueError) as error:
            raise EngineError(f"the tokenizer of {self.model_name} cannot be loaded: {error}") from None
        self._settings = replace(self._settings, tool_call_parser=self._chat.parser)
        self.eos_token_ids, self.reasoning = self._chat.own.eos_token_ids, self._chat.own.reasoning
        self.tool_markers = self._chat.markers
        try:
            if self._url is not None:
                await self._attach(self._url)
            else:
                await self._start_process()
        except BaseException:
            await self.stop()
            raise
        self._open.set()
        if self._process is not None:
            self._watcher = asyncio.create_task(self._watch())

    async def _start_process(self) -> None:
        """A new server with the current weights. Raises EngineError."""
        self._process = VllmProcess(self._settings, self._base_name, self._sink)
        await self._process.start(self._startup_timeout_s)
        self._client = self._process.client
        await self._prepare()

    async def _attach(self, url: str) -> None:
        """Raises EngineError where nobody answers, or where the server cannot do what the run needs."""
        address = url.rstrip("/").removesuffix("/v1")  # as OpenAI's clients want it
        self._client = VllmClient(address, api_key=os.environ.get("VLLM_API_KEY") or None)
        self._base_name = self._name = await served_model(self._client, self.url, self.max_model_len)
        await self._prepare()
        one = Sampling(1.0, 1, top_k=1)
        async for chunk in self._stream(await self.tokenize(SOME_PROMPT), one, self.weight_version):
            for logprob in chunk.logprobs:
                check_logprobs(logprob)

    async def _prepare(self) -> None:
        """Probes the server and brings it to the current weights. Raises EngineError."""
        ours = self._url is None
        self._can = await probe(self._client)
        started = None if ours else await started_with(self._client, self._can)
        if missing := lacking(self._can, self._settings.sync, started):
            what = "the installed vLLM" if ours else f"the server at {self.url}"
            raise EngineError(f"{what} ({self._can.version}) lacks {' and '.join(missing)}")
        self._endpoint = calls.TOKENS if self._can.generate else calls.TEXT
        self._adapters.versioned |= not updates_in_place(self._can, ours=ours)
        await self._adapters.begin(self._client, shared=self._keeps_versions and not ours)
        self._chat.attach(self._client, self._can, self._base_name, ours=ours)
        self._name = self._base_name
        if self._settings.sync == "full":
            await updates.prepare_transfer(self._client)
        if self._can.weight_version:
            await updates.label(self._client, self.weight_version)
        if self._current is not None:
            await self._apply(*self._current)

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
            await asyncio.wait([self._process.child.ended])
            self._open.clear()
            await self._process.stop()
            cause = self._process.cause_of_end()
            async with self._changing:
                if not await self._restart(cause):
                    self._end()
                    return
                self._open.set()

    async def _restart(self, cause: str) -> bool:
        """Whether the server runs again, at the current weights."""
        while True:
            tries, wait = self._restarts.count, self._restarts.take()
            if wait is None:
                self._note(f"{cause}; it was started again {tries} times within {WINDOW_S:g} s and is given up")
                return False
            self._note(f"{cause}; it is started again at weight version {self.weight_version}")
            await asyncio.sleep(wait)
            try:
                await self._start_process()
                return True
            except EngineError as error:
                cause = str(error)
                if self._process is not None:
                    await self._process.stop()

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._sink(f"==== {text}\n".encode())

    async def _is_well(self) -> bool:
        """Asked after a failed call. A server whose engine has died answers on for a while: it is ended at once, and
        new calls wait for the next one."""
        process = self._process
        if process is None or self._stopping:
            return True
        async with self._looking:
            if self._process is not process or process.child is None or process.child.ended.done():
                return False
            if await process.client.healthy():
                return True
            self._open.clear()
            await process.stop()
            return False

    # --- calls ----------------------------------------------------------------------------------------------

    async def render(
        self, messages: Sequence[Json], tools: Sequence[Json] | None = None, template_kwargs: Json | None = None
    ) -> list[int]:
        await self._admitted()
        return await self._chat.render(messages, tools, template_kwargs)

    async def tokenize(self, text: str) -> list[int]:
        return await self._chat.tokenize(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._chat.own.decode(token_ids)

    async def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None = None) -> Reply:
        return await self._chat.derender(token_ids, tools)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, affinity: str | None = None
    ) -> AsyncIterator[Chunk]:
        if len(prompt_ids) >= self.max_model_len:
            raise ContextOverflow(f"the prompt has {len(prompt_ids)} tokens, the context limit is {self.max_model_len}")
        while True:
            await self._admitted()
            version, begun = self.weight_version, False
            self._adapters.begin_call(version)
            try:
                async for chunk in self._stream(prompt_ids, sampling, version):
                    begun = True
                    yield chunk
                return
            except (ContextOverflow, Refused):
                raise
            except EngineError:
                # A call without a token yet is asked again of the server that comes after a dead one.
                if await self._is_well() or begun or self.ended.done():
                    raise
            finally:
                self._adapters.end_call(version)

    async def _stream(self, prompt_ids: Sequence[int], sampling: Sampling, version: int) -> AsyncIterator[Chunk]:
        total, finish, kept = 0, None, self._keeps_versions
        ends, salt = sorted(self.eos_token_ids), f"{self._salt}-{self._loads}-v{version}"
        body = self._endpoint.request(prompt_ids, sampling, ends, self._name, salt)
        async with aclosing(self._client.stream(self._endpoint.path, body)) as choices:
            async for choice in choices:
                self._last_chunk = time.monotonic()
                # under a versioned name a call keeps its version, whatever the engine calls its own by now
                told = version if kept else self.weight_version
                chunk = calls.chunk_of(self._endpoint, choice, told, top=sampling.top_logprobs > 0)
                total, finish = total + len(chunk.token_ids), chunk.finish_reason
                if finish is not None:
                    chunk.spans = [(0, total, version)] if kept else calls.spans_of(choice)
                yield chunk
        if finish is None:
            raise EngineError("vLLM ended the stream of a call before its last token")

    async def _admitted(self) -> None:
        """Returns when calls may go to the server; waits through updates and restarts. Raises EngineError."""
        if self._open.is_set():
            return
        if not self.ended.done():
            opened = asyncio.ensure_future(self._open.wait())
            try:
                await asyncio.wait(
                    [opened, self.ended], timeout=self._startup_timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                opened.cancel()
            if self._open.is_set():
                return
        if self.ended.done():
            raise EngineError("vLLM is not running any more; see its log")
        raise EngineError(f"vLLM took no calls for {self._startup_timeout_s:g} s; see its log")

    # --- weights --------------------------------------------------------------------------------------------

    @property
    def serving_versions(self) -> frozenset[int]:
        kept = self._adapters.in_flight if self._keeps_versions else ()
        return frozenset({self.weight_version, *kept})

    @property
    def _keeps_versions(self) -> bool:
        """Whether a call keeps the weights that it began with."""
        return self._settings.sync == "lora" and self._adapters.versioned

    async def load_weights(self, path: Path, version: int) -> None:
        """Files are checked first, by name, shape and type. If vLLM breaks nevertheless it is started again at the
        earlier weights, and this raises EngineError."""
        async with self._changing:
            if self.ended.done():
                raise EngineError("vLLM is not running any more; see its log")
            await asyncio.to_thread(self._check, path)
            before = self._current, self.weight_version, self._name
            try:
                if self._keeps_versions:
                    await self._adapters.make_room()
                    await self._apply(path, version)
                    await self._adapters.retire(self._client, version)
                    return
                self._open.clear()
                async with updates.paused(self._client):
                    await self._drain()
                    await self._apply(path, version)
            except (updates.UpdateBroken, asyncio.CancelledError):
                self._current, self.weight_version, self._name = before
                await self._give_up_server()
                raise
            finally:
                if self._alive():
                    self._open.set()

    def _check(self, path: Path) -> None:
        if self._settings.sync == "none":
            raise EngineError("training.weight_sync is off: the engine was started without weight updates")
        if self._settings.sync == "lora":
            updates.check_adapter(self._base, path, lora_rank(self._settings.lora_r))
        else:
            updates.check_model_update(self._base, path)

    async def _apply(self, path: Path, version: int) -> None:
        """Loads and labels; afterwards new calls get `version`."""
        if self._settings.sync == "full":
            await updates.transfer(self._client, path, str(version))
        else:
            self._name = await self._adapters.load(self._client, path, version)
            if self._can.weight_version and not self._adapters.versioned:
                await updates.label(self._client, version)
        self.weight_version, self._current = version, (path, version)
        self._loads += 1

    async def _drain(self) -> None:
        """An engine that counts no spans itself: what it sampled before the pause must arrive before the new version
        begins."""
        if self._can.weight_version and self._can.generate:
            return
        while (wait := self._last_chunk + QUIET_S - time.monotonic()) > 0:  # noqa: ASYNC110 - silence has no event
            await asyncio.sleep(wait)

    async def _give_up_server(self) -> None:
        """Its weights are undefined now. Ended, it is started again with the current ones."""
        self._open.clear()
        if self._process is not None:
            await self._process.stop()
        else:
            self._end()

    def _alive(self) -> bool:
        if self._process is None:
            return not self.ended.done()
        return self.pid is not None

    def describe(self) -> Json:
        can: Capabilities | None = getattr(self, "_can", None)
        chat: VllmChat | None = getattr(self, "_chat", None)
        options = arguments(self._settings, self._base_name, "SOCKET") if self._url is None else []
        return {
            "kind": self.kind,
            "version": can.version if can else None,
            "options": options,
            "render": "endpoint" if chat and chat.renders else "template",
            "generate": self._endpoint.path if can else None,
            "derender": "endpoint" if chat and chat.derenders else "tokenizer",
            "parser": chat.parser if chat else None,
            "capabilities": can.record() if can else None,
            "model": self.model_name,
            "revision": self._model.revision,
            "dtype": self._settings.dtype,
            "max_model_len": self.max_model_len,
            "adapters": None
            if self._settings.sync != "lora"
            else "versioned"
            if self._adapters.versioned
            else "in place",
        }
