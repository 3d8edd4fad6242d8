"""The vLLM engine: a server process of ours, or a running server, behind the Engine ABC.

Lifecycle: start -> serving <-> updating, and down -> (restart at the current weights) -> serving, until the restarts
are used up. New calls wait while it is updating or down; running ones go on through an update and fail with the
process. A server of ours that brings no token any more is ended, and so started again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from trainer.inference.engine import Chunk, ContextOverflow, Engine, EngineError, Json, Reply, Sampling
from trainer.inference.vllm import calls, hang, probe, updates
from trainer.inference.vllm.adapters import Adapters
from trainer.inference.vllm.chats import VllmChat
from trainer.inference.vllm.describe import record
from trainer.inference.vllm.gate import opened
from trainer.inference.vllm.http import Refused, VllmClient, without_user
from trainer.inference.vllm.options import VllmSettings, arguments
from trainer.inference.vllm.process import VllmProcess
from trainer.inference.vllm.restarts import Restarts, start_again
from trainer.models import ResolvedModel

BASE = "base"  # the name of the model on a server of ours
QUIET_S = 0.1  # a stream that brings nothing for so long after a pause is drained
DYING_S = 8.0  # a server whose engine is dead ends by itself, and says why


class ServerLost(EngineError):
    """A server of ours did not live through an update. The text is the cause."""


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
        self._progress = hang.Progress()
        self._open = asyncio.Event()  # set while new calls may go to the server
        self._changing = asyncio.Lock()  # held by an update, and by a restart
        self._restarts = Restarts()
        self._watcher: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()  # one look at its health at a time
        self._stopping = False
        self._why_ended = ""  # why we ended the server ourselves
        self.fate = ""  # once ended: why

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
        self._let_in()
        if self._process is not None:
            self._watcher = asyncio.create_task(self._watch())

    def _let_in(self) -> None:
        self._progress.rest()
        self._open.set()

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
        self._base_name = self._name = await probe.served_model(self._client, self.url, self.max_model_len)
        await self._prepare()
        one = Sampling(1.0, 1, top_k=1)
        async for chunk in self._stream(await self.tokenize(probe.SOME_PROMPT), one, self.weight_version):
            for logprob in chunk.logprobs:
                probe.check_logprobs(logprob)

    async def _prepare(self) -> None:
        """Probes the server and brings it to the current weights. Raises EngineError."""
        ours = self._url is None
        self._can = await probe.probe(self._client)
        started = None if ours else await probe.started_with(self._client, self._can)
        if missing := probe.lacking(self._can, self._settings.sync, started):
            what = "the installed vLLM" if ours else f"the server at {self.url}"
            raise EngineError(f"{what} ({self._can.version}) lacks {' and '.join(missing)}")
        self._endpoint = calls.TOKENS if self._can.generate else calls.TEXT
        self._adapters.versioned |= not probe.updates_in_place(self._can, ours=ours)
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
            while not self._process.child.ended.done():
                await asyncio.wait([self._process.child.ended], timeout=hang.LOOK_S)
                await self._end_if_hung(self._process.client)
            self._open.clear()
            await self._process.stop()
            cause, self._why_ended = self._why_ended or self._process.cause_of_end(), ""
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

    async def _end_if_hung(self, client: VllmClient) -> None:
        if not self._progress.suspicious or self._changing.locked():
            return
        prompt, one = await self.tokenize(probe.SOME_PROMPT), Sampling(0.0, 1)
        body = self._endpoint.request(prompt, one, [], self._base_name, self._salt)
        if (why := await hang.hung(self._progress, client, self._endpoint.path, body)) and not self._changing.locked():
            await self._end_server(why, dying=False)

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
        with self._progress.call():
            async with aclosing(self._client.stream(self._endpoint.path, body)) as choices:
                async for choice in choices:
                    self._progress.arrived()
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
        if not await opened(self._open, self.ended, self._startup_timeout_s):
            waited = f"vLLM took no calls for {self._startup_timeout_s:g} s; see its log"
            raise self._gone() if self.ended.done() else EngineError(waited)

    def _gone(self) -> EngineError:
        return EngineError(self.fate or "vLLM is not running any more; see its log")

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
        """Files are checked first, by name, shape and type. A server of ours that does not live through the update is
        started again at the earlier weights, and updated once more. Raises EngineError."""
        for second in (False, True):
            try:
                await self._load_weights(path, version)
                return
            except ServerLost as lost:
                cause = str(lost)
            if second:
                raise EngineError(f"vLLM ended twice in the update to weight version {version}: {cause}")
            self._note(f"vLLM ended in the update to weight version {version}, which is made again: {cause}")
            try:
                await self._admitted()
            except EngineError as error:
                raise EngineError(f"vLLM ended in the update to weight version {version}: {cause}; {error}") from None

    async def _load_weights(self, path: Path, version: int) -> None:
        async with self._changing:
            if self.ended.done():
                raise self._gone()
            await asyncio.to_thread(updates.check, self._base, path, self._settings)
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
            except (EngineError, asyncio.CancelledError) as error:
                cancelled = isinstance(error, asyncio.CancelledError)
                well = cancelled or self._process is None or await self._process.client.healthy()
                if well and not cancelled and not isinstance(error, updates.UpdateBroken):
                    raise
                self._current, self.weight_version, self._name = before
                cause = await self._end_server(str(error) or "an update of weights was given up", dying=not well)
                if self._process is None or cancelled:
                    raise
                raise ServerLost(cause) from None
            finally:
                if self._alive():
                    self._let_in()

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
        while (wait := QUIET_S - self._progress.silent_s) > 0:  # noqa: ASYNC110 - silence has no event
            await asyncio.sleep(wait)

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

    def describe(self) -> Json:
        can, chat, endpoint = (getattr(self, name, None) for name in ("_can", "_chat", "_endpoint"))
        options = arguments(self._settings, self._base_name, "SOCKET") if self._url is None else []
        return record(self._model, self._settings, options, self._adapters.versioned, can, chat, endpoint)
