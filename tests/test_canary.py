"""`python -m trainer canary`: real processes of the tiny model, and what it says where it cannot begin."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.e2e.conftest import CONFIG, Trainer
from tests.inference.test_vllm_server import serving
from tests.inference.test_vllm_url import running
from tests.inference.vllm_tools import needs_vllm
from tests.weights.rig import settings
from trainer import canary
from trainer.errors import EXIT_CONFIG, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from trainer.export import merge
from trainer.learner import checkpoint
from trainer.learner.learner import Learner
from trainer.models import resolve_model
from trainer.rundir.checkpoints import begin_checkpoint, finish_checkpoint
from trainer.rundir.process import ProcessId, process_fields
from trainer.server_in_use import used_by

ROOT = Path(__file__).resolve().parent.parent
CODE = "weight_sync_mismatch"
NOTHING = (
    "from trainer.inference.local import LocalEngine\n"
    "async def load(self, path, version): self.weight_version = version\n"
    "LocalEngine.load_weights = load"
)
OTHER = (
    "from trainer.inference.local import LocalEngine\nfrom pathlib import Path\nright = LocalEngine.load_weights\n"
    "async def load(self, path, version): await right(self, Path({path!r}), version)\n"
    "LocalEngine.load_weights = load"
)


def write(folder: Path, mode: str, seed: int, noise: float = 1e-6, change: float = 5e-3) -> Path:
    """A checkpoint of the tiny model with random changes, as a run leaves it; beside it what a sync of it writes."""
    learner = Learner(settings(resolve_model("builtin:tiny"), mode, "float32"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in learner.trainable.values():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * change)
    learner.policy.refresh()
    learner.policy.export(folder / f"synced-{seed}")
    aside = begin_checkpoint(folder, seed)
    array = base64.b64encode(np.zeros((1, 1), "<f4").tobytes()).decode()
    reading = {"shape": [1, 1], "tokens": array, "engine": array, "learner": array}
    checkpoint.write(learner, aside, {"canary": {"replicas": [{"noise": noise, **reading}]}}, optimizer=False)
    manifest = {"job_id": "rl_1", "step": seed, "iteration": seed, "attempt": 1, "trainer_mode": mode, "world_size": 1}
    manifest |= {"base_model": {"name": "builtin:tiny"}, "reward": {"train": 0.5}, "is_best": False}
    return finish_checkpoint(aside, folder / f"step_{seed}", manifest).path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG.replace('trainer_mode = "full"', 'trainer_mode = "lora"'))
    return path


def start(config: Path, *words: object, first: str = "") -> subprocess.Popen:
    """`first`: a fault."""
    (temporary := config.parent / "temporary").mkdir(exist_ok=True)
    program = f"{first}\nimport runpy\nrunpy.run_module('trainer', run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", program, "canary", str(config), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
    )


def command(*words: object, first: str = "") -> tuple[int, dict, str]:
    """Exit code, the last line, and the words."""
    done = start(*words, first=first)
    out, err = done.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    assert "Traceback" not in err and lines, err
    assert {line["type"] for line in lines[:-1]} <= {"progress", "ready"}
    return done.returncode, lines[-1], err


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lora", "full"])
def test_the_weights_of_a_checkpoint_are_verified(tmp_path, config, mode):
    path = write(tmp_path, mode, 3)
    code, told, words = command(config, "--checkpoint", path, "--set", f"policy.trainer_mode={mode}")
    assert (code, told["type"], told["verified"]) == (EXIT_OK, "result", True), words
    assert 0.99 < told["slope"] < 1.01 and told["residual"] < 3 * told["noise"] < 1e-4
    assert told["checkpoint"] == str(path) and f"runs the weights of {path}" in words
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_of_a_run_it_is_the_newest(tmp_path):
    """By the run's own config, with what was set then."""
    run = Trainer(tmp_path).run("policy.trainer_mode=lora", "checkpoint.every_n_iters=1", "training.learning_rate=1e-2")
    assert run.code == 0, run.stderr
    code, told, words = command(run.run_dir)
    assert (code, told["verified"], told["resent"]) == (EXIT_OK, True, False), words
    assert told["checkpoint"] == str(run.run_dir / "checkpoints" / "step_2")


@pytest.mark.slow
@pytest.mark.parametrize("served", ["the start weights", "another checkpoint"])
def test_other_weights_in_their_place_are_refused(tmp_path, config, served):
    path = write(tmp_path, "lora", 3)
    write(tmp_path, "lora", 4)
    fault = NOTHING if served == "the start weights" else OTHER.format(path=str(tmp_path / "synced-4"))
    code, told, words = command(config, "--checkpoint", path, first=fault)
    assert (code, told["type"], told["code"], told["verified"]) == (EXIT_FAILED, "error", CODE, False), words
    assert "does not run the weights" in told["message"] and "training.weight_sync.mode" in told["hint"]
    assert told["residual"] > 3 * told["noise"] or not 0.7 < told["slope"] < 1.3


@pytest.mark.slow
def test_what_is_too_near_to_its_beginning_is_not_verified(tmp_path, config):
    path = write(tmp_path, "lora", 3, change=1e-9)
    code, told, words = command(config, "--checkpoint", path)
    assert (code, told["type"], told["verified"]) == (canary.EXIT_UNDECIDED, "result", "undecided"), words
    assert "NOT VERIFIED" in words and "the engine runs" not in words.replace("if the engine runs", "")


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-6, None], ids=["measured", "unknown"])
@pytest.mark.parametrize("served", [[], ["--served-as", "mine"]], ids=["sent", "served"])
async def test_a_server_that_answers_the_same_to_everything_is_refused(tmp_path, config, served, noise):
    path = write(tmp_path, "lora", 3, noise=float("nan") if noise is None else noise)
    async with serving() as server:
        words = ["--checkpoint", path, "--set", f"inference.url={server.url}", "--set", "vllm.max_model_len=512"]
        code, told, _ = await asyncio.to_thread(command, config, *words, *served)
    assert (code, told["code"], told["verified"]) == (EXIT_FAILED, CODE, False)
    assert "does not run builtin:tiny in float32" in told["message"] and 0.1 < told["noise"] < 1
    if served:
        assert set(server.calls) == {"/inference/v1/generate"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("garbage", "engine_failed"),
        ("[1]", "engine_failed"),
        ('{"error": {"code": "abc", "message": "boo"}}', "engine_failed"),
        (999_999, CODE),  # a token that the model does not have
    ],
    ids=str,
)
async def test_what_a_server_sends_is_its_own_fault(tmp_path, config, event, expected, monkeypatch):
    path = write(tmp_path, "lora", 3)

    async def stream(_):
        yield f"data: {event}\n\n"

    async with serving() as server:
        right = server.stream
        # the first call is the one of the start, which asks for no likeliest tokens
        server.stream = lambda sampling: (stream if sampling["logprobs"] else right)(sampling)
        if isinstance(event, int):
            server.top, server.stream = {event: -1.0, 7: -1.5}, right
        words = ["--checkpoint", path, "--set", f"inference.url={server.url}", "--set", "vllm.max_model_len=512"]
        code, told, _ = await asyncio.to_thread(command, config, *words)
    assert (code, told["code"]) == (EXIT_FAILED, expected), told


def test_what_a_killed_one_leaves_is_removed_by_the_next(tmp_path, config):
    path, left = write(tmp_path, "lora", 3), []
    for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
        process = start(config, "--checkpoint", path)
        while "load builtin:tiny" not in process.stdout.readline():
            pass
        end(process)
        process.communicate()
        left.append(len(list((tmp_path / "temporary").iterdir())))
    assert left == [1, 0]


def test_a_signal_ends_it_and_leaves_nothing(tmp_path, config):
    process = start(config, "--checkpoint", write(tmp_path, "lora", 3))
    while "load builtin:tiny" not in process.stdout.readline():
        pass
    process.terminate()
    assert process.wait(60) == EXIT_INTERRUPTED and "Traceback" not in process.stderr.read()
    assert list((tmp_path / "temporary").iterdir()) == []


@needs_vllm
@pytest.mark.slow
def test_a_server_that_has_the_weights_is_asked_and_sent_nothing(tmp_path, config):
    """An adapter beside its base, then the merged model alone; each against its own checkpoint and against another."""
    mine, other = (write(tmp_path, "lora", seed, noise=1e-5) for seed in (3, 4))
    tiny = resolve_model("builtin:tiny").path
    merge(mine, tiny, tmp_path / "merged")
    plain = ["--logprobs-mode", "processed_logprobs"]
    adapter = [*plain, "--enable-lora", "--max-lora-rank", "16", "--lora-modules", f"mine={mine}"]
    cases = ((tiny, adapter), (tmp_path / "merged", [*plain, "--served-model-name", "mine"]))
    for model, options in cases:
        with running(model, tmp_path / "log", {}, options) as url:
            ask = [config, "--served-as", "mine", "--set", f"inference.url={url}", "--checkpoint"]
            code, told, words = command(*ask, mine)
            assert (code, told.get("verified")) == (EXIT_OK, True), words
            code, told, words = command(*ask, other)
            assert (code, told.get("code")) == (EXIT_FAILED, CODE), words


def refused(capsys, *words: object) -> dict:
    """In this process: what cannot begin starts none."""
    import argparse

    parser = argparse.ArgumentParser()
    canary.add_arguments(parser)
    code = canary.main(parser.parse_args([*map(str, words)]))
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == EXIT_CONFIG and told["type"] == "error" and told["hint"]
    return told


def test_what_cannot_begin_is_told_in_words(tmp_path, config, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no folder of a run" in refused(capsys, config)["message"]
    none = refused(capsys, tmp_path)
    assert "holds no run" in none["message"] and "the folder of a run" in none["hint"]
    gone = refused(capsys, config, "--checkpoint", "nowhere")
    assert gone["code"] == "source_not_found" and gone["message"] == "the folder nowhere does not exist"
    assert "inference.url" in refused(capsys, config, "--served-as", "x", "--checkpoint", "c")["message"]
    assert refused(capsys, tmp_path / "none.toml", "--checkpoint", "c")["code"] == "config"


def test_an_adapter_of_another_rank_and_a_sync_that_is_off_are_told(tmp_path, config, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, "lora", 3)
    told = refused(capsys, config, "--checkpoint", path, "--set", "training.lora.r=4")
    assert "training.lora.r is 4, not 16" in told["message"] and "--set training.lora.r=16" in told["hint"]
    told = refused(capsys, config, "--checkpoint", path, "--set", "training.weight_sync.enable=false")
    assert "weight_sync is off" in told["message"]


def test_full_weights_and_an_adapter_s_config_do_not_meet(tmp_path, config, capsys):
    told = refused(capsys, config, "--checkpoint", write(tmp_path, "full", 3))
    assert told["code"] == "config" and "holds full weights, and policy.trainer_mode is lora" in told["message"]
    assert told["hint"] == "--set policy.trainer_mode=full"
    full = ["--set", "policy.trainer_mode=full"]
    told = refused(capsys, config, "--checkpoint", write(tmp_path, "lora", 4), *full)
    assert "holds an adapter" in told["message"] and "trainer_mode is full" in told["message"]


URL = "http://127.0.0.1:8000"


def run_at(folder: Path, url: str | None = URL, **status: object) -> Path:
    """A run's folder, as far as it says who uses which server."""
    folder.mkdir(parents=True)
    leaf = {"value": url, "origin": "file"}
    (folder / "resolved.json").write_text(json.dumps({"values": {"inference": {"url": leaf}}}))
    (folder / "status.json").write_text(json.dumps({"state": "training", **status}))
    return folder


HERE = process_fields(ProcessId.current())
GONE = {**HERE, "start_time": 1}
ELSEWHERE = {**HERE, "host": "another"}


@pytest.mark.parametrize(
    ("url", "status", "silent_s", "lives"),
    [
        (URL, HERE, 600, True),
        ("http://user:key@localhost:8000/v1/", HERE, 0, True),
        (URL, ELSEWHERE, 0, True),
        (URL, ELSEWHERE, 600, False),
        ("http://127.0.0.1:8001", HERE, 0, False),
        ("http://elsewhere:8000", HERE, 0, False),
        (None, HERE, 0, False),
        (URL, GONE, 0, False),
        (URL, {**HERE, "state": "succeeded"}, 0, False),
    ],
)
def test_whether_a_run_lives_on_a_server(tmp_path, url, status, silent_s, lives):
    run = run_at(tmp_path / "run", url, heartbeat=time.time() - silent_s, **status)
    assert used_by(URL, [tmp_path / "nothing", run]) == (run if lives else None)


def test_a_server_that_a_run_lives_on_is_sent_nothing(tmp_path, config, capsys):
    live = run_at(tmp_path / "runs" / "live", **HERE)
    path = write(tmp_path, "lora", 3)
    words = ["--checkpoint", path, "--set", f"inference.url={URL}", "--set", f"logging.runs_dir={tmp_path / 'runs'}"]
    told = refused(capsys, config, *words)
    assert told["code"] == "config" and f"the run in {live} lives" in told["message"]
    assert "--served-as" in told["hint"]
