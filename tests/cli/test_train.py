"""`rltui train`: from a config to a followed, detached, stopped or failed run, by a stand-in coordinator."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import rltui.launch.local
from rltui.cli import train
from rltui.cli.follow import Interrupts
from rltui.cli.main import main
from rltui.cli.resuming import await_attempt
from rltui.cli.start import launch
from tests.cli.conftest import command, environment, last_object
from tests.cli.with_fake import FAKE
from tests.waiting import until
from trainer.rundir.process import ProcessId, start_time_of


def started(*args, fake, env=None, **options):
    return subprocess.Popen(
        command(fake, "train", "my.toml", *args),
        env=environment(fake, env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def the_status(folder="runs"):
    for path in Path(folder).glob("*/status.json"):
        return json.loads(path.read_bytes())
    return None


# Before anything is started


def test_dry_run_shows_the_command_and_makes_nothing(rltui, here):
    done = rltui("train", "my.toml", "--dry-run", "--json", "--set", "training.seed=3")
    assert done.returncode == 0
    found = json.loads(done.out)
    assert found["derived"]["steps"] == 4
    assert re.search(r"/runs/my-run-rl_[0-9a-f]{16}$", found["run_dir"])
    assert "-m trainer run" in found["command"]
    assert "--set training.seed=3" in found["command"]
    argv = shlex.split(found["command"])
    assert found["run_dir"].endswith(argv[argv.index("--job-id") + 1])
    assert not (here / "runs").exists()
    words = rltui("train", "my.toml", "--dry-run").out
    assert "\nchecked: " in words
    assert "\nnot checked: that the task app answers" in words


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("apps/mine.py", "there is no file {here}/apps/mine.py"),
        ("builtin:fact", "fix: --set services.task_url=builtin:facts"),
        ("builtin:zzz", '"builtin:guess"'),
        ("reasoning_gym:zzz", "reasoning_gym has no data set 'zzz'"),
    ],
)
def test_a_task_app_that_is_not_there_is_told_before_anything_is_made(rltui, here, app, words):
    for options in (["--dry-run"], []):
        done = rltui("train", "my.toml", "--set", f"services.task_url={app}", *options)
        assert done.returncode == 2
        assert words.format(here=here) in done.err
        assert f'services.task_url = "{app}"' in done.err
        assert not (here / "runs").exists()


def test_a_task_app_that_is_there_is_fine(rltui, here):
    (here / "apps").mkdir()
    (here / "apps" / "mine.py").touch()
    for there in ("apps/mine.py", "reasoning_gym:gcd", "builtin:reasoning_gym.gcd"):
        assert rltui("train", "my.toml", "--set", f"services.task_url={there}", "--dry-run").returncode == 0


def test_task_url_and_model_are_spellings_of_set(rltui):
    done = rltui("train", "my.toml", "--dry-run", "--json", "--task-url", "http://127.0.0.1:8", "--model", "x/y")
    assert done.returncode == 0, done.err
    line = shlex.split(json.loads(done.out)["command"])
    assert 'services.task_url="http://127.0.0.1:8"' in line
    assert 'policy.model_name="x/y"' in line


@pytest.mark.parametrize(("line", "model"), [("model_name", "rl:x/y:job"), ("source", "x/y")])
def test_a_model_replaces_whatever_the_file_starts_from(rltui, here, line, model):
    text = (here / "my.toml").read_text()
    (here / "my.toml").write_text(text.replace("model_name = ", f"{line} = "))
    done = rltui("train", "my.toml", "--dry-run", "--json", "--model", model)
    assert done.returncode == 0, done.err
    assert f"policy.{line}" in done.err and "is overruled by --set" in done.err


def test_every_problem_of_a_config_is_told_at_once(rltui, here):
    text = (here / "my.toml").read_text().replace("group_size = 4", "group_size = 5\nlog_intervall = 2")
    (here / "bad.toml").write_text(text)
    done = rltui("train", "bad.toml", "--json")
    assert done.returncode == 2
    assert "Traceback" not in done.err
    keys = {item["key"] for item in last_object(done.out)["error"]["errors"]}
    assert keys == {"training.group_size", "training.log_intervall"}
    assert re.search(r"bad\.toml:\d+:\d+: training\.group_size = 5", done.err)
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.toml"], "nowhere.toml"),
        ([], "no config"),
        (["my.toml", "--config", "other.toml"], "two configs"),
        (["my.toml", "--type", "sft"], "the one kind is rl"),
        (["my.toml", "--set", "training.group_size"], "--set"),
        (["my.toml", "--set", "services.task_url=https://your-tunnel.example"], "template"),
    ],
)
def test_bad_usage_is_2_and_says_what_to_do(rltui, here, args, words):
    done = rltui("train", *args)
    assert done.returncode == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (here / "runs").exists()


def test_unparsable_toml_has_its_place(rltui, here):
    (here / "torn.toml").write_text("[algorithm\n")
    done = rltui("train", "torn.toml")
    assert done.returncode == 2
    assert "torn.toml:1:" in done.err


def test_a_folder_that_holds_a_run_is_refused(rltui, synthetic):
    done = rltui("train", "my.toml", "--run-dir", synthetic / "healthy-rl_0000000000000000")
    assert done.returncode == 2
    assert "already holds a run" in done.err


def test_a_run_folder_that_cannot_be_made_is_told(rltui, here):
    (here / "file").write_text("")
    done = rltui("train", "my.toml", "--run-dir", "file/run")
    assert done.returncode == 2
    assert "--run-dir" in done.err
    assert "Traceback" not in done.err


# Following


def test_plain_lines_without_a_terminal(rltui):
    done = rltui("train", "my.toml", fake="ok")
    assert done.returncode == 0, done.out + done.err
    assert "\x1b" not in done.out
    assert "\r" not in done.out
    steps = [line for line in done.out.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in steps] == ["1/4", "2/4", "3/4", "4/4"]
    assert "iteration 1/2" in steps[1]
    assert "reward 0.200" in steps[1]
    assert "grad 0.5" in steps[1]
    assert "clip 0.03" in steps[1]
    assert "2.5 samples/s" in steps[1]
    assert "held-out reward: 0.250 before, 0.500 after" in done.out
    assert "warning: " in done.out


def test_json_alone_on_stdout_words_on_stderr(rltui):
    done = rltui("train", "my.toml", "--json", fake="ok")
    (line,) = done.out.splitlines()
    found = json.loads(line)
    assert (found["schema"], found["state"], found["step"]) == (1, "succeeded", 4)
    assert Path(found["run_dir"]).is_dir()
    assert found["run_dir"].endswith(found["job_id"])
    assert "step 4/4" in done.err


def test_log_interval_thins_lines_but_keeps_each_iterations_reward(rltui):
    done = rltui("train", "my.toml", "--set", "training.log_interval=100", fake="ok")
    steps = [line.split()[1] for line in done.out.splitlines() if line.startswith("step ")]
    assert steps == ["2/4", "4/4"]


def test_the_end_names_the_run_again(rltui, here):
    lines = rltui("train", "my.toml", fake="ok").out.splitlines()
    (run,) = (here / "runs").iterdir()
    assert lines.index("next") > lines.index("held-out reward: 0.250 before, 0.500 after")
    after = lines[lines.index("next") + 1 :]
    assert [line.partition("rltui ")[2] for line in after] == [f"show {run.name}", "runs"]


def test_a_run_that_fails_at_once_says_so_once(rltui):
    lines = rltui("train", "my.toml", fake="refuse").out.splitlines()
    assert lines.count("failed") == 1


def test_quiet_says_only_how_it_ended(rltui):
    lines = rltui("train", "my.toml", "--quiet", fake="ok").out.splitlines()
    assert lines[0].startswith("run ")
    assert lines[1].startswith("succeeded")
    assert len(lines) == 3


def test_a_failed_run_is_3_with_cause_and_hint(rltui):
    done = rltui("train", "my.toml", "--json", fake="failed")
    assert done.returncode == 3
    assert "cause: plain\ufffd text" in done.err
    assert "to do: start the task app" in done.err
    assert last_object(done.out)["error"]["code"] == "task_app_down"


def test_a_run_that_the_environment_failed_is_2(rltui):
    assert rltui("train", "my.toml", fake="config").returncode == 2


def test_a_coordinator_that_refuses_to_start_is_quoted(rltui):
    done = rltui("train", "my.toml", "--json", fake="refuse")
    assert done.returncode == 2
    assert "cause: the folder is in use" in done.err
    assert "to do: stop that run" in done.err
    (run,) = json.loads(rltui("runs", "--json").out)["runs"]
    assert (run["state"], run["error"]["message"]) == ("failed", "the folder is in use")


def test_a_coordinator_that_dies_without_a_word_is_a_failed_run(rltui):
    done = rltui("train", "my.toml", "--json", fake="crash")
    assert done.returncode == 3
    assert "the last words on stderr" in done.err
    found = last_object(done.out)
    assert (found["state"], found["error"]["code"], found["step"]) == ("failed", "process_lost", 2)


def test_the_last_line_of_the_log_is_not_why_a_coordinator_was_killed(rltui):
    done = rltui("train", "my.toml", "--json", fake="killed")
    assert done.returncode == 3 and "the last words on stderr" not in done.err
    assert "killed by signal 9; the kernel does that when memory runs out" in done.err


# Its life apart from ours


def test_detach_returns_while_the_run_goes_on(rltui, here):
    slow = {"FAKE_STEPS": "4000"}
    done = rltui("train", "my.toml", "--detach", "--json", fake="ok", env=slow)
    assert done.returncode == 0, done.err
    found = last_object(done.out)
    coordinator = ProcessId.of(found["pid"])
    assert os.getsid(found["pid"]) == found["pid"] != os.getsid(0)
    assert "--follow" in done.err
    stopped = rltui("stop", Path(found["run_dir"]).name, "--json")
    assert stopped.returncode == 0, stopped.err
    assert last_object(stopped.out)["state"] == "cancelled"
    assert last_object(stopped.out)["answer"] in ("rl.control.accepted", "rl.control.done")
    until(lambda: not coordinator.alive())


def test_it_outlives_its_caller_and_its_terminal(here):
    caller = started(fake="ok", env={"FAKE_STEPS": "4000"}, start_new_session=True)
    status = until(lambda: (s := the_status()) and s["step"] and s)
    os.killpg(caller.pid, signal.SIGHUP)
    caller.wait(60)
    beat = the_status()["beat"]
    assert until(lambda: the_status()["beat"] > beat)
    os.kill(status["pid"], signal.SIGTERM)
    until(lambda: the_status()["state"] == "cancelled")


def test_ctrl_c_stops_the_run_cleanly(here):
    caller = started(fake="ok", env={"FAKE_STEPS": "4000"})
    until(lambda: (s := the_status()) and s["step"])
    caller.send_signal(signal.SIGINT)
    out, _ = caller.communicate(timeout=60)
    assert caller.returncode == 130
    assert "Ctrl-C: stopping" in out
    assert "cancelled (stopped)" in out
    status = the_status()
    assert status["state"] == "cancelled"
    recorded = Path("runs").glob("*/metrics.jsonl").__next__().read_text().splitlines()
    assert json.loads(recorded[-1])["step"] == status["step"]


def test_ctrl_c_before_the_run_is_followed_stops_it_all_the_same(here, monkeypatch, capsys):
    runs, say = [], train.say
    argv = [sys.executable, str(FAKE)]
    monkeypatch.setenv("FAKE_STEPS", "4000")
    monkeypatch.setattr(
        rltui.launch.local,
        "trainer_argv",
        lambda job: [*argv, "--run-dir", str(job.folder), "--job-id", job.job_id],
    )
    monkeypatch.setattr(train, "launch", lambda plan: runs.append(launch(plan)) or runs[-1])

    def interrupted(line, stream):
        say(line, stream)
        if line.startswith("run "):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(train, "say", interrupted)
    try:
        assert main(["train", "my.toml"]) == 130
        assert runs[0].exit_code() is not None
    finally:
        runs[0].kill()
    assert "Ctrl-C: stopping" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_a_resumed_run_begins_ends_it():
    """While the status is still that of the attempt before."""
    ends, heard = [], Interrupts()
    source = SimpleNamespace(status=lambda: {"state": "cancelled", "attempt": 1})
    run = SimpleNamespace(source=source, stop=lambda: ends.append(-15), exit_code=lambda: ends[-1] if ends else None)
    heard.count = 1
    with pytest.raises(KeyboardInterrupt):
        await_attempt(SimpleNamespace(attempt=2), run, heard)
    assert ends == [-15]


def test_a_second_ctrl_c_kills(here):
    caller = started(fake="deaf", env={"FAKE_STEPS": "4000"})
    status = until(lambda: (s := the_status()) and s["step"] and s)
    caller.send_signal(signal.SIGINT)
    assert "Ctrl-C: stopping" in until(lambda: _line_with(caller, "Ctrl-C"))
    caller.send_signal(signal.SIGINT)
    caller.communicate(timeout=60)
    assert caller.returncode == 130
    assert start_time_of(status["pid"]) != status["start_time"]


def _line_with(process, text):
    for line in process.stdout:
        if text in line:
            return line
    return None


def test_stop_says_when_nothing_answers_and_now_kills(rltui, here):
    done = rltui("train", "my.toml", "--detach", "--json", fake="deaf", env={"FAKE_STEPS": "4000"})
    found = last_object(done.out)
    unanswered = rltui("stop", found["job_id"], "--timeout", "0.5")
    assert unanswered.returncode == 3
    assert "has not answered" in unanswered.out
    assert start_time_of(found["pid"]) is not None
    rltui("stop", found["job_id"], "--now", "--timeout", "30", fake="deaf")
    assert start_time_of(found["pid"]) is None


def test_show_follow_leaves_the_run_alone(rltui, here):
    slow = {"FAKE_STEPS": "30", "FAKE_HOLD": f"0:{here}/go-on"}
    found = last_object(rltui("train", "my.toml", "--detach", "--json", fake="ok", env=slow).out)
    words = command(None, "show", found["job_id"], "--follow")
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True) as showing:
        assert showing.stdout.readline()
        (here / "go-on").touch()
        shown = showing.stdout.read()
    assert showing.returncode == 0
    assert "step 30/30" in shown
    assert "succeeded" in shown


# On a terminal


def on_a_terminal(args, env, columns=100, seen_by=lambda seen: None):
    """Everything that `rltui` writes to a terminal of that many columns, and its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(environment("ok", {"TERM": "xterm", "COLUMNS": str(columns), **env}))
        os.execv(command("ok")[0], command("ok", *args))
    seen = b""
    while True:
        ready, _, _ = select.select([fd], [], [], 60)
        assert ready, seen
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
        seen_by(seen)
    os.close(fd)
    return seen.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_terminal_gets_one_live_line_and_keeps_one_an_iteration(here):
    def go_on(seen):
        if b"step 1/4" in seen:
            (here / "go-on").touch()

    text, code = on_a_terminal(["train", "my.toml"], {"FAKE_HOLD": f"1:{here}/go-on"}, seen_by=go_on)
    assert code == 0
    left = [line.rpartition("\r")[2].removeprefix("\x1b[K") for line in text.split("\r\n")]
    assert [line.split()[1] for line in left if line.startswith("step")] == ["2/4", "4/4"]
    assert re.search(r"\r[a-z ]+  step 1/4", text)  # what goes on now, then the newest step
    assert set(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", text)) == {"\x1b[K"}
    assert all(len(part) < 100 for part in re.split(r"[\r\n]", text.replace("\x1b[K", "")) if "step" in part)


def test_a_dumb_terminal_gets_plain_lines(here):
    text, code = on_a_terminal(["train", "my.toml"], {"TERM": "dumb"})
    assert code == 0
    assert "\x1b" not in text
