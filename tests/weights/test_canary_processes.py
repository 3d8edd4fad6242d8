"""The canary through the processes that a run has: a learner that learns, and each kind of engine.

vLLM: the tiny model, one start for merged weights and one for adapters.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.inference.vllm_tools import needs_vllm, vllm_engine
from tests.weights.rig import RigLearner, settings
from trainer.inference.engine import Sampling
from trainer.inference.local import LocalEngine
from trainer.learner.canary import candidate_logprobs
from trainer.learner.checkpoint import write_adapter
from trainer.learner.client import LearnerProcess, SyncResult
from trainer.learner.protocol import Sequence
from trainer.models import ResolvedModel, load_model, resolve_model
from trainer.weights.base import WeightSyncMismatch
from trainer.weights.lora import LoraSync
from trainer.weights.prefixes import PASSAGES, prefixes
from trainer.weights.slots import SlotSync
from trainer.weights.verified import VerifiedSync


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny() -> ResolvedModel:
    return resolve_model("builtin:tiny")


def test_the_learner_says_what_a_plain_forward_pass_says(tiny):
    learner = RigLearner(tiny, "full", "float32")
    learner.update(1e-2)
    model = load_model(tiny.path, torch.float32)
    model.load_state_dict({n: t.detach() for n, t in learner.policy.trainable.items()}, strict=False)
    model.tie_weights()
    asked = prefixes([list(text.encode()) for text in PASSAGES], 48, 512)
    asked += [np.array([7], np.int32), asked[0][:5]]  # and some that share nothing
    wanted = [np.arange(i, i + 20, dtype=np.int32) for i in range(len(asked))]
    found = candidate_logprobs(learner.policy, asked, wanted)
    for ids, tokens, logp in zip(asked, wanted, found, strict=True):
        with torch.inference_mode():
            expected = model(torch.tensor(ids[None]).long()).logits[0, -1].log_softmax(-1)[tokens.tolist()]
        assert np.allclose(logp, expected.numpy(), atol=2e-5)


def batch(n: int) -> list[Sequence]:
    rng = np.random.default_rng(n)
    ids, mask = rng.integers(0, 256, 40).astype("<i4"), (np.arange(40) >= 8).astype("u1")
    logp = np.full(40, -5.5, "<f4")
    return [
        Sequence(
            k, 0, 0, ids.tobytes(), mask.tobytes(), logp.tobytes(), advantage=1.0 - 2 * k, weight=1.0, temperature=1.0
        )
        for k in range(2)
    ]


@pytest.mark.slow
async def test_a_learner_that_learns_and_the_local_engine(tiny, tmp_path):
    learner = LearnerProcess(settings(tiny, "full", "bfloat16", learning_rate=5e-3), threads=1, sink=lambda line: None)
    engine = LocalEngine(tiny, dtype="bfloat16", max_model_len=512, threads=1)
    sync = VerifiedSync(SlotSync(learner, engine, tmp_path), engine, learner, 1)
    try:
        await learner.start(300)
        await engine.start()
        await sync.start(0)
        await learner.step(1, batch(1))
        assert learner.steps == 1
        report = await sync.sync(1)
        assert report.verified is True and 0.7 <= report.canary.slope <= 1.3

        async def ignore(path, version):
            engine.weight_version = version

        engine.load_weights = ignore
        await learner.step(2, batch(2))
        with pytest.raises(WeightSyncMismatch):
            await sync.sync(2)
    finally:
        sync.close()
        await engine.stop()
        await learner.stop()


class AdapterLearner(RigLearner):
    async def sync(self, path, version, mode="full"):
        if mode == "full":
            return await super().sync(path, version)
        return SyncResult(bytes=write_adapter(self.policy, path), seconds=0.0, rounding_gap=0.0)


@needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "dtype"), [("full", "float32"), ("lora", "bfloat16")])
async def test_vllm(tiny, tmp_path, mode, dtype):
    """Merged weights and adapters: good syncs of every size are silent, one that is skipped is caught."""
    learner = AdapterLearner(tiny, "lora", dtype)
    engine = vllm_engine(tiny, tmp_path / "inference-0.log", sync=mode, dtype=dtype, max_num_seqs=64)
    transport = (SlotSync if mode == "full" else LoraSync)(learner, engine, tmp_path / "weights")
    sync = VerifiedSync(transport, engine, learner, 1)
    try:
        await engine.start()
        await sync.start(0)
        verdicts = []
        for version in range(1, 13):
            learner.update((1e-4, 1e-3, 3e-3, 1e-2)[version % 4])
            report = await sync.sync(version)
            verdicts.append((report.verified, report.canary))
            assert report.canary.failed == 0
        assert verdicts[-1][0] is not None and sum(v is True for v, _ in verdicts) >= 6, verdicts
        sampled = [chunk async for chunk in engine.generate([1, 2, 3], Sampling(1.0, 5, seed=1, top_logprobs=20))]
        tops = [top for chunk in sampled for top in chunk.top]
        tokens = [token for chunk in sampled for token in chunk.token_ids]
        assert [token in top for token, top in zip(tokens, tops, strict=True)] == [True] * 5

        async def ignore(path, version):
            engine.weight_version = version

        load, engine.load_weights = engine.load_weights, ignore
        learner.update(1e-2)
        with pytest.raises(WeightSyncMismatch):
            await sync.sync(13)
        engine.load_weights = load
        assert (await sync.sync(14)).verified is True
    finally:
        sync.close()
        await engine.stop()
