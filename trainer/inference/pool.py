"""Several replicas behind the one engine that the gateway and the weight sync see."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path

from trainer.inference.engine import Chunk, Engine, EngineError, Json, Reply, Sampling
from trainer.waiting import together

REMEMBERED = 16_384  # episodes whose replica is known; the longest unused is forgotten first


class EnginePool(Engine):
    """Routes a call to the replica that its episode is on, a new episode to the one with the fewest running calls.

    Replicas serve the same model. One that is gone for good gets no more calls, its episodes move; the pool has ended
    when the last one has. New weights reach all of them or none.
    """

    def __init__(self, replicas: Sequence[Engine]) -> None:
        first = replicas[0]
        self.kind, self.model_name, self.max_model_len = first.kind, first.model_name, first.max_model_len
        self.weight_version, self.cache_block = first.weight_version, first.cache_block
        self.pins = all(replica.pins for replica in replicas)
        self._replicas = list(replicas)
        self._running = [0] * len(replicas)
        self._places: OrderedDict[str, int] = OrderedDict()  # affinity -> replica
        self._current: Path | None = None  # the files of `weight_version`
        self._losses: list[str] = []  # replicas that are gone, for the record

    async def start(self) -> None:
        """All at once; if one fails, all are stopped. Raises EngineError."""
        self.ended = asyncio.get_running_loop().create_future()
        results = await asyncio.gather(*(r.start() for r in self._replicas), return_exceptions=True)
        for place, result in enumerate(results):
            if isinstance(result, BaseException):
                await self.stop()
                raise type(result)(f"{self._named(place)}: {result}") if isinstance(result, EngineError) else result
        first = self._replicas[0]
        self.eos_token_ids, self.max_model_len = first.eos_token_ids, min(r.max_model_len for r in self._replicas)
        self.tool_markers = first.tool_markers
        self.reasoning = first.reasoning
        for place, replica in enumerate(self._replicas):
            replica.ended.add_done_callback(partial(self._one_ended, place))

    @property
    def alive(self) -> list[int]:
        """Numbers of the replicas that are not gone."""
        return [i for i, replica in enumerate(self._replicas) if not replica.ended.done()]

    @property
    def replicas(self) -> Sequence[Engine]:
        return [self._replicas[i] for i in self.alive]

    @property
    def running(self) -> list[int]:
        """Calls in flight on each replica."""
        return list(self._running)

    async def render(
        self, messages: Sequence[Json], tools: Sequence[Json] | None = None, template_kwargs: Json | None = None
    ) -> list[int]:
        return await self._any().render(messages, tools, template_kwargs)

    async def tokenize(self, text: str) -> list[int]:
        return await self._any().tokenize(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._replicas[0].decode(token_ids)  # in this process: a replica that is gone decodes as well

    async def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None = None) -> Reply:
        return await self._any().derender(token_ids, tools)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, affinity: str | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """A call whose replica goes before its first token is asked of another one; later it fails, since one call
        is the work of one engine."""
        begun = False
        while True:
            place = self._route(affinity)
            replica = self._replicas[place]
            self._running[place] += 1
            try:
                async with aclosing(replica.generate(prompt_ids, sampling, affinity=affinity)) as stream:
                    async for chunk in stream:
                        begun = True
                        yield chunk
                return
            except EngineError:
                if begun or not replica.ended.done():
                    raise
            finally:
                self._running[place] -= 1

    async def load_weights(self, path: Path, version: int) -> None:
        """`version` counts once every replica that is not gone has confirmed it. Where one does not, the others are
        sent the earlier weights again. Raises EngineError."""
        confirmed, failure = await self._of_all(lambda replica: replica.load_weights(path, version))
        if failure is not None:
            if (earlier := self._current) is not None:
                back = (self._replicas[i].load_weights(earlier, self.weight_version) for i in confirmed)
                await asyncio.gather(*back, return_exceptions=True)  # what failed first is the cause
            raise failure
        self.weight_version, self._current = version, path

    async def receive(self, update: Json, version: int) -> None:
        """What the learner sends to all replicas at once: none can do without the others. Raises EngineError."""
        await together(*(self._replicas[i].receive(update, version) for i in self.alive))
        self.weight_version, self._current = version, None

    async def pin(self) -> int:
        _, failure = await self._of_all(lambda replica: replica.pin())
        if failure is not None:
            raise failure
        return self.weight_version

    async def unpin(self) -> None:
        _, failure = await self._of_all(lambda replica: replica.unpin())
        if failure is not None:
            raise failure

    async def _of_all(self, ask: Callable[[Engine], Awaitable[object]]) -> tuple[list[int], EngineError | None]:
        """The replicas that did it, and what one that is not gone failed with. Raises EngineError once all are gone."""
        places = self.alive
        results = await asyncio.gather(*(ask(self._replicas[i]) for i in places), return_exceptions=True)
        done, failure = [], None
        for place, result in zip(places, results, strict=True):
            if not isinstance(result, BaseException):
                done.append(place)
            elif not isinstance(result, EngineError):
                raise result
            elif not self._replicas[place].ended.done():
                failure = failure or EngineError(f"{self._named(place)}: {result}")
        if not done and failure is None:
            raise self._all_gone()
        return done, failure

    @property
    def serving_versions(self) -> frozenset[int]:
        serving = (self._replicas[i].serving_versions for i in self.alive)
        return frozenset({self.weight_version}).union(*serving)

    def held_s(self, start: float, end: float, affinity: str | None = None) -> float:
        place = self._places.get(affinity) if affinity is not None else None
        return 0.0 if place is None else self._replicas[place].held_s(start, end)

    async def stop(self) -> None:
        await asyncio.gather(*(replica.stop() for replica in self._replicas))

    def describe(self) -> Json:
        return {**self._replicas[0].describe(), "replicas": [replica.describe() for replica in self._replicas]}

    def _route(self, affinity: str | None) -> int:
        alive = self.alive
        if not alive:
            raise self._all_gone()
        place = self._places.get(affinity) if affinity is not None else None
        if place is None or place not in alive:
            place = min(alive, key=lambda i: (self._running[i], i))
        if affinity is not None:
            self._places[affinity] = place
            self._places.move_to_end(affinity)
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)
        return place

    def _any(self) -> Engine:
        alive = self.alive
        if not alive:
            raise self._all_gone()
        return self._replicas[min(alive, key=lambda i: (self._running[i], i))]

    @property
    def fate(self) -> str:
        """Once ended: why, of each replica."""
        return "" if self.alive else str(self._all_gone())

    def take_notes(self) -> list[str]:
        losses, self._losses = self._losses, []
        restarts = [f"{self._named(i)}: {note}" for i, r in enumerate(self._replicas) for note in r.take_notes()]
        return restarts + losses

    def _named(self, place: int) -> str:
        return f"engine replica {place} of {len(self._replicas)} (logs/inference-{place}.log)"

    def _why(self, place: int) -> str:
        return getattr(self._replicas[place], "fate", "") or "its process ended"

    def _all_gone(self) -> EngineError:
        causes = "; ".join(f"{place}: {self._why(place)}" for place in range(len(self._replicas)))
        return EngineError(f"all {len(self._replicas)} engine replicas are gone ({causes})")

    def _one_ended(self, place: int, _: object) -> None:
        if self.alive:
            left = len(self.alive)
            self._losses.append(f"{self._named(place)} is gone, {left} still serve: {self._why(place)}")
        elif not self.ended.done():
            self.ended.set_result(None)
