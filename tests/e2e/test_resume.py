"""A run that was ended in any way goes on as if nothing had happened, or says why it cannot."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Trainer, living
from tests.e2e.test_faults import wait_for
from tests.waiting import until
from trainer.models import resolve_model
from trainer.rundir import RunReader, verify_checkpoint

EXACT = (
    "training.deterministic=true",
    "training.iterations_per_epoch=6",
    "training.lr_schedule=cosine",
    "policy.trainer_mode=lora",
    "checkpoint.every_n_iters=2",
    "evaluation.every_n_iters=2",
    "training.batch_size=4",  # two updates an iteration
)
KILLED_AFTER_THE_LAST_CHECKPOINT = """
import os, signal
from trainer.saving import CheckpointSaver as Saver
save = Saver.save
async def save_and_die(self, **what):
    await save(self, **what)
    if what["iteration"] == 6:
        os.kill(os.getpid(), signal.SIGKILL)
Saver.save = save_and_die
"""
KILLED_WITHIN_AN_ITERATION = """
import os, signal
from trainer.recorder import Recorder
step_done = Recorder.step_done
def step_done_and_die(self, result, *args, **options):
    step_done(self, result, *args, **options)
    if result.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
Recorder.step_done = step_done_and_die
"""
STOPPED_IN_THE_LAST_EVALUATION = """
import os, signal
from trainer.evaluation import Evaluator
begin = Evaluator.begin
async def begin_and_stop(self, iteration):
    await begin(self, iteration)
    if iteration == 2:
        os.kill(os.getpid(), signal.SIGTERM)
Evaluator.begin = begin_and_stop
"""
KILLED_ONCE_A_FOLDER_IS_RENAMED = """
import os, signal
rename = os.rename
def rename_and_die(source, target, **options):
    rename(source, target, **options)
    if os.path.basename(target) == "{}":
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = rename_and_die
"""
# A canary also looks at what a resumed attempt sends first, so its turns come at other steps.
MEASURED = ("time", "throughput/", "trainer/idle_ratio", "rollouter/idle_ratio", "system/", "attempt", "canary/")


def learned(run_dir: Path) -> dict[int, dict]:
    """The metrics that count, without what a clock or the machine measured, by step."""
    found: dict[int, dict] = {}
    for row in RunReader(run_dir).metrics():  # an evaluation of a step may have been made by a later attempt
        kept = {name: value for name, value in row.items() if not name.startswith(MEASURED)}
        found.setdefault(row["step"], {}).update(kept)
    return found


def adapter(run_dir: Path) -> bytes:
    (newest,) = [c for c in RunReader(run_dir).checkpoints() if c.resumable]
    assert verify_checkpoint(newest.path) == []
    return (newest.path / "adapter_model.safetensors").read_bytes()


def played(run_dir: Path) -> list[tuple]:
    """What was played, split by split, of the episodes that count."""
    reader = RunReader(run_dir)
    reader.resumes()
    rows = [row for row in reader.index() if reader.row_counts(row) and row["split"] == "train"]
    return sorted((row["iteration"], row["group"], row["member"], row["seed"], row["R"]) for row in rows)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Trainer, Path]:
    trainer = Trainer(tmp_path_factory.mktemp("whole"))
    run = trainer.run(*EXACT)
    assert run.code == 0, run.stderr
    return trainer, run.run_dir


def kill(process, run_dir: Path) -> None:
    process.kill()
    killed(process, run_dir)


def killed(process, run_dir: Path) -> None:
    """Its end, by itself too, and that of all that it started."""
    process.wait()
    until(lambda: living(run_dir) == [])


def check_equal(run_dir: Path, whole: Path) -> None:
    assert adapter(run_dir) == adapter(whole)
    assert learned(run_dir) == learned(whole)
    assert played(run_dir) == played(whole)
    reader = RunReader(run_dir)
    assert [row["n"] for row in reader.index()] == list(range(reader.episode_count()))
    assert [event["seq"] for event in reader.events()] == list(range(1, len(reader.events()) + 1))
    assert reader.damaged == []
    results = reader.status()["results"]
    for name in ("evaluation", "episodes", "best_reward", "best_step", "iterations"):
        assert results[name] == RunReader(whole).status()["results"][name], name


def test_a_killed_run_equals_an_uninterrupted_one(whole):
    trainer, expected = whole
    process, run_dir = trainer.start(*EXACT, first=KILLED_WITHIN_AN_ITERATION)
    killed(process, run_dir)
    run = trainer.finish(*trainer.resume(run_dir))
    assert run.code == 0, run.stderr
    check_equal(run_dir, expected)
    (resumed,) = [event for event in run.lines("events.jsonl") if event["type"] == "rl.resumed"]
    assert resumed["data"]["attempt"] == 2 and resumed["data"]["from_step"] == 4 and resumed["attempt"] == 2
    for name in ("resolved", "environment"):
        assert (run_dir / f"{name}.1.json").is_file() and (run_dir / f"{name}.json").is_file()
    assert json.loads((run_dir / "environment.json").read_text())["attempt"] == 2
    assert run.status["attempt"] == 2 and run.status["elapsed_s"] > 0


def test_a_run_killed_between_its_last_checkpoint_and_its_end_is_brought_to_it(whole):
    trainer, expected = whole
    process, run_dir = trainer.start(*EXACT, first=KILLED_AFTER_THE_LAST_CHECKPOINT)
    process.wait()
    assert RunReader(run_dir).checkpoints()[-1].step == 12
    assert json.loads((run_dir / "status.json").read_text())["state"] == "running"
    run = trainer.finish(*trainer.resume(run_dir))
    assert run.code == 0, run.stderr
    check_equal(run_dir, expected)
    again = trainer.finish(*trainer.resume(run_dir))
    assert again.code == 2 and "there is nothing left to train" in again.stderr


def test_a_run_stopped_in_its_last_evaluation_has_its_best_once_it_is_resumed(trainer):
    more = ("training.iterations_per_epoch=2", "evaluation.every_n_iters=2")
    stopped = trainer.finish(*trainer.start(*more, first=STOPPED_IN_THE_LAST_EVALUATION))
    assert stopped.status["end_reason"] == "stopped" and stopped.status["best"] is None
    run = trainer.finish(*trainer.resume(stopped.run_dir))
    assert run.code == 0, run.stderr
    best, results = run.status["best"], run.status["results"]
    assert best["step"] == results["best_step"] == run.status["step"] and best["reward"] == results["best_reward"]
    [checkpoint] = RunReader(run.run_dir).checkpoints()
    assert checkpoint.is_best and checkpoint.eval_reward == best["reward"] and verify_checkpoint(checkpoint.path) == []


@pytest.mark.parametrize("renamed", [".step_2.old", pytest.param("step_2", marks=pytest.mark.slow)])
def test_a_run_killed_while_its_only_checkpoint_is_replaced_goes_on_by_the_command(trainer, renamed):
    more = ("training.iterations_per_epoch=2", "evaluation.every_n_iters=2")
    stopped = trainer.finish(*trainer.start(*more, first=STOPPED_IN_THE_LAST_EVALUATION))
    [before] = RunReader(stopped.run_dir).checkpoints()
    weights = {path.name: path.read_bytes() for path in before.path.glob("*.safetensors")}
    process, run_dir = trainer.resume(stopped.run_dir, first=KILLED_ONCE_A_FOLDER_IS_RENAMED.format(renamed))
    killed(process, run_dir)  # as the checkpoint is made anew, with the reward of its evaluation
    assert process.returncode == -signal.SIGKILL and not (run_dir / "checkpoints/step_2/STABLE").exists()
    command = [sys.executable, "-m", "rltui", "train", "--resume", str(run_dir), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "succeeded"
    [checkpoint] = RunReader(run_dir).checkpoints()
    assert checkpoint.is_best and checkpoint.path == before.path and verify_checkpoint(checkpoint.path) == []
    assert {path.name: path.read_bytes() for path in checkpoint.path.glob("*.safetensors")} == weights


@pytest.mark.slow
def test_killed_at_random_points_again_and_again(whole):
    """Ten kills by the clock, wherever they meet the run; what has no checkpoint yet is begun anew."""
    trainer, expected = whole
    draw = random.Random(7)
    kills = resumes = 0
    process, run_dir = trainer.start(*EXACT)
    while kills < 10:
        begun = {"attempt": resumes + 1, "state": "running"}.items()
        wait_for(run_dir, lambda status, begun=begun: status and all(status[k] == v for k, v in begun))
        time.sleep(draw.uniform(0.0, 4.0))
        if process.poll() is None:
            kill(process, run_dir)
            kills += 1
        done = json.loads((run_dir / "status.json").read_text())["state"] == "succeeded"
        if done:
            check_equal(run_dir, expected)
        if done or not any(c.resumable for c in RunReader(run_dir).checkpoints()):
            process, run_dir = trainer.start(*EXACT)
            resumes = 0
        else:
            process, _ = trainer.resume(run_dir)
            resumes += 1
    run = trainer.finish(process, run_dir)
    assert run.code == 0, run.stderr
    check_equal(run_dir, expected)


@pytest.mark.slow
def test_a_stop_in_the_middle_of_an_iteration_loses_nothing(whole):
    trainer, expected = whole
    process, run_dir = trainer.start(*EXACT)
    wait_for(run_dir, lambda status: status and status["step"] >= 3)
    process.send_signal(signal.SIGTERM)
    stopped = trainer.finish(process, run_dir)
    assert (stopped.code, stopped.status["end_reason"]) == (130, "stopped")
    run = trainer.finish(*trainer.resume(run_dir))
    assert run.code == 0, run.stderr
    check_equal(run_dir, expected)


@pytest.mark.slow
def test_a_run_that_used_up_its_minutes_goes_on_by_the_command(trainer):
    process, run_dir = trainer.start(
        "training.iterations_per_epoch=500", "training.max_minutes=0.02", "evaluation.instances=1"
    )
    first = trainer.finish(process, run_dir)
    assert (first.code, first.status["state"], first.status["end_reason"]) == (0, "succeeded", "max_minutes")
    reached = first.status["iteration"]  # of one update each
    # training.max_minutes holds for each attempt, may be another one, and an iteration is finished in any case
    sets = [f"training.iterations_per_epoch={reached + 1}", "training.learning_rate=5e-4", "training.max_minutes=9"]
    command = [sys.executable, "-m", "rltui", "train", "--resume", str(run_dir), "--json"]
    done = subprocess.run(
        [*command, *(word for item in sets for word in ("--set", item))], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert f"attempt 2 goes on from step {reached}" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "succeeded"
    status = json.loads((run_dir / "status.json").read_text())
    assert (status["iteration"], status["end_reason"], status["attempt"]) == (reached + 1, "completed", 2)
    resumed = next(event for event in RunReader(run_dir).events() if event["type"] == "rl.resumed")
    assert resumed["data"]["overrides"] == {
        "training.iterations_per_epoch": reached + 1,
        "training.learning_rate": 5e-4,
        "training.max_minutes": 9,
    }
    last = [line for line in RunReader(run_dir).metrics() if "optim/lr" in line][-1]
    assert last["optim/lr"] == 5e-4
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 2 and "there is nothing left to train" in again.stderr


@pytest.mark.slow
def test_what_cannot_be_resumed_is_refused_in_words_and_changes_nothing(trainer, tmp_path):
    def refused(run_dir: Path, *sets: str, options: tuple[str, ...] = ()) -> str:
        before = (run_dir / "status.json").read_bytes() if run_dir.exists() else b""
        process, _ = trainer.resume(run_dir, *sets, options=options)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 2 and "Traceback" not in err, err
        assert json.loads(out.splitlines()[-1])["type"] == "error"
        assert not before or (run_dir / "status.json").read_bytes() == before
        return err

    assert "holds no run" in refused(tmp_path / "nothing")
    process, run_dir = trainer.start("training.iterations_per_epoch=500", "checkpoint.every_n_iters=1")
    wait_for(run_dir, lambda status: status is not None)
    process.send_signal(signal.SIGTERM)
    trainer.finish(process, run_dir)
    assert "no finished checkpoint" in refused(run_dir)

    process, run_dir = trainer.start("training.iterations_per_epoch=500", "checkpoint.every_n_iters=1")
    wait_for(run_dir, lambda status: status and status["last_checkpoint"] and status["step"] >= 2)
    running, _ = trainer.resume(run_dir)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2 and str(process.pid) in err
    kill(process, run_dir)

    said = refused(run_dir, "training.group_size=2", "rollout.max_turns=3")
    assert "training.group_size was 4 and is now 2" in said and "rollout.max_turns was 1 and is now 3" in said
    assert "training.learning_rate" in said  # among those that may differ
    assert "policy.model_name" in refused(run_dir, "policy.model_name=builtin:smollm2-135m")
    assert "iterations are done" in refused(run_dir, "training.iterations_per_epoch=1")
    assert "there is no checkpoint of step 999" in refused(run_dir, options=("--from", "999"))

    newest = RunReader(run_dir).checkpoints()[-1]
    weights = newest.path / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    said = refused(run_dir)
    assert f"{newest.path.name}/model.safetensors is damaged" in said
    assert "start a new run from them, rltui train" in said or "start the run anew" in said


@pytest.mark.slow
def test_the_way_on_from_a_damaged_checkpoint_is_a_command_that_works(trainer, tmp_path):
    run = trainer.run("checkpoint.every_n_iters=1", "training.iterations_per_epoch=3", "evaluation.instances=1")
    assert run.code == 0, run.stderr
    newest = RunReader(run.run_dir).checkpoints()[-1]
    (newest.path / "model.safetensors").write_bytes(b"x")
    process, _ = trainer.resume(run.run_dir, "training.iterations_per_epoch=4")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and "step_3/model.safetensors is damaged" in said
    command = shlex.split(said[said.index("rltui train ") :].splitlines()[0])
    sets = ["--set", "training.iterations_per_epoch=1", "--set", f"logging.runs_dir={tmp_path}/runs"]
    begun = subprocess.run(
        [sys.executable, "-m", *command, *sets, "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert begun.returncode == 0, begun.stderr
    (after,) = (tmp_path / "runs").iterdir()
    resolved = json.loads((after / "resolved.json").read_text())
    assert resolved["values"]["policy"]["source"]["value"].endswith("checkpoints/step_2")


@pytest.mark.slow
def test_a_run_of_another_host_is_taken_over_once_it_is_silent_and_not_with_another_model(trainer, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(resolve_model("builtin:tiny").path, model)
    run = trainer.run("training.iterations_per_epoch=1", "evaluation.instances=1", f"policy.model_name={model}")
    assert run.code == 0, run.stderr
    run_dir = run.run_dir
    elsewhere = {"host": "elsewhere", "boot_id": "another"}
    status = json.loads((run_dir / "status.json").read_text()) | elsewhere | {"state": "running"}
    (run_dir / "status.json").write_text(json.dumps(status))
    lock = {name: status[name] for name in ("pid", "start_time", "host", "boot_id", "attempt", "created_at")}
    (run_dir / "lock").write_text(json.dumps(lock) + "\n")

    more = "training.iterations_per_epoch=2"
    command = [sys.executable, "-m", "rltui", "train", "--resume", str(run_dir), "--dry-run", "--json", "--set", more]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "add --take-over" in refused.stderr
    shown = subprocess.run([*command, "--take-over"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and "--take-over" in json.loads(shown.stdout.splitlines()[-1])["command"]

    quick = "import trainer.rundir.lock as lock\nlock.SILENT_S = lock._LOOK_EVERY_S = 0.2"
    run = trainer.finish(*trainer.resume(run_dir, more, options=("--take-over",), first=quick))
    assert run.code == 0, run.stderr
    assert (run.status["attempt"], run.status["iteration"], run.status["host"] == "elsewhere") == (2, 2, False)

    weights = model / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    again = trainer.finish(*trainer.resume(run_dir, "training.iterations_per_epoch=3"))
    assert again.code == 2 and "is another model than the run began with" in again.stderr
    assert os.listdir(run_dir / "weights") == []
