"""`rltui doctor`: what it prints, and exit 1 where a rule says act and nobody has muted it."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from rltui.cli.main import main
from rltui.doctor.mutes import mute
from rltui.doctor.rules import RULES
from rltui.state import Memory, state_file
from tests.cli.conftest import last_object
from trainer.rundir.synth import SynthConfig, write_run


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def rltui(here, capsys):
    """The verb in this process."""

    def run(*args: str) -> Done:
        code = main(args)
        return Done(code, *capsys.readouterr())

    return run


def write(here, kind, episodes=480):
    folder = here / "runs" / f"{kind}-rl_{1:016x}"
    write_run(folder, SynthConfig(episodes=episodes, kind=kind, seed=1, learner_blocks=False))
    return folder


@pytest.mark.parametrize("kind", ["healthy", "resumed"])
def test_a_healthy_run_is_quiet(rltui, here, kind):
    write(here, kind)
    done = rltui("doctor", kind)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith(f"0 of {len(RULES)} rules speak: ")
    assert len(done.out.splitlines()) == 2


def test_a_collapsed_run_says_act_and_what_to_change(rltui, here):
    write(here, "collapsed", episodes=1312)
    done = rltui("doctor", "collapsed")
    assert done.code == 1
    assert "act      D01 zero-variance groups" in done.out
    assert "change   raise training.group_size, raise rollout.max_refill_groups" in done.out
    assert "see      reward/frac_zero_std, 20 iterations" in done.out


def test_a_dead_run_says_so(rltui, here):
    write(here, "crashed")
    done = rltui("doctor", "crashed", "--rule", "d35")
    assert done.code == 1 and "D35 coordinator gone" in done.out and "--resume" in done.out


def test_a_failed_run_is_said_to_have_failed_with_what_to_do(rltui, here):
    folder = write(here, "failed")
    error = json.loads((folder / "status.json").read_text())["error"]
    done = rltui("doctor", "failed", "--rule", "D23")
    assert done.code == 0, "it is the rules that it tells of"
    told = " ".join(done.out.split())
    assert f"cause {error['message']} to do {error['hint']}" in told


def test_the_step_is_that_of_the_status_where_no_metrics_are_left(rltui, here):
    folder = write(here, "healthy")
    (folder / "metrics.jsonl").unlink()
    step = json.loads((folder / "status.json").read_text())["step"]
    assert step and f"succeeded, step {step}" in rltui("doctor", "healthy").out


def test_json_has_every_rule_with_its_fields(rltui, here):
    write(here, "collapsed", episodes=1312)
    done = rltui("doctor", "collapsed", "--json")
    told = last_object(done.out)
    assert done.code == 1 and told["schema"] == 1 and told["rules"] == len(RULES) and told["worst"] == "D01"
    assert sum(told["counts"].values()) == len(RULES) and set(told["counts"]) == {
        "act",
        "broken",
        "watch",
        "ok",
        "no_data",
        "muted",
    }
    assert sorted(finding["id"] for finding in told["findings"]) == [rule.id for rule in RULES]
    first = told["findings"][0]
    assert first["id"] == "D01" and first["state"] == "act" and first["value"] == pytest.approx(1.0)
    assert first["measured"] == "100 %" and first["want"] == "< 30 %" and first["metric"] == "reward/frac_zero_std"
    assert first["keys"][0] == {"key": "training.group_size", "value": None, "way": "raise"} and first["muted"] is None
    assert set(first) == {
        *("id", "state", "title", "value", "measured", "want", "says", "cause"),
        *("window", "metric", "metrics", "keys", "muted"),
    }


def test_one_rule_alone_and_all_of_them(rltui, here):
    write(here, "healthy")
    done = rltui("doctor", "healthy", "--rule", "D01", "--rule", "d23", "--json")
    assert [finding["id"] for finding in last_object(done.out)["findings"]] == ["D01", "D23"]
    assert "D06 judge against task" in rltui("doctor", "healthy", "--all").out
    done = rltui("doctor", "healthy", "--rule", "D77")
    assert done.code == 2 and "no rule D77" in done.err


def test_a_muted_rule_ends_no_script(rltui, here):
    write(here, "collapsed", episodes=1312)
    memory = Memory(state_file())
    for id in ("D01", "D17"):
        mute(memory, "rl_0000000000000001", id, "on purpose")
    done = rltui("doctor", "collapsed", "--json")
    findings = {finding["id"]: finding for finding in last_object(done.out)["findings"]}
    assert done.code == 0
    assert (findings["D01"]["state"], findings["D01"]["muted"]) == ("act", "on purpose")
    mute(memory, "rl_0000000000000001", "D01", "")
    assert rltui("doctor", "collapsed").code == 1


def test_bands_of_a_person_hold_and_bad_ones_are_named(rltui, here, tmp_path):
    write(here, "collapsed", episodes=1312)
    file = tmp_path / "config" / "rltui" / "doctor.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[D01]\nwatch = 1\nact = 1\n[D02]\nwindow = 'x'\n")
    done = rltui("doctor", "collapsed", "--rule", "D01")
    assert done.code == 0 and f"{file}:5: D02.window = x is no number" in done.err


def test_a_record_that_cannot_be_read_is_no_quiet_run(rltui, here):
    folder = write(here, "healthy", episodes=32)
    (folder / "status.json").write_text("{torn")
    done = rltui("doctor", "healthy", "--json")
    assert done.code == 3 and json.loads(done.out)["ok"] is False
