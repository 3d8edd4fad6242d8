"""The transport between a learner and engines of each kind: one that takes an update, refuses it, ignores it."""

import asyncio

import pytest

from trainer.inference.engine import EngineError
from trainer.learner.client import SyncResult
from trainer.weights.base import WeightSyncError
from trainer.weights.slots import SlotSync


class Learner:
    async def sync(self, path, version):
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(b"v%d" % version)
        return SyncResult(bytes=2, seconds=0.0, rounding_gap=0.25)


class Engine:
    """`answer`: takes, refuses or ignores what it is given."""

    def __init__(self, answer="takes"):
        self.answer, self.served = answer, []

    async def load_weights(self, path, version):
        if self.answer == "refuses":
            raise EngineError("a tensor has another shape")
        if self.answer == "ignores":
            await asyncio.Event().wait()
        self.served.append((path.name, (path / "model.safetensors").read_bytes()))


async def test_versions_alternate_between_two_slots_and_leave_nothing_behind(tmp_path):
    engine = Engine()
    sync = SlotSync(Learner(), engine, tmp_path)
    reports = [await sync.sync(version) for version in (1, 2, 3)]
    assert engine.served == [("slot_1", b"v1"), ("slot_0", b"v2"), ("slot_1", b"v3")]
    assert [(r.version, r.bytes, r.mode, r.rounding_gap) for r in reports] == [(v, 2, "full", 0.25) for v in (1, 2, 3)]
    assert list(tmp_path.iterdir()) == []


async def test_a_refused_update_says_why_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(EngineError, match="another shape"):
        await SlotSync(Learner(), Engine("refuses"), tmp_path).sync(1)
    assert list(tmp_path.iterdir()) == []


async def test_an_engine_that_never_confirms_is_named_after_the_limit(tmp_path):
    with pytest.raises(WeightSyncError, match=r"the engine did not confirm v1 within 0\.01 s"):
        await SlotSync(Learner(), Engine("ignores"), tmp_path, timeout_s=0.01).sync(1)
    assert list(tmp_path.iterdir()) == []
