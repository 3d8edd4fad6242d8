"""The process of the local engine ends: it is started again with the weights that served, and given up in the end."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.inference.conftest import write_update
from tests.waiting import comes
from trainer.inference.engine import EngineError, Sampling
from trainer.inference.local import LocalEngine
from trainer.inference.vllm import restarts

PROMPT, GREEDY = [5, 6, 7], Sampling(0.0, 8)


@pytest.fixture
async def engine(tiny):
    engine = LocalEngine(tiny, dtype="float32", max_model_len=128, max_num_seqs=4, threads=1)
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
def update(hf, tmp_path):
    write_update(folder := tmp_path / "update", hf, ["model.norm.weight", "model.layers.0.mlp.up_proj.weight"], 40.0)
    return folder


async def complete(engine: LocalEngine) -> tuple[list[int], set[int]]:
    """Tokens and their versions."""
    chunks = [chunk async for chunk in engine.generate(PROMPT, GREEDY)]
    return [token for chunk in chunks for token in chunk.token_ids], {chunk.weight_version for chunk in chunks}


async def test_it_is_started_again_with_the_weights_that_served(engine, update):
    first, base = engine.pid, await complete(engine)
    await engine.load_weights(update, 3)
    served = await complete(engine)
    assert served[0] != base[0] and served[1] == {3}
    running = engine.generate(PROMPT, Sampling(1.0, 100))
    await anext(running)
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match=r"process ended \(killed by signal 9\)"):
        while True:  # what had been sampled before comes first
            await anext(running)
    assert await complete(engine) == served  # it is asked before the new process is there
    assert engine.pid not in (None, first) and (engine.state, engine.weight_version) == ("serving", 3)
    (note,) = engine.take_notes()
    assert "started again at weight version 3" in note and "memory" in note


async def test_an_update_that_it_does_not_live_through_is_made_again(engine, update):
    os.kill(engine.pid, signal.SIGSTOP)
    loading = asyncio.create_task(engine.load_weights(update, 1))
    await comes(lambda: engine._answers)
    os.kill(engine.pid, signal.SIGKILL)
    await loading
    assert (engine.weight_version, engine.state, (await complete(engine))[1]) == (1, "serving", {1})


async def test_one_that_ends_too_often_is_gone(engine, monkeypatch):
    monkeypatch.setattr(restarts, "BACKOFF_S", (0.0,))
    for _ in range(2):
        assert (await complete(engine))[0]
        os.kill(engine.pid, signal.SIGKILL)
        await comes(lambda: engine.state != "serving")
    await asyncio.wait_for(asyncio.shield(engine.ended), 60)
    assert engine.state == "gone" and engine.pid is None
    with pytest.raises(EngineError, match=r"killed by signal 9.*it was started again 1 times.*and is given up"):
        await complete(engine)
