"""Each fault gives one clear message that says what to do, the right exit code, and loses nothing on record."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import APP, living
from tests.waiting import until
from trainer.models import resolve_model
from trainer.rundir import RunReader


def check(run, *, code: int, state: str, says: str) -> dict:
    assert run.code == code, run.stderr
    status = run.status
    assert status["state"] == state
    assert "Traceback" not in run.stderr
    assert living(run.run_dir) == []
    if state == "failed":
        assert says in f"{status['error']['message']} {status['error']['hint']}"
        assert says in run.stderr
        assert run.stdout[-1]["type"] == "error"
    return status


def test_a_task_app_that_is_down(trainer):
    quick = "import trainer.taskapp.client as client\nclient.GATE_WAITS_S = (0.1, 0.2)"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # held, so that nobody else takes it, and nobody listens
        run = trainer.finish(*trainer.start(f"services.task_url={url}", first=quick))
    check(run, code=3, state="failed", says="Start the task app, or correct services.task_url")


def test_a_task_app_that_does_not_exist(trainer):
    check(trainer.run("services.task_url=builtin:nothing"), code=2, state="failed", says="facts")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("500", "task app answered 500"),
        pytest.param("cut", "the answer is not JSON", marks=pytest.mark.slow),
        pytest.param("nan", "task app answered 500", marks=pytest.mark.slow),
    ],
)
def test_a_task_app_whose_episodes_all_fail(trainer, fault, says):
    app = [f"services.task_url={APP.with_name('cut_app.py')}"] if fault == "cut" else []
    run = trainer.run("rollout.max_retries=0", *app, env={"DIGIT_APP_FAULT": fault})
    assert "the first 8 tries all failed" in run.stderr
    check(run, code=3, state="failed", says=says)
    index = (run.run_dir / "rollouts/index.jsonl").read_text().splitlines()
    assert index and all(json.loads(line)["excl"] for line in index)


@pytest.mark.slow
def test_a_task_app_that_hangs(trainer):
    once = "import trainer.recorder\ntrainer.recorder.EXCLUDED_S = 3600.0"
    hang = ("rollout.timeout_s=1", "rollout.max_retries=0")
    run = trainer.finish(*trainer.start(*hang, env={"DIGIT_APP_FAULT": "hang"}, first=once))
    status = check(run, code=3, state="failed", says="the first 8 tries all failed")
    assert status["episodes"]["excluded"] >= 8 and status["episodes"]["running"] == 0
    (told,) = [event["message"] for event in run.lines("events.jsonl") if event["type"] == "rl.rollout.excluded"]
    assert told == "an episode was excluded: no answer within 1.0 s"


@pytest.mark.slow
def test_one_failing_try_is_played_again_and_never_becomes_reward_zero(trainer):
    run = trainer.run(env={"DIGIT_APP_FAULT": "once"})
    check(run, code=0, state="succeeded", says="")
    tries = [line["tries"] for line in run.lines("rollouts/text-00000.jsonl") if line["tries"]]
    assert [play[0]["code"] for play in tries] == ["http_error"]


def test_a_task_app_that_dies(trainer):
    run = trainer.run(env={"DIGIT_APP_FAULT": "exit"})
    check(run, code=3, state="failed", says="task app")


def test_a_model_that_does_not_exist(trainer):
    check(trainer.run("policy.model_name=/no/such/model"), code=2, state="failed", says="policy.model_name")


def test_a_start_that_was_killed_before_its_first_event_can_be_started_again(trainer):
    begun = trainer.folder / "run-1"
    begun.mkdir()
    (begun / "events.jsonl").touch()
    check(trainer.run("policy.model_name=/no/such/model"), code=2, state="failed", says="policy.model_name")


@pytest.mark.slow
def test_tools_for_a_model_without_tool_calls_end_the_run_with_one_sentence(trainer, tmp_path):
    model = tmp_path / "plain"
    shutil.copytree(resolve_model("builtin:tiny").path, model)
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>a\n"
    (model / "chat_template.jinja").write_text(template)
    run = trainer.run(f"policy.model_name={model}", env={"DIGIT_APP_FAULT": "tools"})
    check(run, code=2, state="failed", says="set vllm.tool_call_parser to hermes, llama-json or qwen")
    assert run.status["error"]["code"] == "no_tool_parser" and "8 tries" not in run.stderr
    assert "400 no_tool_parser" in (run.run_dir / "logs/gateway.log").read_text()


def test_a_port_that_is_taken(trainer):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run = trainer.run(f"inference.gateway_port={taken.getsockname()[1]}")
    check(run, code=2, state="failed", says="inference.gateway_port")


def test_values_that_this_version_cannot_carry_out_are_refused_by_name(trainer):
    process, run_dir = trainer.start("policy.trainer_mode=qlora")
    _, words = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "policy.trainer_mode" in words and "Traceback" not in words
    assert not run_dir.exists()  # nothing was started, so there is nothing to read later


@pytest.mark.slow
def test_a_second_run_on_the_folder_is_refused_and_ctrl_c_ends_the_first_cleanly_with_a_checkpoint(trainer):
    process, run_dir = trainer.start("training.iterations_per_epoch=500")
    wait_for(run_dir, lambda status: status and status["step"] >= 2)
    second = subprocess.run(
        [*process.args[: process.args.index("--run-dir")], "--run-dir", str(run_dir)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 2 and str(process.pid) in second.stderr
    process.send_signal(signal.SIGINT)
    run = trainer.finish(process, run_dir)
    status = check(run, code=130, state="cancelled", says="")
    assert status["end_reason"] == "stopped" and run.stdout[-1]["state"] == "cancelled"
    assert (run_dir / "checkpoints" / f"step_{status['step']}" / "STABLE").is_file()
    assert run.lines("events.jsonl")[-1]["type"] == "rl.job.cancelled"


def test_ctrl_c_while_the_program_still_loads_leaves_no_traceback():
    """The interrupt meets the import, inside the exec() of a dataclass or a named tuple."""
    code = (
        "import runpy, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'trainer.run':\n"
        "            exec('signal.raise_signal(signal.SIGINT)', globals())\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "runpy.run_module('trainer', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "interrupted before the run began\n")


def test_a_stop_while_it_starts_ends_at_once(trainer):
    process, run_dir = trainer.start()
    wait_for(run_dir, lambda status: status is not None)
    process.send_signal(signal.SIGTERM)
    check(trainer.finish(process, run_dir), code=130, state="cancelled", says="")


@pytest.mark.slow  # tests/e2e/test_resume.py kills a coordinator, too, and looks for its children
def test_a_killed_coordinator_takes_its_children_along(trainer):
    process, run_dir = trainer.start("training.iterations_per_epoch=500")
    wait_for(run_dir, lambda status: status and status["step"] >= 1)
    process.kill()
    process.wait()
    until(lambda: living(run_dir) == [])
    for line in (run_dir / "metrics.jsonl").read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize("role", ["learner", "inference", "taskapp"])
def test_a_child_that_is_killed_ends_the_run_with_its_name_and_how_and_what_is_left_to_do(trainer, role):
    first = "import trainer.inference.vllm.restarts as restarts\nrestarts.BACKOFF_S = ()"  # or the engine comes back
    process, run_dir = trainer.start("training.iterations_per_epoch=500", "checkpoint.every_n_iters=1", first=first)
    status = wait_for(run_dir, lambda status: status and status["last_checkpoint"] and status["children"])
    pid = next(child["pid"] for child in status["children"] if child["role"] == role)
    os.kill(pid, signal.SIGKILL)
    name = {"learner": "learner", "inference": "engine", "taskapp": "task app"}[role]
    run = trainer.finish(process, run_dir)
    check(run, code=3, state="failed", says=name)
    error = run.status["error"]
    assert "(killed by signal 9)" in error["message"], error
    assert "if nobody killed it, memory may have run out" in error["message"] + error["hint"]
    assert "rltui train --resume" in error["hint"]


def test_a_task_app_that_is_killed_while_it_starts_is_told_with_how_it_ended(trainer):
    app = trainer.folder / "short_lived.py"
    app.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    run = trainer.run(f"services.task_url={app}")
    check(run, code=3, state="failed", says="ended while starting (killed by signal 9)")
    assert "memory may have run out" in run.status["error"]["hint"]


def test_an_engine_that_is_killed_while_it_loads_is_told_with_how_it_ended(trainer):
    dies = "lambda *_: ['-c', 'import os; os.kill(os.getpid(), 9)']"
    first = f"import trainer.inference.local as local\nlocal.LocalEngine._words = {dies}"
    run = trainer.finish(*trainer.start(first=first))
    check(run, code=3, state="failed", says="could not load builtin:tiny: the local engine process ended (killed by")


def test_a_local_engine_that_is_killed_is_started_again_and_the_run_goes_on(trainer):
    process, run_dir = trainer.start("training.iterations_per_epoch=6")
    status = wait_for(run_dir, lambda status: status and status["step"] >= 2 and status["children"])
    os.kill(next(child["pid"] for child in status["children"] if child["role"] == "inference"), signal.SIGKILL)
    run = trainer.finish(process, run_dir)
    check(run, code=0, state="succeeded", says="")
    told = [event["message"] for event in run.lines("events.jsonl") if event["type"] == "rl.warning"]
    assert any("killed by signal 9" in text and "it is started again at weight version" in text for text in told), told


def test_a_learner_that_hangs_does_not_hold_up_a_stop(trainer):
    soon = "import trainer.waiting as waiting\nwaiting.WHILE_ENDING, waiting.SLICE_S = (1.0, 0.0, 1.0), 0.2"
    process, run_dir = trainer.start("training.iterations_per_epoch=500", first=soon)
    status = wait_for(run_dir, lambda status: status and status["step"] >= 2 and status["children"])
    pid = next(child["pid"] for child in status["children"] if child["role"] == "learner")
    os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    run = trainer.finish(process, run_dir)
    check(run, code=3, state="failed", says=f"learner process {pid}, logs/learner-0.log")
    assert "the learner did not give" in run.status["error"]["message"]


def test_a_full_disk_pauses_the_run_and_room_lets_it_go_on(trainer, tmp_path):
    """A file system of 4 MB: the weights of the model do not fit. When it has grown, the run goes on by itself."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        trainer.folder = disk
        process, run_dir = trainer.start("evaluation.instances=1")
        status = wait_for(run_dir, lambda status: status and status["state"] == "paused")
        assert (status["phase"], status["paused"]["reason"]) == ("paused", "disk_full")
        assert json.loads((run_dir / "status.json").read_text())["beat"] >= status["beat"] and process.poll() is None
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        run = trainer.finish(process, run_dir)
        assert run.code == 0, run.stderr
        phases = [event["data"].get("reason") for event in run.lines("events.jsonl") if event["type"] == "rl.phase"]
        assert phases.count("disk_full") == 1
        assert run.status["results"]["episodes"] == 16 and run.status["paused"] is None
        reader = RunReader(run_dir)
        assert reader.damaged == [] and reader.episode_count() == 16 + 2
        assert [event["seq"] for event in reader.events()] == list(range(1, len(reader.events()) + 1))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def wait_for(run_dir, ready, timeout=180):
    """The status document once `ready(status or None)` holds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            status = json.loads((run_dir / "status.json").read_text())
        except FileNotFoundError:
            status = None
        if ready(status):
            return status
        time.sleep(0.1)
    raise AssertionError(f"not reached in {timeout} s: {status}")
