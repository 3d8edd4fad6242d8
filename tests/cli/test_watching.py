"""`rltui overview`, `events`, `logs`: one run as text, as an object, and as it goes on."""

from __future__ import annotations

import json
import threading
from typing import NamedTuple

import pytest

from rltui.cli import common
from rltui.cli.main import main
from rltui.doctor.checkup import Checkup
from rltui.model.now import now_lines
from rltui.model.overview_view import PLANS
from rltui.model.run import RunModel
from rltui.sources.local import LocalRunSource
from rltui.text import width
from rltui.words import duration
from tests.cli.conftest import last_object
from trainer.rundir import synth_attempt
from trainer.rundir.layout import RunPaths
from trainer.rundir.synth import SynthConfig, play, write_run
from trainer.rundir.writer import RunWriter


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def rltui(here, capsys, monkeypatch):
    """The verb in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    monkeypatch.setattr(common, "LOOK_S", 0.01)

    def run(*args: str) -> Done:
        code = main(args)
        return Done(code, *capsys.readouterr())

    return run


def write(here, kind="healthy", episodes=480):
    folder = here / "runs" / f"{kind}-rl_{1:016x}"
    write_run(folder, SynthConfig(episodes=episodes, kind=kind, seed=1, learner_blocks=False))
    return folder


def test_overview_has_the_numbers_of_the_first_tab(rltui, here):
    folder = write(here, "failed")
    told = last_object(rltui("overview", "failed", "--json").out)
    model = RunModel(LocalRunSource(folder))
    while model.refresh().more:
        pass
    assert told["schema"] == 1 and told["state"] == "failed" and told["error"]["code"] == "http_error"
    assert [chart["title"] for chart in told["charts"]] == ["reward", "eval reward", "entropy", "clip fraction"]
    for chart, plan in zip(told["charts"], PLANS, strict=True):
        assert chart["ema"] == plan.ema
        for series in chart["series"]:
            last = model.metrics.series[series["metric"]].last()
            assert last is not None and (series["step"], series["value"]) == last
    now = now_lines(model.status, model.metrics, model.groups)
    assert told["now"] == [{"name": name, "text": text} for name, text, _ in now]
    checkup = Checkup()
    checkup.look(model)
    assert told["health"]["rules"] == len(checkup.findings)
    assert told["events"][-1]["message"] == "The task app answered 500 to the last 8 episodes."


@pytest.mark.parametrize("columns", [60, 99, 100, 160])
def test_overview_once_fits_the_columns_and_has_no_colours(rltui, here, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    write(here, "failed")
    out = rltui("overview", "failed", "--once").out
    assert max(map(width, out.splitlines())) <= columns and "\x1b" not in out
    for words in ("failed-rl_0000000000000001", "step 30/30", "reward", "rules speak", "The task app answered 500"):
        assert words in out


def test_overview_of_the_past_has_the_numbers_of_then_in_text_and_data(rltui, here):
    write(here)
    told = last_object(rltui("overview", "healthy", "--at", "20", "--json").out)
    charts = {one["metric"]: one["value"] for chart in told["charts"] for one in chart["series"]}
    assert told["step"] == 20 and told["reward"] == charts["reward/mean"] is not None
    assert 0 <= told["eval_reward"] <= 1 and told["status"]["latest"]["eval/reward_mean"] == told["eval_reward"]
    assert f"elapsed {duration(told['status']['elapsed_s'])}" in rltui("overview", "healthy", "--at", "20").out


def test_overview_of_a_run_that_wrote_nothing_yet_says_so(rltui, here):
    (here / "runs" / f"young-rl_{1:016x}").mkdir(parents=True)
    done = rltui("overview", "young")
    assert done.code == 0 and "Waiting for the first step" in done.out and "no values yet" in done.out


def test_overview_follows_until_the_end(rltui, here):
    write(here)
    lines = rltui("overview", "healthy", "--follow").out.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["succeeded"]


def test_events_are_a_timeline(rltui, here):
    write(here, "resumed")
    done = rltui("events", "resumed", "--last", "3")
    assert [line.split("  ")[1].strip() for line in done.out.splitlines()] == ["step 30"] * 3
    every = last_object(rltui("events", "resumed", "--all", "--json").out)["events"]
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    some = last_object(rltui("events", "resumed", "--json", "--after", "20").out)["events"]
    assert some and all(event["seq"] > 20 and event["type"] != "rl.train.step" for event in some)
    assert {event["attempt"] for event in every} == {1, 2}


@pytest.fixture
def growing(here, monkeypatch):
    """A run that this process writes on while it is looked at, to its end."""
    monkeypatch.setattr(synth_attempt, "_ALIVE_KINDS", {"healthy"})
    folder = here / "runs" / f"live-rl_{2:016x}"
    rest = play(folder, SynthConfig(episodes=480, seed=2, learner_blocks=False))
    next(rest)
    going = threading.Thread(target=lambda: [None for _ in rest])
    going.start()
    yield folder
    going.join()


def test_events_are_followed_an_object_a_line_until_the_run_ends(rltui, growing):
    done = rltui("events", "live", "-f", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0 and events[-1]["type"] == "rl.job.completed"
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs)) and all(event["schema"] == 1 for event in events)


def test_logs_merge_fold_filter_and_cut(rltui, here):
    folder = write(here)
    logs = RunPaths(folder).logs
    with (logs / "learner-0.log").open("a") as file:
        file.write("loading 1/3\rloading 2/3\rloading 3/3\n\x1b]52;c;eA==\x07red \x1b[31mWARNING\x1b[0m line\n")
    out = rltui("logs", "healthy", "--file", "learner-0").out.splitlines()
    assert out[-2:] == ["loading 3/3", "red WARNING line"]
    told = last_object(rltui("logs", "healthy", "--level", "warning", "--json").out)
    assert told["lines"] and {line["level"] for line in told["lines"]} <= {"warning", "error"}
    assert {log["name"] for log in told["logs"]} >= {"coordinator.log", "learner-0.log"}
    assert len(rltui("logs", "healthy", "--last", "5").out.splitlines()) == 5
    done = rltui("logs", "healthy", "--file", "lerner-0")
    assert done.code == 2 and "did you mean learner-0?" in done.err


def test_logs_are_followed_to_the_last_line(rltui, growing):
    lines = rltui("logs", "live", "-f", "--file", "coordinator", "--last", "1000").out.splitlines()
    assert lines == (growing / "logs" / "coordinator.log").read_text().splitlines()


def test_hostile_events_cannot_act_on_the_terminal(rltui, here):
    folder = here / "runs" / f"evil-rl_{3:016x}"
    writer = RunWriter(folder, job_id=f"rl_{3:016x}", label="evil", attempt=1)
    writer.event("rl.warning", "\x1b[2J\u202egone\x1b]0;title\x07", step=1, level="warning")
    writer.close()
    out = rltui("events", "evil").out
    assert "gone" in out and not {"\x1b", "\u202e", "\x07"} & set(out)


def test_episodes_that_are_listed_are_named_by_their_order(rltui, here):
    write(here)
    assert "5 of them listed (newest); --last 0 lists all" in rltui("rollouts", "healthy", "--last", "5").out
