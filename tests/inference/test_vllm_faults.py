"""A server of ours that dies or hangs: a small stand-in for vLLM, in a process of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.inference import stand_in
from tests.inference.conftest import write_update
from tests.inference.vllm_tools import complete, vllm_engine
from trainer.inference.engine import EngineError
from trainer.inference.vllm import hang, process, restarts
from trainer.inference.vllm.hang import SILENT_S, Progress


@pytest.fixture
def faults(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv(stand_in.FAULTS, str(folder))
    monkeypatch.setattr(process, "SERVER", stand_in.__name__)
    monkeypatch.setattr(process, "is_installed", lambda: True)
    monkeypatch.setattr(restarts, "BACKOFF_S", (0.0, 0.05, 0.1))
    return folder


@pytest.fixture
async def engine(tiny, tmp_path, faults):
    engine = vllm_engine(tiny, tmp_path / "log")
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
def update(hf, tmp_path) -> Path:
    write_update(folder := tmp_path / "update", hf, ["model.norm.weight"])
    return folder


@pytest.mark.parametrize("path", ["update_weights", "pause"])
async def test_a_server_that_dies_in_an_update_is_started_again_and_updated(engine, faults, update, path):
    (faults / f"SIGKILL-of-{path}").touch()
    first = engine.pid
    await engine.load_weights(update, 1)
    assert (engine.weight_version, engine.state) == (1, "serving") and engine.pid != first
    assert any("started again at weight version 0" in note for note in engine.notes)
    assert any("killed (signal 9)" in note and "update to weight version 1" in note for note in engine.notes)
    assert (await complete(engine, [1])).tokens == [65, 66]


async def test_a_server_that_dies_in_both_tries_is_told_by_its_death(engine, faults, update):
    for number in (1, 2):
        (faults / f"SIGKILL-of-update_weights{number}").touch()
    with pytest.raises(
        EngineError, match=r"^vLLM ended twice in the update to weight version 1: vLLM was killed \(signal 9\)"
    ):
        await engine.load_weights(update, 1)
    await complete(engine, [1])  # by the server that follows
    assert engine.weight_version == 0


async def test_a_server_that_cannot_be_started_again_is_told_by_both(engine, faults, update):
    (faults / "SIGKILL-of-update_weights").touch()
    for number in range(3):
        (faults / f"SIGKILL-of-openapi.json{number}").touch()
    engine._restarts._times.extend([engine._restarts._clock()] * 2)  # two of three are used up
    with pytest.raises(
        EngineError, match=r"^vLLM ended in the update to weight version 1: vLLM was killed .*is given up"
    ):
        await engine.load_weights(update, 1)
    assert engine.ended.done() and "given up" in engine.fate


@pytest.mark.slow
async def test_a_server_that_hangs_is_ended_and_its_calls_are_asked_of_the_next(engine, faults, monkeypatch):
    monkeypatch.setattr(hang, "SILENT_S", 0.5)
    monkeypatch.setattr(hang, "PROBE_S", 3.0)
    (faults / "SIGSTOP-of-inference_v1_generate").touch()
    async with asyncio.timeout(60):
        assert (await complete(engine, [1])).tokens == [65, 66]
    assert "vLLM hung: 1 running calls brought no token" in engine.notes[0]
    assert "started again" in engine.notes[0]


def test_silence_is_suspicious_while_calls_run_and_no_earlier():
    now = 0.0
    progress = Progress(lambda: now)
    now += 10 * SILENT_S
    assert not progress.suspicious  # nothing runs
    with progress.call():
        assert not progress.suspicious  # the first call has the whole time
        now += SILENT_S - 1
        progress.arrived()
        now += SILENT_S - 1
        assert not progress.suspicious
        with progress.call():  # another one is no token
            now += 1
            assert progress.suspicious
        progress.rest()  # an update has ended
        assert not progress.suspicious
        now += SILENT_S
        assert progress.suspicious
    assert not progress.suspicious
