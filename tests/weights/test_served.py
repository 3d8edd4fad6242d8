"""Weights that a server has already, over real forward passes: the right ones pass, any others do not."""

from __future__ import annotations

import pytest
import torch

from tests.weights.rig import RigEngine, RigLearner
from trainer.inference.weightfiles import WeightFiles
from trainer.models import ResolvedModel, resolve_model
from trainer.weights.base import WeightSyncMismatch
from trainer.weights.canary import Reading, candidates
from trainer.weights.readings import ask_engine, ask_learner, prefixes_of
from trainer.weights.served import ServedAdapter, judge_served
from trainer.weights.verified import VerifiedSync

DTYPES = ["float32", "bfloat16"]
CHANGE = {"lora": 5e-3, "full": 2e-2}
SERVED = ["these", "the start weights", "another checkpoint's"]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny() -> ResolvedModel:
    return resolve_model("builtin:tiny")


class Server(RigEngine):
    """Has the weights of `folder`, or none but the start weights."""

    folder = None

    def ask_for(self, name: str) -> None:
        if self.folder is not None:
            with torch.inference_mode():
                self._decoder.swap(self._decoder.forward.updated(WeightFiles(self.folder)), 1)


def server(tiny, dtype: str, served: str, mode: str, folder) -> Server:
    """At the start weights, until it is asked for what is served."""
    found = Server(tiny, dtype, 64)
    if served != "the start weights":
        other = RigLearner(tiny, mode, dtype)
        for _ in range(2 if served == "another checkpoint's" else 1):  # a later one of the same run
            other.update(CHANGE[mode])
        other.policy.export(folder)
        found.folder = folder
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("served", SERVED)
async def test_an_adapter_beside_its_base(tiny, tmp_path, dtype, served):
    learner = RigLearner(tiny, "lora", dtype)
    engine = server(tiny, dtype, served, "lora", tmp_path)
    sync = VerifiedSync(ServedAdapter(engine, "mine"), engine, learner, 1)
    await sync.start(0)
    learner.update(CHANGE["lora"])
    if served == "these":
        report = await sync.sync(1)
        assert report.verified is True and 0.9 < report.canary.slope < 1.1
    else:
        with pytest.raises(WeightSyncMismatch):
            await sync.sync(1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("served", SERVED)
async def test_a_whole_model(tiny, tmp_path, dtype, served):
    learner = RigLearner(tiny, "full", dtype)
    engine = server(tiny, dtype, served, "full", tmp_path)
    prefixes = await prefixes_of(engine)
    tokens, logp = candidates(await ask_engine(engine, prefixes))
    [at_start] = await ask_learner(learner, prefixes, [tokens])
    noise = Reading(tokens, logp, at_start).noise  # as its run measured it
    engine.ask_for("whole")

    async def load() -> None:
        learner.update(CHANGE["full"])

    finding = await judge_served(engine, learner, load, noise)
    assert finding.verdict == ("verified" if served == "these" else "failed"), finding
    if served == "these":
        assert 0.9 < finding.slope < 1.1


async def test_a_change_within_the_noise_cannot_be_told(tiny):
    learner, engine = RigLearner(tiny, "full", "bfloat16"), Server(tiny, "bfloat16", 64)

    async def load() -> None:
        return

    assert (await judge_served(engine, learner, load, 0.1)).verdict == "undecided"
