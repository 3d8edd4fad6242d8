"""The canary over real forward passes: silent over good syncs, loud over each way in which weights do not arrive."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from tests.weights.rig import RigEngine, RigLearner
from trainer.inference.engine import EngineError
from trainer.models import ResolvedModel, resolve_model
from trainer.weights.base import SyncReport, WeightSync, WeightSyncError, WeightSyncMismatch
from trainer.weights.slots import SlotSync
from trainer.weights.verified import VerifiedSync

DTYPES = ["float32", "bfloat16"]
CONTEXT = 64  # tokens; prefixes have 36, two blocks and an end
SIZES = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2)
LARGE = {"full": 2e-2, "lora": 5e-3}  # changes that bf16 shows at once


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny() -> ResolvedModel:
    return resolve_model("builtin:tiny")


class Rig:
    def __init__(self, tiny, mode, dtype, folder, every_k=1, context=CONTEXT) -> None:
        self.learner, self.engine = RigLearner(tiny, mode, dtype), RigEngine(tiny, dtype, context)
        self.sync = VerifiedSync(SlotSync(self.learner, self.engine, folder), self.engine, self.learner, every_k)
        self.large, self._version = LARGE[mode], 0

    async def update(self, size: float) -> SyncReport:
        self.learner.update(size)
        self._version += 1
        return await self.sync.sync(self._version)


COUNTS = [20, pytest.param(200, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["full", "lora"])
async def test_good_syncs_never_fail(tiny, tmp_path, mode, dtype, count):
    rig = Rig(tiny, mode, dtype, tmp_path)
    await rig.sync.start(0)
    reports = [await rig.update(SIZES[i % len(SIZES)]) for i in range(count)]
    assert reports[-1].canary.failed == 0 and not any(r.resent for r in reports)
    if dtype == "float32":
        assert all(r.verified is True for r in reports)
    else:  # what is too small to tell adds up until it is not
        assert {r.verified for r in reports} == {True, "undecided"}
        assert max(r.canary.undecided for r in reports) <= 2 * len(SIZES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["full", "lora"])
@pytest.mark.parametrize("fault", ["skipped", "base", "half", "stale", "stale_blocks"])
async def test_each_fault_is_caught(tiny, tmp_path, fault, mode, dtype):
    rig = Rig(tiny, mode, dtype, tmp_path)
    await rig.sync.start(0)
    assert (await rig.update(rig.large)).verified is True
    rig.engine.fault = fault
    with pytest.raises(WeightSyncMismatch, match=r"version 2 \(2 updates\) twice and does not run it") as caught:
        await rig.update(rig.large)
    assert caught.value.report.verified is False
    assert caught.value.report.metrics()["canary/failed"] == 2.0


async def test_what_a_second_sending_mends_goes_on(tiny, tmp_path):
    rig = Rig(tiny, "full", "bfloat16", tmp_path)
    await rig.sync.start(0)
    rig.engine.fault, rig.engine.faults_left = "half", 1
    mended = await rig.update(rig.large)
    assert (mended.verified, mended.resent, mended.canary.failed) == (True, True, 1)
    after = await rig.update(rig.large)
    assert (after.verified, after.resent, after.metrics()["canary/failed"]) == (True, False, 1.0)


async def test_skipped_updates_below_the_noise_are_caught_once_they_add_up(tiny, tmp_path):
    rig = Rig(tiny, "lora", "bfloat16", tmp_path)
    await rig.sync.start(0)
    rig.engine.fault, counts = "skipped", []
    with pytest.raises(WeightSyncMismatch):
        for _ in range(30):
            report = await rig.update(3e-4)
            assert report.verified == "undecided"
            counts.append(report.canary.undecided)
    assert counts == list(range(1, len(counts) + 1)) and counts


async def test_only_the_first_sync_after_k_updates_is_checked(tiny, tmp_path):
    rig = Rig(tiny, "full", "float32", tmp_path, every_k=3)
    await rig.sync.start(0)
    verified = [(await rig.update(1e-3)).verified for _ in range(7)]
    assert verified == [None, None, True, None, None, True, None]
    rig.sync.verify_every_k = 1  # a live key
    assert (await rig.update(1e-3)).verified is True
    rig.sync.verify_every_k = 0
    rig.engine.fault = "skipped"
    report = await rig.update(1e-3)
    assert (report.verified, report.canary, report.metrics()) == (None, None, {})


async def test_off_at_the_start_it_measures_the_noise_when_it_is_switched_on(tiny, tmp_path):
    rig = Rig(tiny, "full", "float32", tmp_path, every_k=0)
    await rig.sync.start(0)
    assert rig.sync.canary_state() is None
    rig.sync.verify_every_k = 1
    assert [(await rig.update(1e-3)).verified for _ in range(2)] == [None, True]


@pytest.mark.parametrize("fault", ["", "base"])
async def test_a_resumed_run_goes_on_from_the_verified_version(tiny, tmp_path, fault):
    rig = Rig(tiny, "full", "bfloat16", tmp_path / "first")
    await rig.sync.start(0)
    await rig.update(rig.large)
    state = json.loads(json.dumps(rig.sync.canary_state()))
    rig.engine = RigEngine(tiny, "bfloat16", CONTEXT)  # a new process
    rig.sync = VerifiedSync(SlotSync(rig.learner, rig.engine, tmp_path / "again"), rig.engine, rig.learner, 10)
    rig.sync.restore_canary(state)
    assert rig.sync.canary_state() == state
    rig.engine.fault = fault
    if fault:
        with pytest.raises(WeightSyncMismatch):
            await rig.sync.sync(1)
        return
    report = await rig.sync.sync(1)  # the same weights: nothing changed, and both agree in that
    assert report.verified == "undecided"
    assert (await rig.update(rig.large)).verified is True


async def test_a_state_that_does_not_fit_begins_anew(tiny, tmp_path):
    rig = Rig(tiny, "full", "float32", tmp_path)
    for state in (None, {}, {"replicas": [{"noise": 1}]}, {"replicas": 3}):
        rig.sync.restore_canary(state)
    assert [(await rig.update(1e-3)).verified for _ in range(2)] == [None, True]


class Pair:
    """Two replicas; what is gone is left out, as in an EnginePool."""

    def __init__(self, *engines: RigEngine) -> None:
        self.all, self.max_model_len, self.tokenize = engines, engines[0].max_model_len, engines[0].tokenize
        self.url, self.serving_versions, self.cache_block = "", frozenset(), engines[0].cache_block

    @property
    def replicas(self):
        return [engine for engine in self.all if not engine.ended.done()]

    async def load_weights(self, path, version):
        for engine in self.replicas:
            await engine.load_weights(path, version)


async def test_every_replica_is_asked(tiny, tmp_path):
    good, bad = RigEngine(tiny, "float32", CONTEXT), RigEngine(tiny, "float32", CONTEXT)
    learner, pair = RigLearner(tiny, "full", "float32"), Pair(good, bad)
    sync = VerifiedSync(SlotSync(learner, pair, tmp_path), pair, learner, 1)
    await sync.start(0)
    learner.update(1e-3)
    assert (await sync.sync(1)).verified is True
    bad.fault = "skipped"
    learner.update(1e-3)
    with pytest.raises(WeightSyncMismatch):
        await sync.sync(2)
    bad.ended.set_result(None)
    learner.update(1e-3)
    assert (await sync.sync(3)).verified is True


class Claims(WeightSync):
    """A transport that only says so."""

    async def sync(self, version):
        return SyncReport(version, 0.0, 0, "full", 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
async def test_a_transport_that_brings_nothing_is_caught(tiny, dtype):
    learner, engine = RigLearner(tiny, "full", dtype), RigEngine(tiny, dtype, CONTEXT)
    sync = VerifiedSync(Claims(), engine, learner, 1)
    await sync.start(0)
    learner.update(LARGE["full"])
    with pytest.raises(WeightSyncMismatch) as caught:
        await sync.sync(1)
    assert caught.value.code == "weight_sync_mismatch" and "slope" in str(caught.value)


async def test_an_engine_that_does_not_answer_is_named_after_the_limit(tiny):
    learner, engine = RigLearner(tiny, "full", "float32"), RigEngine(tiny, "float32", CONTEXT)
    engine._decode = lambda: None
    with pytest.raises(WeightSyncError, match=r"did not answer the canary within 0\.05 s"):
        await VerifiedSync(Claims(), engine, learner, 1, timeout_s=0.05).start(0)


async def test_an_engine_without_likeliest_tokens_is_named(tiny):
    learner, engine = RigLearner(tiny, "full", "float32"), RigEngine(tiny, "float32", CONTEXT)
    generate = engine.generate

    async def poorer(prompt, sampling):
        async for chunk in generate(prompt, sampling):
            yield replace(chunk, top=None)

    engine.generate = poorer
    with pytest.raises(EngineError, match="no log-probabilities beside"):
        await VerifiedSync(Claims(), engine, learner, 1).start(0)
