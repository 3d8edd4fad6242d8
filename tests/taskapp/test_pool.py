import asyncio

import httpx
import pytest

from trainer.taskapp.pool import ClientPool


async def test_a_client_is_never_shared_and_the_limit_holds():
    made, in_use, peak = [], set(), 0

    def make(limits):
        made.append(httpx.AsyncClient(limits=limits))
        return made[-1]

    pool = ClientPool(make, limit=3)

    async def use():
        nonlocal peak
        async with pool.client() as client:
            assert client not in in_use
            in_use.add(client)
            peak = max(peak, len(in_use))
            await asyncio.sleep(0)
            in_use.remove(client)

    await asyncio.gather(*(use() for _ in range(50)))
    assert peak == len(made) == 3
    await pool.close()
    assert all(client.is_closed for client in made)


async def test_a_raised_limit_lets_in_those_who_wait():
    pool, inside, go_on = ClientPool(lambda limits: httpx.AsyncClient(limits=limits), limit=1), [], asyncio.Event()

    async def use(number):
        async with pool.client():
            inside.append(number)
            await go_on.wait()

    uses = [asyncio.ensure_future(use(number)) for number in range(6)]
    for limit, expected in ((1, 1), (4, 4), (2, 4), (5, 5)):
        pool.raise_to(limit)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(inside) == expected
    go_on.set()
    await asyncio.gather(*uses)
    await pool.close()


async def test_a_client_in_an_unknown_state_is_not_used_again():
    pool = ClientPool(lambda limits: httpx.AsyncClient(limits=limits))
    with pytest.raises(asyncio.CancelledError):
        async with pool.client() as first:
            raise asyncio.CancelledError
    async with pool.client() as second:
        assert first.is_closed and second is not first
    async with pool.client() as third:
        assert third is second
    await pool.close()
