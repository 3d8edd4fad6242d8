"""The vLLM engine: a server process of ours, or a running server, behind the Engine ABC.

New calls wait while it is updating or down; running ones go on through an update and fail with the process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from trainer.inference.engine import Chunk, ContextOverflow, EngineError, Json, Reply, Sampling
from trainer.inference.vllm import calls, hang, probe, updates
from trainer.inference.vllm.adapters import Adapters
from trainer.inference.vllm.chats import VllmChat
from trainer.inference.vllm.describe import record
from trainer.inference.vllm.http import Refused, VllmClient
from trainer.inference.vllm.options import VllmSettings, arguments
from trainer.inference.vllm.server import BASE, VllmServer
from trainer.models import ResolvedModel
from trainer.placing.base import Placing

QUIET_S = 0.1  # a stream that brings nothing for so long after a pause is drained


class ServerLost(EngineError):
    """A server of ours did not live through an update. The text is the cause."""


class VllmEngine(VllmServer):
    """`settings.sync` says what `load_weights` gets: folders of merged weights, or of adapters."""

    def __init__(
        self,
        model: ResolvedModel,
        settings: VllmSettings,
        *,
        url: str | None = None,
        startup_timeout_s: float = 600.0,
        sink: Callable[[bytes], object] = lambda line: None,
        placing: Placing | None = None,
        node: int = 0,
    ) -> None:
        """
        Args:
            url: a running server, which is neither started nor stopped. VLLM_API_KEY holds its key.
            placing: of a server of ours; by default this machine.
            node: of `placing`.
        """
        super().__init__(settings, url, startup_timeout_s, sink, placing, node)
        self.model_name, self.max_model_len, self._model = model.name, settings.max_model_len, model
        self._salt = secrets.token_hex(8)  # an earlier run on the same server had a version 1 as well
        self._loads = 0  # and a version may be sent twice, after a canary that failed
        self._name = BASE  # that new calls ask for
        self._current: tuple[Path | None, int] | None = None  # the weights to go back to after a restart
        self.fetch: Callable[[int], Awaitable[Path]] | None = None  # brings them, where they were never in files
        self.starts = 0  # servers so far: another one has joined nothing
        self._adapters = Adapters(settings.versioned, self._note)
        self.pins = settings.sync == "lora" and (settings.pins or url is not None)

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
        self._begin()

    async def _attach(self, url: str) -> None:
        """Raises EngineError where nobody answers, or where the server cannot do what the run needs."""
        address = url.rstrip("/").removesuffix("/v1")  # as OpenAI's clients want it
        self._client = VllmClient(address, api_key=os.environ.get("VLLM_API_KEY") or None)
        self._base_name = self._name = await probe.served_model(self._client, self.url, self.max_model_len)
        await self._prepare()
        await self._end_pause()
        one = Sampling(1.0, 1, top_k=1)
        async for chunk in self._stream(await self.tokenize(probe.SOME_PROMPT), one, self.weight_version):
            for logprob in chunk.logprobs:
                probe.check_logprobs(logprob)

    async def _end_pause(self) -> None:
        """A run that was killed in an update leaves its server paused, where no call would ever bring a token. Raises
        EngineError where we are to leave its weights alone."""
        if not self._can.pause or not await updates.is_paused(self._client):
            return
        left = f"the server at {self.url} was left paused, as by a run that was killed in an update of weights"
        if self._settings.sync != "full":
            how = "start it again, or let it go on by POST /resume if its weights are those of the model"
            raise EngineError(f"{left}: {how}")
        await updates.go_on(self._client)
        self._note(f"{left}; it goes on, and gets this run's weights")

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
        if self._can.weight_version and self._settings.sync != "none":
            await updates.label(self._client, self.weight_version)
        self.starts += 1
        if self._current is not None:
            path, version = self._current
            if path is None:
                assert self.fetch is not None
                path = await self.fetch(version)
            await self._apply(path, version)
            await self._adapters.load_pinned(self._client)

    @property
    def own_name(self) -> str:
        """What the server calls the model that it was started with."""
        return self._base_name

    def ask_for(self, name: str) -> None:
        """New calls go to this adapter of the server."""
        self._name = name

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
    ) -> AsyncGenerator[Chunk, None]:
        if len(prompt_ids) >= self.max_model_len:
            raise ContextOverflow(f"the prompt has {len(prompt_ids)} tokens, the context limit is {self.max_model_len}")
        while True:
            await self._admitted()
            version, begun = self.weight_version if sampling.version is None else sampling.version, False
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

    async def _stream(self, prompt_ids: Sequence[int], sampling: Sampling, version: int) -> AsyncGenerator[Chunk, None]:
        pinned = sampling.version is not None
        total, finish, kept = 0, None, pinned or self._keeps_versions or self._settings.sync == "none"
        name = self._adapters.name(version, pinned=True) if pinned else self._name
        salt = f"{self._salt}-{'pinned' if pinned else self._loads}-v{version}"
        body = self._endpoint.request(prompt_ids, sampling, sorted(self.eos_token_ids), name, salt)
        with self._progress.call():
            async with aclosing(self._client.stream(self._endpoint.path, body)) as choices:
                async for choice in choices:
                    self._progress.arrived()
                    # under the name of a version a call keeps it, whatever the engine calls its own by now
                    told = version if kept else self.weight_version
                    chunk = calls.chunk_of(self._endpoint, choice, told, top=sampling.top_logprobs > 0)
                    total, finish = total + len(chunk.token_ids), chunk.finish_reason
                    if finish is not None:
                        chunk.spans = [(0, total, version)] if kept else calls.spans_of(choice)
                    yield chunk
        if finish is None:
            raise EngineError("vLLM ended the stream of a call before its last token")

    async def _hung(self) -> str | None:
        prompt, one = await self.tokenize(probe.SOME_PROMPT), Sampling(0.0, 1)
        body = self._endpoint.request(prompt, one, [], self._base_name, self._salt)
        return await hang.hung(self._progress, self._client, self._endpoint.path, body)

    # --- weights --------------------------------------------------------------------------------------------

    @property
    def serving_versions(self) -> frozenset[int]:
        kept = self._adapters.in_flight if self._keeps_versions else []
        pinned = [] if self._adapters.pinned is None else [self._adapters.pinned[1]]
        return frozenset({self.weight_version, *kept, *pinned})

    @property
    def _keeps_versions(self) -> bool:
        """Whether a call keeps the weights that it began with."""
        return self._settings.sync == "lora" and self._adapters.versioned

    async def pin(self) -> int:
        async with self._changing:
            if self.ended.done():
                raise self._gone()
            assert self._current is not None  # every call goes through an adapter, from version 0 on
            path, version = self._current
            assert path is not None
            self._adapters.pinned = path, version
            await self._unless_dead(self._adapters.load_pinned(self._client))
            return version

    async def unpin(self) -> None:
        async with self._changing:
            self._adapters.pinned = None
            if not self.ended.done():
                await self._unless_dead(self._adapters.retire(self._client, self.weight_version))

    async def _unless_dead(self, work: Awaitable[None]) -> None:
        """A change that the next server begins with, should this one not live through it. Raises EngineError."""
        try:
            await work
        except EngineError:
            if await self._is_well():
                raise

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

    @asynccontextmanager
    async def asleep(self) -> AsyncIterator[None]:
        """A server that does not live through it is started again at its weights, once the memory is free."""
        if not self._settings.shares_gpus:
            yield
            return
        async with self._changing:
            self._open.clear()
            await self._or_end(updates.sleep(self._client))
            try:
                yield
            finally:
                if self._alive():
                    await self._or_end(updates.wake(self._client))
                if self._alive():
                    self._let_in()

    async def _or_end(self, work: Awaitable[None]) -> None:
        """What a server must come through. One that does not is ended, and so started again if it is ours."""
        try:
            await work
        except EngineError as error:
            await self._end_server(str(error), dying=True)

    @property
    def workers(self) -> int:
        """Processes that hold a part of the model."""
        return max(1, len(self._settings.cuda_devices))

    async def check_shared(self, folder: Path) -> None:
        """Raises EngineError where the server does not see `folder` under that path."""
        if self._settings.sync == "full":
            await updates.check_shared(self._client, folder)

    async def join(self, way: str, options: Json) -> None:
        """Opens its end of a way from device to device (nccl, ipc). Raises EngineError."""
        await self._admitted()
        async with self._changing:
            await updates.join(self._client, way, options)

    async def receive(self, update: Json, version: int) -> None:
        """Serves what the learner sends meanwhile as `version`. Raises EngineError; what a server of ours holds then is
        undefined, and it is started again."""
        await self._load_weights(update, version)

    async def _load_weights(self, update: Path | Json, version: int) -> None:
        async with self._changing:
            if self.ended.done():
                raise self._gone()
            if isinstance(update, Path):
                await asyncio.to_thread(updates.check, self._base, update, self._settings)
            before = self._current, self.weight_version, self._name
            try:
                if self._keeps_versions:
                    await self._adapters.make_room()
                    await self._apply(update, version)
                    await self._adapters.retire(self._client, version)
                    return
                self._open.clear()
                async with self._holds.held(), updates.paused(self._client):
                    await self._drain()
                    await self._apply(update, version)
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

    async def _apply(self, update: Path | Json, version: int) -> None:
        """Loads and labels; afterwards new calls get `version`."""
        path = update if isinstance(update, Path) else None
        if self._settings.sync == "full":
            await updates.transfer(self._client, update, str(version))
        else:
            assert path is not None
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

    def describe(self) -> Json:
        can, chat, endpoint = (getattr(self, name, None) for name in ("_can", "_chat", "_endpoint"))
        options = arguments(self._settings, self._base_name, "SOCKET") if self._url is None else []
        return record(self._model, self._settings, options, self._adapters.versioned, can, chat, endpoint)
