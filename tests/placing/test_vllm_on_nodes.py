"""Real vLLM servers on two nodes behind the pool: reached over the network, guarded, and one node that is lost."""

from __future__ import annotations

import os
import signal

import httpx
import pytest
import torch

from tests.inference.conftest import write_update
from tests.inference.vllm_tools import START_S, complete, needs_vllm, until
from tests.placing.nodes import HerePlacing, home
from trainer.inference.pool import EnginePool
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.options import VllmSettings
from trainer.models import load_model, resolve_model

pytestmark = [pytest.mark.slow, needs_vllm]


async def test_replicas_on_nodes_take_weights_and_a_lost_one_leaves_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", home())
    model = resolve_model("builtin:tiny")
    settings = VllmSettings(
        model=model.path, name=model.name, dtype="float32", seed=0, max_model_len=256, sync="full", max_num_seqs=4
    )
    placing = HerePlacing(2)
    await placing.start()
    engines = [VllmEngine(model, settings, startup_timeout_s=START_S, placing=placing, node=node) for node in (0, 1)]
    pool = EnginePool(engines)
    try:
        await pool.start()
        prompt = await pool.tokenize("hello")
        assert len((await complete(pool, prompt, max_tokens=4)).tokens) == 4
        async with httpx.AsyncClient(base_url=engines[1]._client.base_url) as stranger:
            for path in ("/pause?mode=keep", "/v1/completions", "/collective_rpc"):
                assert (await stranger.post(path, json={})).status_code == 401
        write_update(tmp_path / "slot_0", load_model(model.path, torch.float32), ["model.norm.weight"])
        await pool.load_weights(tmp_path / "slot_0", 1)
        assert [engine.weight_version for engine in engines] == [1, 1]

        os.kill(placing.agent_of(1).pid, signal.SIGKILL)
        await until(lambda: engines[1].ended.done(), 30)
        assert "was lost" in engines[1].fate and pool.alive == [0]
        assert len((await complete(pool, prompt, max_tokens=4)).tokens) == 4
    finally:
        await pool.stop()
        await placing.stop()
