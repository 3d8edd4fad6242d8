"""Adapters on a vLLM server: the names they have there, and the calls that still sample from each."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from trainer.inference.vllm import updates
from trainer.inference.vllm.http import VllmClient

NAME = "adapter"  # versions are adapter-v12
_VERSION = re.compile(rf"{NAME}-v\d+")
RETIRE_S = 60.0  # how long a new version waits for the oldest one's calls to end


class Adapters:
    """One name whose weights are replaced in place, or (`versioned`) a name for each version: then a call keeps the
    version it began with, and a version is unloaded once no call samples from it."""

    def __init__(self, most_live: int, note: Callable[[str], None]) -> None:
        """most_live: adapters that may be live at once (`max_loras`)."""
        self.versioned = most_live > 1
        self._most_live, self._note = most_live, note
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

    async def load(self, client: VllmClient, folder: Path, version: int) -> str:
        """The name that new calls ask for. Raises EngineError, UpdateBroken."""
        name = f"{NAME}-v{version}" if self.versioned else NAME
        if name in self._loaded and not self.versioned:
            await updates.reload_adapter(client, name, folder)
        else:
            if name in self._loaded:  # the same version sent again
                await updates.unload_adapter(client, name)
            await updates.load_adapter(client, name, folder)
        self._loaded.add(name)
        return name

    async def make_room(self) -> None:
        """Waits until a new version can be live beside those that running calls use; then goes on anyway."""
        deadline = time.monotonic() + RETIRE_S
        while len(self.in_flight) >= max(2, self._most_live):
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), deadline - time.monotonic())
            except TimeoutError:
                self._note(f"calls of the adapter versions {self.in_flight} still run after {RETIRE_S:g} s")
                return

    async def retire(self, client: VllmClient, current: int) -> None:
        """Unloads the versions that nothing samples from. Raises EngineError."""
        live = {f"{NAME}-v{version}" for version in (current, *self.in_flight)}
        for name in sorted(self._loaded - live):
            await updates.unload_adapter(client, name)
            self._loaded.discard(name)
