"""What the gateway and the weight sync ask of an inference engine; each engine is a file beside this one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class EngineError(RuntimeError):
    """The engine failed. The text is one sentence that says what happened and what to do."""


class EngineConfigError(EngineError):
    """The engine cannot start with what the config asks for: the text names the key to change."""


class ContextOverflow(EngineError):
    """The prompt alone is longer than the engine's context."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one call samples. Training calls use temperature, max_tokens, stop and seed alone."""

    temperature: float  # 0 is greedy
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0
    top_logprobs: int = 0  # how many of the likeliest tokens come with each sampled one
    version: int | None = None  # the pinned weights to sample from; None: those that serve


@dataclass(slots=True)
class Chunk:
    """Tokens as they are sampled. The last chunk of a call carries `finish_reason`."""

    token_ids: list[int]
    logprobs: list[float]  # of the sampled tokens, under the sampling temperature, over the full vocabulary
    weight_version: int
    finish_reason: str | None = None  # stop, length, abort
    stop_detail: str | None = None  # the stop string that matched, if one did
    # On the last chunk, from an engine that keeps account itself: (start, end, version) over all tokens of the call.
    # It wins over `weight_version`, which says what served when the chunk arrived.
    spans: list[tuple[int, int, int]] | None = None
    top: list[dict[int, float]] | None = None  # for each token the likeliest ones, if `top_logprobs` asked for them


@dataclass(slots=True)
class Reply:
    """Sampled ids turned back into what a chat client reads."""

    text: str
    reasoning: str | None = None
    tool_calls: list[Json] = field(default_factory=list)


class Engine(ABC):
    """One logical engine (all its replicas). Token ids go in and come out; nothing is ever re-tokenised."""

    kind: str
    model_name: str
    max_model_len: int
    weight_version: int  # the version that new calls start with
    url: str = ""  # of a server that is not ours; ours has none, it is reached over a private socket
    eos_token_ids: frozenset[int]
    tool_markers: tuple[str, ...] | None = None  # what a tool call begins with; None: nobody knows, all is held back
    cache_block: int = 128  # tokens, at most, in whose multiples it keeps what it computed of prompts (vLLM on a CPU)
    reasoning: bool = False  # whether the template knows thoughts apart from answers
    pins: bool = False  # whether `pin` can be asked for
    ended: asyncio.Future[None]  # done once the engine is gone for good; running calls then raise EngineError

    @abstractmethod
    async def start(self) -> None:
        """Returns when the engine answers. Raises EngineError."""

    @abstractmethod
    async def render(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] | None = None,
        template_kwargs: Json | None = None,
    ) -> list[int]:
        """Prompt ids of a chat, generation prompt included."""

    @abstractmethod
    async def tokenize(self, text: str) -> list[int]:
        """Prompt ids of a plain text (for /v1/completions)."""

    @abstractmethod
    def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, affinity: str | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """Streams one completion; closing the iterator aborts it. Raises EngineError, ContextOverflow.

        Calls of one `affinity` (the episode's correlation id) go to one replica, whose prefix cache knows them.
        """

    @abstractmethod
    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of sampled ids, special tokens left out; for streaming and for single tokens."""

    @abstractmethod
    async def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None = None) -> Reply:
        """Text, reasoning and tool calls of sampled ids; special tokens are left out."""

    @abstractmethod
    async def load_weights(self, path: Path, version: int) -> None:
        """Serves the weights in `path` as `version`; calls that are running go on under them."""

    def asleep(self) -> AbstractAsyncContextManager[None]:
        """While it is held, the learner has the GPU memory that the engine shares with it: running calls are kept, new
        ones wait. An engine that shares nothing goes on."""
        return nullcontext()

    async def check_shared(self, folder: Path) -> None:  # noqa: B027 - an engine of ours is on this machine
        """Raises EngineError where it does not see `folder` under that path."""

    async def receive(self, update: Json, version: int) -> None:
        """Serves what the learner sends meanwhile as `version` (weights/direct.py). Raises EngineError."""
        raise NotImplementedError

    async def pin(self) -> int:
        """Keeps the weights that serve now beside newer ones, for calls that ask for them by `Sampling.version`, until
        `unpin`. Their version. Raises EngineError."""
        raise NotImplementedError

    async def unpin(self) -> None:
        """No call asks for the pinned weights any more. Raises EngineError."""
        raise NotImplementedError

    def held_s(self, start: float, end: float, affinity: str | None = None) -> float:
        """Seconds between two times (`steady`) in which an update of weights held the calls of that affinity. An engine
        that swaps weights between two tokens holds none."""
        return 0.0

    def take_notes(self) -> list[str]:
        """What a user should be told since the last call: restarts, losses."""
        return []

    @property
    def state(self) -> str:
        """starting, serving, updating, restarting or gone."""
        if not hasattr(self, "ended"):
            return "starting"
        return "gone" if self.ended.done() else "serving"

    @property
    def replicas(self) -> Sequence[Engine]:
        """Those that are not gone, each with weights of its own."""
        return (self,)

    @property
    def serving_versions(self) -> frozenset[int]:
        """Versions that some call samples from; the files of others are not needed any more."""
        return frozenset({self.weight_version})

    @abstractmethod
    async def stop(self) -> None:
        """Ends the process; nothing is left holding memory. Idempotent."""

    def present(self) -> Json:
        """Its entry in `engines` of status.json (WIRE 5.4)."""
        return {"url": self.url or None, "kind": self.kind, "version": self.weight_version, "state": self.state}

    def describe(self) -> Json:
        """The `engine` entry of environment.json."""
        return {"kind": self.kind}
