"""The transport between a learner and engines of each kind: one that takes an update, refuses it, ignores it."""

import asyncio

import pytest

from trainer.inference.engine import EngineError
from trainer.learner.client import SyncResult
from trainer.weights.base import WeightSyncError
from trainer.weights.lora import LoraSync
from trainer.weights.slots import SlotSync


class Learner:
    async def sync(self, path, version, mode="full"):
        path.mkdir(parents=True)
        (path / f"{mode}.safetensors").write_bytes(b"v%d" % version)
        return SyncResult(bytes=2, seconds=0.0, rounding_gap=0.25)


class Engine:
    """`answer`: takes, refuses or ignores what it is given."""

    def __init__(self, answer="takes", url=""):
        self.url, self.answer, self.served, self.serving_versions = url, answer, [], frozenset()
        self.sees = True

    async def check_shared(self, folder):
        if not self.sees:
            raise EngineError(f"it does not see {folder}")

    async def load_weights(self, path, version):
        if self.answer == "refuses":
            raise EngineError("a tensor has another shape")
        if self.answer == "ignores":
            await asyncio.Event().wait()
        file = next(path.glob("*.safetensors"))
        self.served.append((path.name, file.name, file.read_bytes()))
        self.serving_versions = frozenset({version})


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_versions_alternate_between_two_slots_and_the_one_in_use_stays(tmp_path):
    engine, kept = Engine(), []
    sync = SlotSync(Learner(), engine, tmp_path)
    reports = []
    for version in (1, 2, 3):
        reports.append(await sync.sync(version))
        kept.append(names(tmp_path))
    assert [(slot, data) for slot, _, data in engine.served] == [
        ("slot_1", b"v1"),
        ("slot_0", b"v2"),
        ("slot_1", b"v3"),
    ]
    assert [(r.version, r.bytes, r.mode, r.rounding_gap) for r in reports] == [(v, 2, "full", 0.25) for v in (1, 2, 3)]
    assert kept == [["slot_1"], ["slot_0"], ["slot_1"]]  # an engine that is started again reads it
    sync.close()
    assert names(tmp_path) == []


async def test_a_refused_update_says_why_and_the_slot_in_use_stays(tmp_path):
    engine = Engine()
    sync = SlotSync(Learner(), engine, tmp_path)
    await sync.sync(1)
    engine.answer = "refuses"
    for version in (2, 2, 3):  # whatever is tried again
        with pytest.raises(EngineError, match="another shape"):
            await sync.sync(version)
        assert names(tmp_path) == ["slot_1"]
    engine.answer = "takes"
    await sync.sync(3)
    assert names(tmp_path) == ["slot_0"]


async def test_only_a_server_that_is_not_ours_gets_the_start_weights(tmp_path):
    """It may hold those of an earlier run."""
    for url, expected in (("", []), ("http://10.0.0.1:8000", [("slot_1", "full.safetensors", b"v0")])):
        engine = Engine(url=url)
        sync = SlotSync(Learner(), engine, tmp_path)
        await sync.start(0)
        assert engine.served == expected
    await sync.sync(1)
    assert engine.served[-1] == ("slot_0", "full.safetensors", b"v1") and names(tmp_path) == ["slot_0"]


async def test_a_server_on_another_file_system_is_sent_nothing(tmp_path):
    engine = Engine(url="http://10.0.0.1:8000")
    engine.sees = False
    with pytest.raises(EngineError, match="does not see"):
        await SlotSync(Learner(), engine, tmp_path).sync(4)  # of a resumed run, too
    assert engine.served == [] and names(tmp_path) == []
    engine.answer = "refuses"
    with pytest.raises(EngineError, match=f"shape; the server must see {tmp_path} under that path"):
        await LoraSync(Learner(), engine, tmp_path).start(0)


async def test_an_engine_that_never_confirms_is_named_after_the_limit(tmp_path):
    with pytest.raises(WeightSyncError, match=r"the engine did not confirm v1 within 0\.01 s"):
        await SlotSync(Learner(), Engine("ignores"), tmp_path, timeout_s=0.01).sync(1)
    assert list(tmp_path.iterdir()) == []


async def test_adapters_have_a_folder_per_version_that_stays_while_a_call_uses_it(tmp_path):
    engine = Engine()
    sync = LoraSync(Learner(), engine, tmp_path)
    await sync.start(0)
    report = await sync.sync(1)
    assert engine.served == [("v000000", "lora.safetensors", b"v0"), ("v000001", "lora.safetensors", b"v1")]
    assert (report.mode, report.rounding_gap) == ("lora", 0.0)
    assert names(tmp_path) == ["v000001"]
    engine.load_weights = load_beside(engine)
    await sync.sync(2)
    assert names(tmp_path) == ["v000001", "v000002"]
    engine.answer = "refuses"
    with pytest.raises(EngineError):
        await sync.sync(3)
    assert names(tmp_path) == ["v000001", "v000002"]
    sync.close()
    assert names(tmp_path) == []


async def test_an_adapter_that_is_sent_again_leaves_the_one_in_use_until_it_is_confirmed(tmp_path):
    """A server that ends in between has to start with something."""
    engine = Engine()
    sync = LoraSync(Learner(), engine, tmp_path)
    await sync.sync(7)
    engine.answer = "refuses"
    with pytest.raises(EngineError):
        await sync.sync(7)
    assert names(tmp_path) == ["v000007"]
    engine.answer = "takes"
    for name in ("v000007r", "v000007"):
        await sync.sync(7)
        assert names(tmp_path) == [name] == [engine.served[-1][0]]
    await sync.sync(8)
    assert names(tmp_path) == ["v000008"]


def load_beside(engine):
    """As under versioned names, while calls of the earlier version run."""

    async def load(path, version):
        if engine.answer == "refuses":
            raise EngineError("no")
        engine.serving_versions |= {version}

    return load
