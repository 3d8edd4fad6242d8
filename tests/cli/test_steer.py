"""`rltui steer` and `rltui train --resume`: what is asked, what is answered, and what is refused before that."""

import argparse
import json
import os
import shutil
import threading
import time

import pytest

from rltui.cli import resuming, stop
from rltui.cli.main import main
from rltui.launch.runs import in_folder
from rltui.sources.local import LocalRunSource
from tests.cli.conftest import last_object
from trainer.rundir import ControlBox, RunLock, RunWriter
from trainer.rundir.process import host_name


@pytest.fixture
def running(here):
    """A folder whose writer is this process; `answers(…)` carries out the next request."""
    folder = here / "runs" / "x-rl_0123456789abcdef"
    writer = RunWriter(folder, job_id="rl_0123456789abcdef", label="x")
    writer.status(state="running", phase="training")
    box = ControlBox(folder)

    def serve(*answers: tuple[str, dict]) -> threading.Thread:
        def work() -> None:
            while not (taken := box.take()):
                time.sleep(0.02)
            for answer, data in answers:
                about = {"control_id": taken[0].control_id, "action": taken[0].action, "args": taken[0].args}
                writer.event(f"rl.control.{answer}", data.pop("text", answer), step=3, **about, **data)
            box.finish(taken[0])

        working = threading.Thread(target=work, daemon=True)
        working.start()
        return working

    yield folder, serve
    writer.close()


def test_set_takes_a_short_name_and_waits_until_it_is_done(rltui, running):
    folder, serve = running
    serve(("accepted", {}), ("done", {"old": {"training.learning_rate": 1e-3}, "text": "it is set"}))
    done = rltui("steer", folder.name, "set", "learning_rate", "1e-4", "--json")
    assert done.returncode == 0, done.err
    found = last_object(done.out)
    assert (found["answer"], found["args"]) == ("done", {"training.learning_rate": 1e-4})
    assert found["data"]["args"] == {"training.learning_rate": 1e-4}
    assert "it is set" in done.err


def test_a_run_of_another_host_that_does_not_answer_is_not_offered_what_fails(running):
    folder, _ = running
    chosen = in_folder(folder)
    assert "on elsewhere" in (told := stop._instead(chosen, {"host": "elsewhere"}, True)) and "--now" not in told
    assert "--now" in stop._instead(chosen, {"host": host_name()}, False)
    assert stop._instead(chosen, {"host": host_name()}, True) == ""


@pytest.mark.parametrize(("now", "says"), [(False, "it stops between two steps"), (True, "its processes are ended")])
def test_stop_says_how_it_ends(running, capsys, now, says):
    folder, serve = running
    source = LocalRunSource(folder)
    answering = serve(("accepted", {}))
    asked = source.request("stop")
    answering.join()
    stop._wait(source, asked, argparse.Namespace(now=now, timeout=0.5, json=False, quiet=False, out=None))
    assert f"accepted: {says}" in capsys.readouterr().out


def test_a_refusal_says_why_and_is_no_success(rltui, running):
    folder, serve = running
    serve(("refused", {"reason": "wrong_state", "text": "pause was refused: \x1b[2Jpaused already"}))
    done = rltui("steer", folder.name, "pause", "--json")
    assert done.returncode == 3
    found = last_object(done.out)
    assert (found["answer"], found["reason"]) == ("refused", "wrong_state")
    assert "paused already" in done.err and "\x1b" not in done.err


def test_accepted_is_not_done_and_silence_is_said(running, monkeypatch, capsys):
    folder, serve = running
    request = LocalRunSource.request

    def accepted(source, *words):
        """Returns once the answer is there."""
        answering = serve(("accepted", {}))
        asked = request(source, *words)
        answering.join()
        return asked

    with monkeypatch.context() as patched:
        patched.setattr(LocalRunSource, "request", accepted)
        assert main(["steer", folder.name, "checkpoint", "--timeout", "0.3"]) == 3
    assert "has not done it yet" in capsys.readouterr().out
    assert main(["steer", folder.name, "pause", "--timeout", "0.3"]) == 3
    assert "has not answered" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set"], "KEY VALUE"),
        (["set", "training.group_size", "2"], "cannot be changed while a run is going"),
        (["set", "learning_rate", "nan"], "training.learning_rate = nan is no finite number"),
        (["set", "learning_rate", "abc"], 'training.learning_rate = "abc": a string was given; allowed: number > 0'),
        (["set", "learning_rate", "-1"], "training.learning_rate = -1: out of range; allowed: number > 0"),
        (["pause", "--timeout", "-1"], "--timeout is a number of seconds, 0 or more"),
        (["set", "every_n_iters", "2"], "is not one key"),
        (["pause", "now"], "takes no further words"),
        (["dance"], "invalid choice"),
    ],
)
def test_what_makes_no_sense_is_not_asked(rltui, running, words, says):
    folder, _ = running
    done = rltui("steer", folder.name, *words)
    assert done.returncode == 2 and says in done.err and not list((folder / "control").glob("*.json"))


def test_a_run_that_is_over_cannot_be_steered(rltui, synthetic):
    done = rltui("steer", "healthy", "pause", "--runs-dir", synthetic)
    assert done.returncode == 3 and "has ended already: succeeded" in done.err


def test_a_running_run_is_not_resumed(rltui, running):
    folder, _ = running
    done = rltui("train", "--resume", folder.name)
    assert done.returncode == 2 and f"pid {os.getpid()}" in done.err and "Stop it first" in done.err


def test_a_run_that_has_just_ended_is_resumed_once_its_coordinator_let_go_of_it(here, monkeypatch):
    folder = here / "runs" / "x-rl_0123456789abcdef"
    with RunLock(folder) as lock, RunWriter(folder, job_id="rl_0123456789abcdef", label="x") as writer:
        writer.status(state="cancelled", phase="done", end_reason="stopped")
        monkeypatch.setattr(resuming.time, "sleep", lambda seconds: lock.release())
        assert resuming._check_ended(folder, take_over=False) is False
        assert not writer.paths.lock.exists()


def test_a_run_without_a_checkpoint_is_not_resumed(rltui, here):
    first = rltui("train", "my.toml", "--json", fake="failed")
    folder = last_object(first.out)["run_dir"]
    shutil.copy("my.toml", f"{folder}/config.toml")
    (here / folder / "resolved.json").write_text(json.dumps({"values": {}}))
    done = rltui("train", "--resume", folder)
    assert done.returncode == 2 and "no finished checkpoint" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--resume", "nothing-like-it"], "no run"),
        (["my.toml", "--from", "3"], "belong to --resume"),
        (["--resume", "x", "--run-dir", "y"], "--run-dir is for a new run"),
    ],
)
def test_resume_options_that_do_not_fit(rltui, here, words, says):
    done = rltui("train", *words)
    assert done.returncode == 2 and says in done.err
