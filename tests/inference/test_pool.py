"""Routing and faults of several replicas; the replicas are small fakes, since they have to fail on command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trainer.inference.engine import Chunk, Engine, EngineError, Reply, Sampling
from trainer.inference.pool import EnginePool

SAMPLING = Sampling(1.0, 4)
HERE = Path("weights")


class Fake(Engine):
    """Two tokens a call; the second one waits for `gate`."""

    kind, model_name, max_model_len = "fake", "m", 64

    def __init__(self, number: int) -> None:
        self.number, self.weight_version = number, 0
        self.gate, self.calls, self.refuse, self.stopped = asyncio.Event(), 0, False, 0
        self.fails_to_start, self.told, self.pinned, self.pins = False, [], None, True

    async def start(self) -> None:
        self.ended, self.eos_token_ids = asyncio.get_running_loop().create_future(), frozenset([9])
        if self.fails_to_start:
            raise EngineError("no memory")

    async def render(self, messages, tools=None, template_kwargs=None) -> list[int]:
        return [self.number]

    async def tokenize(self, text: str) -> list[int]:
        return [self.number]

    async def generate(self, prompt_ids, sampling, *, affinity=None):
        self.calls += 1
        if self.ended.done():
            raise EngineError("gone")
        yield Chunk([self.number], [-1.0], self.weight_version)
        while not self.gate.is_set() and not self.ended.done():
            await asyncio.wait([asyncio.ensure_future(self.gate.wait()), self.ended], return_when="FIRST_COMPLETED")
        if self.ended.done():
            raise EngineError("gone")
        yield Chunk([9], [-1.0], self.weight_version, "stop")

    def decode(self, token_ids) -> str:
        return str(list(token_ids))

    async def derender(self, token_ids, tools=None) -> Reply:
        return Reply(self.decode(token_ids))

    async def load_weights(self, path: Path, version: int) -> None:
        if self.refuse or self.ended.done():
            raise EngineError("cannot read the file")
        self.weight_version = version

    async def pin(self) -> int:
        self.pinned = self.weight_version
        return self.pinned

    async def unpin(self) -> None:
        self.pinned = None

    def take_notes(self) -> list[str]:
        told, self.told = self.told, []
        return told

    async def stop(self) -> None:
        self.stopped += 1
        self.die()

    def die(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


@pytest.fixture
async def fakes() -> list[Fake]:
    return [Fake(i) for i in range(3)]


@pytest.fixture
async def pool(fakes) -> EnginePool:
    pool = EnginePool(fakes)
    await pool.start()
    return pool


async def play(pool: EnginePool, affinity: str | None = None) -> list[int]:
    return [token async for chunk in pool.generate([1], SAMPLING, affinity=affinity) for token in chunk.token_ids]


async def started(pool: EnginePool, affinity: str | None = None):
    """A call that has its first token, and that token: the number of its replica."""
    stream = pool.generate([1], SAMPLING, affinity=affinity)
    return stream, (await anext(stream)).token_ids[0]


async def test_a_new_episode_goes_where_least_is_running(pool, fakes):
    running = [await started(pool, f"e{i}") for i in range(5)]
    assert [place for _, place in running] == [0, 1, 2, 0, 1] and pool.running == [2, 2, 1]
    await running[0][0].aclose()
    await running[3][0].aclose()
    assert pool.running == [0, 2, 1]
    assert (await started(pool, "new"))[1] == 0


async def test_an_episode_stays_on_its_replica_and_leaves_one_that_is_gone(pool, fakes):
    for fake in fakes:
        fake.gate.set()
    held, place = await started(pool, "other")
    assert place == 0
    assert [(await play(pool, "mine"))[0] for _ in range(4)] == [1] * 4  # 2 was as free as 1
    await held.aclose()
    fakes[1].die()
    assert [(await play(pool, "mine"))[0] for _ in range(3)] == [0] * 3
    assert fakes[1].calls == 4 and not pool.ended.done()


async def test_a_call_moves_before_its_first_token_and_fails_after_it(pool, fakes):
    for fake in fakes[1:]:
        fake.gate.set()
    stream, place = await started(pool, "mine")
    assert place == 0
    fakes[0].die()
    with pytest.raises(EngineError, match="gone"):
        await anext(stream)
    assert pool.running == [0, 0, 0]

    async def dies_first(prompt_ids, sampling, *, affinity=None):
        fakes[1].die()
        raise EngineError("gone")
        yield

    fakes[1].generate = dies_first
    assert await play(pool, "mine") == [2, 9]
    fakes[2].die()
    await asyncio.wait_for(asyncio.shield(pool.ended), 60)
    with pytest.raises(EngineError, match="all 3 engine replicas are gone"):
        await play(pool)
    with pytest.raises(EngineError, match="all 3 engine replicas are gone"):
        await pool.load_weights(HERE, 5)
    assert pool.decode([1]) == "[1]"


async def test_an_error_of_a_living_replica_is_not_asked_again(pool, fakes):
    async def refuses(prompt_ids, sampling, *, affinity=None):
        raise EngineError("bad prompt")
        yield

    fakes[0].generate = refuses
    with pytest.raises(EngineError, match="bad prompt"):
        await play(pool)
    assert fakes[1].calls == 0


async def test_a_version_counts_once_all_have_confirmed_it(pool, fakes):
    await pool.load_weights(HERE, 1)
    assert pool.weight_version == 1 and {f.weight_version for f in fakes} == {1}
    fakes[2].refuse = True
    with pytest.raises(EngineError, match=r"replica 2 of 3 .*: cannot read"):
        await pool.load_weights(HERE, 2)
    assert pool.weight_version == 1 and pool.serving_versions == {1}  # all or none
    fakes[2].die()  # gone: it serves nobody any more, so nobody waits for it
    await pool.load_weights(HERE, 2)
    assert pool.weight_version == 2


async def test_versions_that_a_replica_still_samples_from_are_kept(pool, fakes, monkeypatch):
    """Under versioned names a call keeps its weights; their files must stay for as long, on whichever replica."""
    await pool.load_weights(HERE, 4)
    monkeypatch.setattr(Fake, "serving_versions", property(lambda self: frozenset({4, 4 - self.number})))
    assert pool.serving_versions == {2, 3, 4}
    fakes[2].die()
    assert pool.serving_versions == {3, 4}


async def test_a_version_is_pinned_on_every_replica(pool, fakes):
    await pool.load_weights(HERE, 4)
    assert pool.pins and await pool.pin() == 4 and {f.pinned for f in fakes} == {4}
    fakes[0].die()
    await pool.unpin()
    assert [f.pinned for f in fakes[1:]] == [None, None]


async def test_what_is_said_of_replicas_names_them(pool, fakes):
    fakes[1].told = ["it is started again"]
    fakes[2].fate = "vLLM was killed"
    fakes[2].die()
    await asyncio.sleep(0)
    assert pool.take_notes() == [
        "engine replica 1 of 3 (logs/inference-1.log): it is started again",
        "engine replica 2 of 3 (logs/inference-2.log) is gone, 2 still serve: vLLM was killed",
    ]
    assert pool.take_notes() == [] and pool.fate == ""
    fakes[0].die(), fakes[1].die()
    assert pool.fate.startswith("all 3 engine replicas are gone (0: its process ended; ")
    assert "2: vLLM was killed" in pool.fate


async def test_one_that_fails_to_start_stops_all(fakes):
    fakes[1].fails_to_start = True
    with pytest.raises(EngineError, match=r"engine replica 1 of 3 \(logs/inference-1\.log\): no memory"):
        await EnginePool(fakes).start()
    assert [f.stopped for f in fakes] == [1, 1, 1]


async def test_stop_and_describe(pool, fakes):
    assert pool.describe() == {"kind": "fake", "replicas": [{"kind": "fake"}] * 3}
    assert await pool.render([]) == [0] and (await pool.derender([5])).text == "[5]"
    await pool.stop()
    assert pool.ended.done() and [f.stopped for f in fakes] == [1, 1, 1]
