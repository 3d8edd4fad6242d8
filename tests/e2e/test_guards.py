"""Guards of a run, each against a planted fault: it is on record, and the run goes on or ends with its cause.

Those that are slow have a fast one beside them: tests/sim for waits and outages, tests/learner for skipped steps,
tests/inference for restarts.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import APP
from tests.e2e.test_faults import check, wait_for
from tests.inference.stand_in import FAULTS, MISSING

KEY = "the-key-of-the-app"
# Rewards too large for a norm of gradients are left out of training; here they get through to the learner.
ANY_REWARD = "import trainer.rewards.episode\ntrainer.rewards.episode.LARGEST = float('inf')"


def events(run, type_: str) -> list[dict]:
    return [event for event in run.lines("events.jsonl") if event["type"] == type_]


class App:
    """The digit app as a process of its own that can be ended and started again at the same port."""

    def __init__(self) -> None:
        self.env, self.port = {"ENVIRONMENT_API_KEY": KEY}, 0  # the first time any that is free

    def start(self) -> None:
        command = [sys.executable, "-m", "trainer.taskapp", "serve", str(APP), "--host", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.PIPE, env={**os.environ, **self.env}, text=True
        )
        ready = json.loads(self.process.stdout.readline())
        assert ready["type"] == "ready"
        self.url = ready["url"]
        self.port = urlsplit(self.url).port

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def app():
    app = App()
    app.start()
    yield app
    app.end()


@pytest.mark.slow
def test_a_task_app_that_is_down_for_a_while_is_waited_for_and_costs_no_episode(trainer, app):
    process, run_dir = trainer.start(
        f"services.task_url={app.url}", "training.iterations_per_epoch=20", "rollout.max_excluded_fraction=0",
        "evaluation.instances=1", env=app.env,
    )  # fmt: skip
    wait_for(run_dir, lambda status: status and status["step"] >= 2)
    app.end()
    status = wait_for(run_dir, lambda status: status["phase"] == "waiting")
    assert (status["state"], status["waiting"]["for"]) == ("running", "task_app")
    assert "the task app is down: task app answered nothing (connection" in status["waiting"]["on"]
    step = status["step"]
    app.start()
    wait_for(run_dir, lambda status: status["phase"] == "training" and status["step"] > step)
    run = trainer.finish(process, run_dir)
    status = check(run, code=0, state="succeeded", says="")
    assert status["results"]["excluded"] == {} and status["iteration"] == 20
    (began,), (ended,) = events(run, "rl.pipeline.backpressure"), events(run, "rl.pipeline.resume")
    assert "task_app" in began["message"] and ended["data"]["seconds"] > 0


@pytest.mark.slow
def test_a_task_app_that_does_not_come_back_ends_the_run_with_its_cause_and_a_checkpoint(trainer, app):
    process, run_dir = trainer.start(
        f"services.task_url={app.url}", "training.iterations_per_epoch=500", "rollout.timeout_s=2",
        "evaluation.instances=1", env=app.env, first="import trainer.outage\ntrainer.outage.LEAST_S = 2.0",
    )  # fmt: skip
    wait_for(run_dir, lambda status: status and status["step"] >= 2)
    app.end()
    run = trainer.finish(process, run_dir)
    status = check(run, code=3, state="failed", says="the task app did not come back within 2 s")
    assert status["error"]["code"] == "task_app_down" and "--resume" in status["error"]["hint"]
    assert status["last_checkpoint"]["step"] == status["step"] >= 2
    assert events(run, "rl.pipeline.backpressure")


@pytest.mark.slow
def test_a_run_in_which_nothing_moves_says_who_waits_for_what(trainer):
    process, run_dir = trainer.start(
        env={"DIGIT_APP_FAULT": "hang"}, first="import trainer.waiting\ntrainer.waiting.STALL_S = 1.0"
    )
    status = wait_for(run_dir, lambda status: status and status["phase"] == "waiting")
    assert status["waiting"]["for"] == "eval" and time.time() - status["waiting"]["since"] >= 1.0
    process.send_signal(signal.SIGTERM)
    run = trainer.finish(process, run_dir)
    check(run, code=130, state="cancelled", says="")
    (told,) = events(run, "rl.pipeline.backpressure")
    assert told["level"] == "warning" and told["data"]["seconds"] > 1.0
    assert "learner waited" in told["message"] and "for task_app: 4 task app replies" in told["message"]


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_skips_its_step_and_names_the_episodes(trainer):
    run = trainer.finish(
        *trainer.start(
            "training.advantage_std=false", "evaluation.instances=1", env={"DIGIT_APP_FAULT": "huge-once"},
            first=ANY_REWARD,
        )
    )  # fmt: skip
    status = check(run, code=0, state="succeeded", says="")
    steps = [line for line in run.lines("metrics.jsonl") if "optim/skipped" in line]
    assert [line["optim/skipped"] for line in steps] == [1.0, 0.0]
    (warned,) = [event for event in events(run, "rl.warning") if event["data"]["code"] == "step_skipped"]
    rows = {row["cid"]: row for row in run.lines("rollouts/index.jsonl")}
    (entry,) = [entry for entry in status["warnings"] if entry["code"] == "step_skipped"]
    assert entry["text"] == warned["message"] and "is not finite" in entry["text"]
    named = [row for cid, row in rows.items() if cid in warned["message"]]
    assert named and {row["iteration"] for row in named} == {1}
    masks = [line for line in run.lines("rollouts/updates.jsonl") if line["kind"] == "mask"]
    assert {line["excl"] for line in masks} == {"step_skipped"} and {line["step"] for line in masks} == {1}
    uses = [line for line in run.lines("rollouts/updates.jsonl") if line["kind"] == "use"]
    assert {line["step"] for line in uses} == {2}


@pytest.mark.slow
def test_three_steps_in_a_row_without_an_update_end_the_run(trainer):
    run = trainer.finish(
        *trainer.start(
            "training.advantage_std=false", "training.iterations_per_epoch=9", "evaluation.instances=1",
            env={"DIGIT_APP_FAULT": "huge"}, first=ANY_REWARD,
        )
    )  # fmt: skip
    status = check(run, code=3, state="failed", says="3 steps in a row made no update: a gradient is not finite")
    assert status["step"] == 2 and status["weight_updates"] <= 2
    codes = [event["data"].get("code") for event in events(run, "rl.warning")]
    assert codes.count("step_skipped") == 2


@pytest.mark.slow
def test_an_engine_that_is_killed_is_started_again_and_its_episodes_are_played_again(trainer, tmp_path):
    """The stand-in for vLLM, in a process of its own, which a call of the second iteration kills."""
    faults = tmp_path / "faults"
    faults.mkdir()
    process, run_dir = trainer.start(
        "inference.engine=vllm", "policy.trainer_mode=lora", "training.weight_sync.mode=full",
        "training.weight_sync.verify_every_k=0", "training.iterations_per_epoch=8", "evaluation.instances=1",
        env={
            FAULTS: str(faults), MISSING: "/v1/chat/completions/render /v1/chat/completions/derender",
            "PYTHONPATH": str(Path(__file__).parents[2]),  # the engine runs in a folder of its own
        },
        first="from trainer.inference.vllm import process\nimport trainer.inference.choose\n"
        "import trainer.services\n"
        "process.SERVER = 'tests.inference.stand_in'\n"
        "process.is_installed = trainer.services.is_installed = trainer.inference.choose.is_installed = lambda: True",
    )  # fmt: skip
    wait_for(run_dir, lambda status: status and status["step"] >= 1)
    (faults / "SIGKILL-of-inference_v1_generate").touch()
    run = trainer.finish(process, run_dir)
    status = check(run, code=0, state="succeeded", says="")
    assert status["iteration"] == 8
    told = [event["message"] for event in events(run, "rl.warning") if event["data"]["code"] == "engine"]
    assert any("vLLM was killed (signal 9)" in text and "started again" in text for text in told)
