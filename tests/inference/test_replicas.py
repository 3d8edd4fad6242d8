"""Two real engines behind one gateway: an episode stays on its replica, and goes on when the other one dies."""

from __future__ import annotations

import asyncio
import os
import signal

import httpx
import psutil
import pytest

from tests.inference.conftest import write_update
from tests.waiting import comes, until
from trainer.inference.engine import Sampling
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy
from trainer.inference.local import LocalEngine
from trainer.inference.pool import EnginePool
from trainer.inference.vllm import restarts


@pytest.fixture
async def engines(tiny):
    return [LocalEngine(tiny, dtype="float32", max_model_len=128, max_num_seqs=4, threads=1) for _ in range(2)]


@pytest.fixture
async def pool(engines):
    pool = EnginePool(engines)
    await pool.start()
    yield pool
    await pool.stop()


@pytest.fixture
async def gateway(pool):
    gateway = Gateway(pool)
    await gateway.start()
    yield gateway
    await gateway.stop()


class Agent:
    """An episode that asks for answers, one after another."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient, cid: str) -> None:
        self.gateway, self.http, self.cid = gateway, http, cid
        self.messages: list[dict] = []
        gateway.ledger.open(cid, CallPolicy("train", 1.0, 6, call_limit=20, seed_parts=(0, 0, 0, 0)))

    async def ask(self) -> httpx.Response:
        self.messages.append({"role": "user", "content": "x"})
        answer = await self.http.post(self.gateway.chat_url(self.cid), json={"messages": self.messages}, timeout=60)
        if answer.status_code == 200:
            self.messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})
        return answer


async def test_episodes_stay_on_their_replica_and_outlive_the_other_one(
    engines, pool, gateway, hf, tmp_path, monkeypatch
):
    monkeypatch.setattr(restarts, "BACKOFF_S", ())  # one that ends is not started again
    served: list[tuple[int, str]] = []  # (replica, episode)
    for number, engine in enumerate(engines):
        spy(engine, number, served)
    async with httpx.AsyncClient() as http:
        agents = [Agent(gateway, http, f"cid-{i}") for i in range(4)]
        for engine in engines:  # none is done with a call before all have come
            os.kill(engine.pid, signal.SIGSTOP)
        asking = [asyncio.create_task(agent.ask()) for agent in agents]
        await comes(lambda: len(served) == 4)
        for engine in engines:
            os.kill(engine.pid, signal.SIGCONT)
        for answers in (await asyncio.gather(*asking), await asyncio.gather(*(agent.ask() for agent in agents))):
            assert [answer.status_code for answer in answers] == [200] * 4
        place = {cid: replica for replica, cid in served}
        assert sorted(place.values()) == [0, 0, 1, 1]  # the load is shared, and
        assert len(served) == 8 and {(r, c) for r, c in served} == {(r, c) for c, r in place.items()}  # nobody moved

        os.kill(killed := engines[0].pid, signal.SIGKILL)
        until(lambda: has_ended(killed))  # the loop stands still: it hears of the end as it asks
        chunks = pool.generate([1, 2, 3], Sampling(1.0, 2, seed=1), affinity=next(c for c in place if not place[c]))
        assert sum([len(chunk.token_ids) async for chunk in chunks]) == 2
        await asyncio.wait([engines[0].ended], timeout=30)
        assert pool.alive == [1] and [engine.state for engine in engines] == ["gone", "serving"]
        served.clear()
        answers = await asyncio.gather(*(agent.ask() for agent in agents))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert sorted(served) == [(1, agent.cid) for agent in agents]

        write_update(tmp_path, hf, ["model.norm.weight"])
        await pool.load_weights(tmp_path, 1)  # of those that are left
        assert pool.weight_version == 1 and pool.serving_versions == {1}
        assert (await agents[0].ask()).json()["rltui"]["weight_version"] == 1
    records = [gateway.ledger.close(agent.cid) for agent in agents]
    assert [len(record.calls) for record in records] == [4, 3, 3, 3]
    assert all(call.prefix in ("first", "clean", "realign") for record in records for call in record.calls)


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def spy(engine: LocalEngine, number: int, served: list[tuple[int, str]]) -> None:
    generate = engine.generate

    def noted(prompt_ids, sampling, *, affinity=None):
        served.append((number, affinity))
        return generate(prompt_ids, sampling, affinity=affinity)

    engine.generate = noted
