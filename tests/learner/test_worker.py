"""A real subprocess over a real socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.learner.conftest import make_groups
from trainer.frames import SCHEMA, BlockingChannel
from trainer.learner import answers, protocol


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[BlockingChannel, subprocess.Popen[str]]]:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        server.settimeout(300)
        child = subprocess.Popen(
            [sys.executable, "-m", "trainer.learner", "--socket", path, "--threads", "1"],
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = server.accept()
            connection.settimeout(300)
            yield BlockingChannel(connection), child
        finally:
            child.kill()
            child.communicate()


def ask(channel: BlockingChannel, type_: str, **fields):
    channel.send({"type": type_, "id": 5, **fields})
    reply = channel.receive()
    assert reply is not None and reply["id"] == 5
    return reply


def test_a_whole_conversation(process, settings, tmp_path: Path) -> None:
    channel, child = process
    assert "before 'hello'" in ask(channel, "sync", path="x", version=1)["message"]
    refused = ask(channel, "hello", schema=SCHEMA + 1, settings={})
    assert refused["fatal"] and str(SCHEMA + 1) in refused["message"]
    hello = ask(channel, "hello", schema=SCHEMA, settings=protocol.to_frame(settings()))
    info = protocol.from_frame(hello["info"], protocol.LearnerInfo)
    assert hello["type"] == "hello" and info.step == 0 and 0 < info.trainable < info.parameters

    frames = [protocol.to_frame(s) for s in make_groups()]
    reply = ask(channel, "batch", step=1, sequences=frames)
    result = protocol.from_frame(reply["result"], protocol.StepResult)
    assert result.step == 1 and len(result.sequences) == len(frames) and result.skipped is None

    synced = ask(channel, "sync", path=str(tmp_path / "slot_1"), version=1)["result"]
    assert synced["bytes"] == (tmp_path / "slot_1" / "model.safetensors").stat().st_size
    assert load_file(tmp_path / "slot_1" / "model.safetensors")
    adapter = ask(channel, "sync", path=str(tmp_path / "v1"), version=1, mode="lora")["result"]
    assert adapter["bytes"] == (tmp_path / "v1" / "adapter_model.safetensors").stat().st_size
    assert (tmp_path / "v1" / "adapter_config.json").is_file() and adapter["rounding_gap"] == 0.0
    written = ask(channel, "checkpoint", path=str(tmp_path / "c"), state={"step": 1}, manifest={}, optimizer=True)
    assert written["result"]["bytes"] > 0 and (tmp_path / "c" / "state.json").is_file()

    assert ask(channel, "set", values={"learning_rate": 0.25})["type"] == "result"
    broken = ask(channel, "batch", step=2, sequences=[{**frames[0], "mask": b""}])
    assert broken["type"] == "error" and "episode 0" in broken["message"]
    reply = ask(channel, "batch", step=2, sequences=frames)
    assert reply["result"]["metrics"]["optim/lr"] == 0.25

    assert ask(channel, "stop")["type"] == "result"
    assert child.wait(60) == 0
    assert "Traceback" not in child.stderr.read()


def test_it_ends_with_its_coordinator(process) -> None:
    channel, child = process
    channel.close()
    assert child.wait(60) == 0


def test_no_coordinator_is_one_sentence(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "trainer.learner", "--socket", str(tmp_path / "none")],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 3 and result.stderr.count("\n") == 1 and "cannot reach" in result.stderr


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (MemoryError(), "ran out of memory", "training.micro_batch_tokens"),
        (torch.OutOfMemoryError("CUDA out of memory"), "ran out of memory", "training.micro_batch_tokens"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
            "ran out of",
            "micro_batch",
        ),
        (OSError(28, "No space left on device", "/r/w"), "no space left on the disk at /r/w", "free some space"),
        (OSError(30, "Read-only file system", "/r/w"), "Read-only file system (/r/w)", "--resume"),
        (KeyError("x"), "KeyError", "learner-0.log"),
    ],
)
def test_errors_say_what_to_do(error: Exception, message: str, hint: str) -> None:
    frame = answers.describe(error)
    assert message in frame["message"] and hint in frame["hint"] and frame["fatal"]
