"""`rltui smoke` as a process: exit codes, the object, the table, Ctrl-C, a person on a terminal."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest

from rltui.cli.smoke_lines import lines_of
from rltui.smoke.events import EpisodeEnded
from rltui.smoke.report import Episode
from tests.cli.conftest import ROOT, command, environment, last_object

APP = ROOT / "tests" / "smoke" / "tool_app.py"
FEW = ("--seeds", "0:2", "--group-size", "2")
KEYS = ("ENVIRONMENT_API_KEY", "ENVIRONMENT_API_KEY_ALIASES", "OPENAI_API_KEY", "SMOKE_API_KEY", "GROQ_API_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def test_ready_is_0_and_one_with_warnings_if_strict(rltui, here):
    done = rltui("smoke", "--url", APP, *FEW, "--strict", "--json", "--out", "smoke.json")
    data = last_object(done.out)
    assert done.out.count("\n") == 1 and json.loads((here / "smoke.json").read_text()) == data
    assert data["verdict"] == "ready_with_warnings" and done.returncode == 1 and data["schema"] == 1
    assert [stage["id"] for stage in data["stages"]] == [f"S{i:02}" for i in range(1, 15)]
    assert done.err.splitlines()[-1] == data["verdict_text"]
    assert "Traceback" not in done.err


def test_a_config_is_tested_with_its_seeds_and_its_hash(rltui, here):
    done = rltui("smoke", "my.toml", "--url", APP, "--rollouts", "2", "--set", "smoke.sqld_auto_start=true", "--json")
    data = last_object(done.out)
    assert done.returncode == 0 and len(data["episodes"]) == 2
    validated = last_object(rltui("validate", "my.toml", "--set", "smoke.sqld_auto_start=true", "--json").out)
    assert data["config_hash"] == validated["config_hash"]
    assert (here / "traces" / "local.db").is_file()
    assert done.err.startswith("played by mock\n")
    assert re.search(r"^ok    S01  reachable .* ms|s ", done.err, re.MULTILINE)


def test_of_each_seed_one_episode_is_listed_and_each_that_failed():
    def ended(member, **more):
        parts = {"n": 0, "turns": (), "step_rewards": (), "outcome": 0.5, "R": 0.5, **more}
        return EpisodeEnded(Episode(seed=3, member=member, **parts))

    assert list(lines_of(ended(0))) and not list(lines_of(ended(1)))
    (line,) = lines_of(ended(1, R=None, excluded="timeout", sentence="it hangs"))
    assert "seed 3.1" in line and "it hangs" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a CONFIG, or --url"),
        (("--url", "builtin:nope"), "Known: facts"),
        (("--url", "nothing.py"), "there is no file nothing.py"),
        (("--url", "builtin:facts", "--policy", "openai"), "OPENAI_API_KEY is not set"),
        (("--url", "builtin:facts", "--policy", "human"), "terminal"),
        (("--url", "builtin:facts", "--seeds", "5:2"), "is not A:B"),
        (("no.toml",), "no such file"),
        (("my.toml", "--set", "smoke.policy=robot"), "smoke.policy"),
    ],
)
def test_usage_is_2(rltui, arguments, words):
    done = rltui("smoke", *arguments, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and words in done.err


def test_not_ready_is_3_with_the_request_and_the_fix(rltui):
    done = rltui("smoke", "--url", "http://127.0.0.1:9")
    assert done.returncode == 3
    lines = done.out.splitlines()
    assert lines[1].startswith("FAIL  S01") and "fix: start the app" in lines[2]
    assert lines[-1].startswith("not ready: S01 reachable: nothing answers at 127.0.0.1 port 9")


def test_ctrl_c_is_130_with_a_report(here):
    process = subprocess.Popen(
        command(None, "smoke", "--url", APP, "--seeds", "0:5000", "--json"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if "seed 0.0" in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in err
    data = last_object(out)
    assert data["interrupted"] is True and data["verdict"] == "not_ready"


def test_a_person_plays_on_a_terminal(here):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(None, "smoke", "--url", APP, "--policy", "human", "--json"),
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    try:
        os.write(ours, b"press(red, 1)\n")
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    (episode,) = last_object(out)["episodes"]
    assert episode["R"] == 1.0 and episode["policy"] == "human"
    assert "press(colour: red|green|blue, times: integer)" in err
