"""Weights from device to device, against servers that answer as vLLM does: what is said to whom, and what becomes of
faults. No tensor moves here: that takes GPUs."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import torch

from tests.inference import stand_in
from tests.inference.conftest import write_update
from tests.inference.test_vllm_server import engine_at, serving
from tests.inference.vllm_tools import complete, until, vllm_engine
from trainer.inference.pool import EnginePool
from trainer.inference.vllm import process
from trainer.learner.client import LearnerError, SendResult, SyncResult
from trainer.models import ResolvedModel, load_model, resolve_model
from trainer.weights.base import WeightSyncError
from trainer.weights.direct import DirectSync

LAYOUT = {"names": ["model.norm.weight"], "dtype_names": ["bfloat16"], "shapes": [[64]]}
HANDLES = {**LAYOUT, "ipc_handles_pickled": "eA=="}
UPDATE = ["/pause?mode=keep", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]


async def meet() -> tuple[str, int]:
    return "10.0.0.7", 4711


class Learner:
    """`hangs`: as an NCCL broadcast does when the other end is gone."""

    def __init__(self, hf) -> None:
        self.asked, self.refuses, self.hangs, self._hf = [], "", False, hf

    async def layout(self):
        if self.refuses:
            raise LearnerError(self.refuses)
        return LAYOUT

    async def connect(self, *args):
        self.asked.append(("connect", *args))

    async def send(self):
        self.asked.append(("send",))
        if self.hangs:
            await asyncio.Event().wait()
        return SendResult(bytes=128, rounding_gap=0.5, update=HANDLES)

    async def sync(self, path, version, mode="full"):
        self.asked.append(("sync", path.name))
        path.mkdir(parents=True, exist_ok=True)
        write_update(path, self._hf, ["model.norm.weight"])
        return SyncResult(bytes=256, seconds=0.0, rounding_gap=0.0)


@pytest.fixture(scope="module")
def tiny() -> ResolvedModel:
    return resolve_model("builtin:tiny")


@pytest.fixture(scope="module")
def hf(tiny) -> torch.nn.Module:
    return load_model(tiny.path, torch.float32)


@pytest.fixture
def learner(hf) -> Learner:
    return Learner(hf)


@pytest.fixture
async def two(tiny):
    """Two servers, and the pool of engines in front of them."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving()) for _ in range(2)]
        engines = [engine_at(server, tiny) for server in servers]
        pool = EnginePool(engines)
        await pool.start()
        stack.push_async_callback(pool.stop)
        for server in servers:
            server.calls.clear(), server.bodies.clear()
        yield servers, engines, pool


def inits(server) -> list[dict]:
    return [body["init_info"] for body in server.bodies if "init_info" in body]


async def test_learner_and_replicas_meet_once_and_each_update_is_said_in_order(two, learner, tmp_path):
    servers, engines, pool = two
    sync = DirectSync("nccl", learner, pool, tmp_path, lambda text: pytest.fail(text), meet)
    reports = [await sync.sync(1), await sync.sync(2)]
    assert [(r.version, r.bytes, r.mode, r.rounding_gap) for r in reports] == [
        (1, 128, "full", 0.5),
        (2, 128, "full", 0.5),
    ]
    (_, way, address, port, world_size), *sends = learner.asked
    assert (way, address, world_size, sends) == ("nccl", "10.0.0.7", 3, [("send",)] * 2)
    for number, server in enumerate(servers):
        options = {"master_address": address, "master_port": port, "world_size": 3, "packed": True}
        assert inits(server) == [{"way": "nccl", "options": {**options, "rank_offset": 1 + number}}]
        assert server.calls == ["/init_weight_transfer_engine", *UPDATE, *UPDATE]
        assert [b["update_info"] for b in server.bodies if "update_info" in b] == [{"direct": LAYOUT}] * 2
        assert [b["weight_version"] for b in server.bodies if "weight_version" in b] == ["1", "2"]
    assert pool.weight_version == 2 == engines[1].weight_version
    engines[1].starts += 1  # another server, which has met nobody
    await sync.sync(3)
    assert [call[0] for call in learner.asked] == ["connect", "send", "send", "connect", "send"]
    assert [len(inits(server)) for server in servers] == [2, 2]


@pytest.mark.parametrize("broken", UPDATE[1:4])
async def test_a_sending_that_breaks_on_one_replica_ends_at_once_and_all_resume(two, learner, tmp_path, broken):
    servers, _, pool = two
    sync = DirectSync("nccl", learner, pool, tmp_path, lambda text: pytest.fail(text), meet)
    await sync.sync(1)
    servers[1].broken, learner.hangs = {broken}, True
    async with asyncio.timeout(60):
        with pytest.raises(WeightSyncError, match=r"sending weight version 2 to the engine broke: .*it broke"):
            await sync.sync(2)
    assert pool.weight_version == 1
    for server in servers:
        assert server.calls.count("/pause?mode=keep") == server.calls.count("/resume") == 2


@pytest.mark.parametrize("refuses", ["the learner", "the engine"])
async def test_what_cannot_be_connected_goes_through_files_and_is_told_once(two, learner, tmp_path, refuses):
    servers, _, pool = two
    told = []
    if refuses == "the learner":
        learner.refuses = "the learner has no GPU"
    else:
        servers[0].broken = {"/init_weight_transfer_engine"}
    sync = DirectSync("nccl", learner, pool, tmp_path, told.append, meet)
    pool.url = ""
    for version in (1, 2):
        assert (await sync.sync(version)).bytes == 256
    assert len(told) == 1 and told[0].startswith("weights go through files: ")
    assert ("has no GPU" if refuses == "the learner" else "it broke") in told[0]
    paths = [b["update_info"]["path"] for b in servers[1].bodies if "update_info" in b]
    assert paths == [str(tmp_path / "slot_1"), str(tmp_path / "slot_0")] and pool.weight_version == 2
    sync.close()
    assert list(tmp_path.iterdir()) == []


async def test_over_ipc_the_engine_is_told_what_opens_the_learners_tensors(tiny, learner, tmp_path):
    async with serving() as server:
        engine = engine_at(server, tiny)
        await engine.start()
        sync = DirectSync("ipc", learner, engine, tmp_path, lambda text: pytest.fail(text), meet)
        await sync.sync(1)
        assert learner.asked == [("connect", "ipc", "", 0, 0), ("send",)]
        assert inits(server)[-1] == {"way": "ipc", "options": {"packed": False}}
        assert [b["update_info"] for b in server.bodies if "update_info" in b] == [{"direct": HANDLES}]
        await engine.stop()


async def test_a_server_that_starts_again_gets_what_was_never_in_files(tiny, learner, tmp_path, monkeypatch):
    (faults := tmp_path / "faults").mkdir()
    monkeypatch.setenv(stand_in.FAULTS, str(faults))
    monkeypatch.setattr(process, "SERVER", stand_in.__name__)
    monkeypatch.setattr(process, "is_installed", lambda: True)
    engine = vllm_engine(tiny, tmp_path / "log")
    await engine.start()
    sync = DirectSync("nccl", learner, engine, tmp_path / "weights", lambda text: pytest.fail(text), meet)
    await sync.sync(5)
    (faults / "SIGKILL-of-inference_v1_generate").touch()
    assert (await complete(engine, [1])).tokens == [65, 66]  # of the next server
    assert engine.starts == 2 and engine.weight_version == 5
    assert learner.asked[-1] == ("sync", "restart_0")
    await sync.sync(6)
    assert [call[0] for call in learner.asked] == ["connect", "send", "sync", "connect", "send"]
    await until(lambda: engine.state == "serving")
    await engine.stop()
