"""`rltui runs` and `rltui show` on recorded runs of every kind, as processes."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import msgspec
import pytest

from rltui.model.event_view import LEFT_OUT
from tests.cli.conftest import environment, last_object
from trainer.config import load
from trainer.rundir.process import ProcessId

DEAD_KINDS = ("crashed", "torn")


def test_runs_lists_every_run_with_its_state(rltui, synthetic):
    done = rltui("runs", synthetic, "--json")
    assert done.returncode == 0
    assert done.err == ""
    found = json.loads(done.out)
    assert found["schema"] == 1
    states = {row["label"].removeprefix("synth-"): row["state"] for row in found["runs"]}
    assert states == {
        "healthy": "succeeded",
        "resumed": "succeeded",
        "failed": "failed",
        "crashed": "failed",
        "torn": "failed",
    }
    errors = {row["label"].removeprefix("synth-"): row["error"] for row in found["runs"]}
    assert errors["healthy"] is None
    for kind in DEAD_KINDS:
        assert errors[kind]["code"] == "process_lost"
        assert "rltui train" in errors[kind]["hint"]


def test_runs_as_a_table_has_a_line_a_run(rltui, synthetic):
    lines = rltui("runs", synthetic, env={"COLUMNS": "100"}).out.splitlines()
    assert len(lines) == 1 + 5
    assert lines[0].split() == ["STATE", "NAME", "STEP", "REWARD", "EVAL", "AGE", "WHY"]
    assert all(len(line) <= 100 for line in lines)


def test_a_table_that_is_cut_says_where_the_rest_is(rltui, synthetic):
    assert "rltui show NAME" in rltui("runs", synthetic, env={"COLUMNS": "60"}).err
    assert rltui("runs", synthetic, env={"COLUMNS": "400"}).err == ""


def test_what_failed_can_be_started_again_with_what_was_set(rltui, here, synthetic):
    run = here / "runs" / "failed-rl_0000000000000003"
    shutil.copytree(synthetic / run.name, run)
    shutil.copy("my.toml", run / "config.toml")
    sets = ["training.seed=7", 'rollout.env_config={ a = "x y", b.c = 1e-3 }', "policy.max_tokens=9"]
    (run / "resolved.json").write_text(json.dumps(load("my.toml", sets=sets).resolved()))
    assert last_object(rltui("show", run, "--json").out)["next"][0].endswith(f"train --resume {run.name}")
    shutil.rmtree(run / "checkpoints")  # with nothing to go on from it is begun anew
    again = last_object(rltui("show", run, "--json").out)["next"][0]
    arguments = shlex.split(again.partition(" train ")[2])
    assert arguments[0] == str(run / "config.toml")
    assert set(arguments[1::2]) == {"--set"}
    assert load(arguments[0], sets=arguments[2::2]).values == load("my.toml", sets=sets).values


def test_show_leaves_a_run_whose_reader_has_gone(here, synthetic):
    """`rltui show RUN --follow | head` ends with head, and not with the run."""
    run = here / "runs" / "healthy-rl_0000000000000000"
    shutil.copytree(synthetic / run.name, run)
    status = json.loads((run / "status.json").read_bytes())
    mine = msgspec.to_builtins(ProcessId.of(os.getpid()))
    status |= {
        "state": "running",
        "phase": "training",
        "step": 0,
        "end_reason": None,
        **mine,
    }  # 0: it says what it does
    (run / "status.json").write_text(json.dumps(status))
    (run / "lock").write_text(json.dumps(mine))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "rltui", "show", str(run), "--follow"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment(), timeout=30)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_unreadable_run_stays_a_line_with_its_reason(rltui, synthetic, tmp_path):
    broken = tmp_path / "runs" / "broken-rl_00000000000000ff"
    shutil.copytree(synthetic / "healthy-rl_0000000000000000", broken)
    (broken / "status.json").write_text('{"state": "runn')
    found = json.loads(rltui("runs", "--json").out)["runs"]
    assert [row["state"] for row in found] == ["unreadable"]
    assert "status.json" in found[0]["problem"]
    shown = rltui("show", broken)
    assert shown.returncode == 3
    assert "status.json is damaged" in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("pipe", [False, True])
def test_a_status_that_cannot_be_read_stops_nothing(rltui, here, pipe):
    folder = here / "runs" / "bad"
    folder.mkdir(parents=True)
    if pipe:
        os.mkfifo(folder / "status.json")
    else:
        (folder / "status.json").write_text("[" * 100_000)
    words = "not a regular file" if pipe else "status.json is damaged"
    (row,) = json.loads(rltui("runs", "--json").out)["runs"]
    assert row["state"] == "unreadable" and words in row["problem"]
    shown = rltui("show", "bad")
    assert shown.returncode == 3 and words in shown.err and "Traceback" not in shown.err


def test_a_file_is_no_folder_of_runs(rltui, here):
    done = rltui("runs", "my.toml")
    assert done.returncode == 2 and "my.toml is not a folder" in done.err


def test_a_run_whose_coordinator_died_before_its_first_status_has_failed(rltui, here):
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = msgspec.to_builtins(ProcessId.of(gone.pid))
    gone.communicate()
    folder = here / "runs" / f"x-rl_{'0' * 16}"
    folder.mkdir(parents=True)
    (folder / "lock").write_text(json.dumps(holder))
    (run,) = json.loads(rltui("runs", "--json").out)["runs"]
    assert (run["state"], run["error"]["code"]) == ("failed", "process_lost")


def test_no_runs_is_no_error_but_a_missing_folder_is(rltui):
    assert rltui("runs").returncode == 0
    assert json.loads(rltui("runs", "--json").out)["runs"] == []
    missing = rltui("runs", "nowhere")
    assert missing.returncode == 2
    assert "nowhere" in missing.err


@pytest.mark.parametrize("name", ["healthy", "rl_0000000000000000", "healthy-rl_0000000000000000"])
def test_show_finds_a_run_by_any_name(rltui, synthetic, name):
    found = last_object(rltui("show", name, "--runs-dir", synthetic, "--json").out)
    assert found["name"] == "healthy-rl_0000000000000000"
    assert found["state"] == found["status"]["state"] == "succeeded"
    assert found["step"] == found["steps"]
    assert found["events"][-1]["type"] == "rl.job.completed"
    assert any(checkpoint["is_best"] for checkpoint in found["checkpoints"])
    assert any(command.endswith(" runs") for command in found["next"])


def test_show_tells_what_happened_and_leaves_the_rest_to_the_charts(rltui, synthetic):
    found = last_object(rltui("show", "healthy", "--runs-dir", synthetic, "--json").out)["events"]
    assert len(found) == 8 and not {event["type"] for event in found} & LEFT_OUT


def test_show_tells_cause_and_hint_of_a_failure(rltui, synthetic):
    out = rltui("show", "failed", "--runs-dir", synthetic).out
    assert "cause: The task app answered 500" in out
    assert "to do: " in out


@pytest.mark.parametrize(("name", "words"), [("rl_", "fits 5 runs"), ("helthy", "healthy"), ("./x", "not a run")])
def test_a_name_of_no_or_several_runs_is_refused_in_words(rltui, synthetic, name, words):
    done = rltui("show", name, "--runs-dir", synthetic, "--json")
    assert done.returncode == 2
    assert words in done.err
    assert last_object(done.out)["ok"] is False


def test_a_run_of_run_dir_is_found_by_its_job_id(rltui, synthetic, tmp_path):
    shutil.copytree(synthetic / "healthy-rl_0000000000000000", tmp_path / "runs" / "elsewhere")
    status = json.loads((tmp_path / "runs" / "elsewhere" / "status.json").read_bytes())
    found = last_object(rltui("show", status["job_id"], "--json").out)
    assert found["name"] == "elsewhere"


def test_out_writes_the_same_object(rltui, synthetic, tmp_path):
    done = rltui("show", synthetic / "healthy-rl_0000000000000000", "--json", "--out", "one.json")
    assert (tmp_path / "one.json").read_text() == done.out
    refused = rltui("runs", synthetic, "--out", "no/such/folder/x.json")
    assert refused.returncode == 2
    assert "cannot write" in refused.err


def test_hostile_text_of_a_run_cannot_act_on_the_terminal(rltui, synthetic, tmp_path):
    run = tmp_path / "runs" / "bad-rl_00000000000000aa"
    shutil.copytree(synthetic / "failed-rl_0000000000000003", run)
    status = json.loads((run / "status.json").read_bytes())
    status["error"]["message"] = "\x1b[2J\x1b]52;c;aGk=\x07 gone \u202e \x9b31m"
    status["label"] = "\x1b[31m"
    (run / "status.json").write_text(json.dumps(status))
    for verb in (["runs"], ["show", "bad"], ["runs", "--json"], ["show", "bad", "--json"]):
        out = rltui(*verb).out
        assert not any(char in out for char in "\x1b\x07\x9b\u202e")
        assert "gone" in out


def test_a_closed_pipe_is_no_error(here, synthetic):
    process = subprocess.Popen(
        [sys.executable, "-m", "rltui", "runs", str(synthetic)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) == 0


def test_an_ascii_terminal_gets_replacements_not_an_exception(rltui, synthetic):
    done = rltui("show", synthetic / "healthy-rl_0000000000000000", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
