"""Adapters on a vLLM server: the names they have there, and the calls that still sample from each."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from trainer.inference.engine import EngineError
from trainer.inference.vllm import updates
from trainer.inference.vllm.http import VllmClient

NAME = "adapter"  # versions are adapter-v12
_VERSION = re.compile(rf"{NAME}-v\d+")
MOST_LIVE = 2  # versions of training calls, under versioned names
RETIRE_S = 60.0  # how long a new version waits for the oldest one's calls to end


class Adapters:
    """One name whose weights are replaced in place, or (`versioned`) a name for each version: then a call keeps the
    version it began with, and a version is unloaded once no call samples from it. Either way one version may be pinned
    under the name of its version."""

    def __init__(self, versioned: bool, note: Callable[[str], None]) -> None:
        self.versioned, self._note = versioned, note
        self.pinned: tuple[Path, int] | None = None
        self._loaded: set[str] = set()
        self._running: Counter[int] = Counter()  # calls in flight by the version they began with
        self._ended = asyncio.Event()

    def begin_call(self, version: int) -> None:
        self._running[version] += 1

    def end_call(self, version: int) -> None:
        self._running[version] -= 1
        self._ended.set()

    @property
    def in_flight(self) -> list[int]:
        """Versions that running calls began with."""
        return sorted(version for version, count in self._running.items() if count)

    async def begin(self, client: VllmClient, *, shared: bool) -> None:
        """The server is another one. `shared`: it may hold versions of an earlier run, which are unloaded. Raises
        EngineError."""
        self._loaded.clear()
        if not shared:
            return
        for model in (await client.call("GET", "/v1/models")).get("data", ()):
            if _VERSION.fullmatch(name := str(model.get("id"))):
                await updates.unload_adapter(client, name)

    def name(self, version: int, *, pinned: bool = False) -> str:
        """What a call asks for."""
        return f"{NAME}-v{version}" if self.versioned or pinned else NAME

    async def load(self, client: VllmClient, folder: Path, version: int) -> str:
        """The name that new calls ask for. Raises EngineError, UpdateBroken."""
        name = self.name(version)
        if name in self._loaded and not self.versioned:
            await updates.reload_adapter(client, name, folder)
        else:
            if name in self._loaded:  # the same version sent again
                await updates.unload_adapter(client, name)
            await updates.load_adapter(client, name, folder)
        self._loaded.add(name)
        return name

    async def load_pinned(self, client: VllmClient) -> None:
        """The pinned version beside the one that serves, which was loaded first. Raises EngineError."""
        if self.pinned is not None and (name := self.name(self.pinned[1], pinned=True)) not in self._loaded:
            await updates.load_adapter(client, name, self.pinned[0])
            self._loaded.add(name)

    async def make_room(self) -> None:
        """Waits until a new version can be live beside those that running calls use; then goes on anyway."""
        deadline = time.monotonic() + RETIRE_S
        pinned = {self.pinned[1]} if self.pinned else set()  # which has a place of its own
        while len({*self.in_flight} - pinned) >= MOST_LIVE:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), deadline - time.monotonic())
            except TimeoutError:
                self._note(f"calls of the adapter versions {self.in_flight} still run after {RETIRE_S:g} s")
                return

    async def retire(self, client: VllmClient, current: int) -> None:
        """Unloads the versions that nothing samples from. One that the server does not let go stays, which harms
        nobody; it is tried again with the next version."""
        live = {self.name(version) for version in (current, *self.in_flight)}
        if self.pinned is not None:
            live.add(self.name(self.pinned[1], pinned=True))
        for name in sorted(self._loaded - live):
            try:
                await updates.unload_adapter(client, name)
            except EngineError as error:
                self._note(f"{name} stays loaded: {error}")
                continue
            self._loaded.discard(name)
