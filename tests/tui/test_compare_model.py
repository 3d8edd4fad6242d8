"""What a comparison says: configs key by key, evaluations seed by seed, curves over one axis."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from rltui.look import Look, ThemeFiles
from rltui.model.compare import Comparison
from rltui.model.compared import ComparedRun, short_names
from rltui.model.evaluations import Evaluations
from rltui.model.paired import paired
from rltui.model.run import RunModel
from rltui.screens.compare.runs import OutcomeRows, plan
from rltui.sources.local import LocalRunSource
from rltui.terminal.capabilities import ColorMode
from tests.tui.app_driver import run_in
from tests.tui.configured_run import configured
from trainer.rundir.reader import RunReader

RATE = "0.002"  # of the demo


def read(*paths: Path) -> Comparison:
    comparison = Comparison([ComparedRun(path, LocalRunSource(path)) for path in paths])
    for run in comparison.runs:
        while run.refresh()[1]:
            pass
    return comparison


def test_configs_differ_by_value_and_type_and_free_tables_by_key(tmp_path):
    runs = [
        configured(tmp_path, "a", 1, "rollout.env_config={low = 1, high = 8}"),
        configured(tmp_path, "b", 2, "rollout.env_config={low = 1, high = 9}", "training.learning_rate=7e-4"),
        configured(tmp_path, "c", 3, "rollout.env_config={low = 1}", "training.learning_rate=7e-4"),
    ]
    (runs[2] / "resolved.json").rename(runs[2] / "resolved.1.json")
    found = {key.name: key for key in read(*runs).config()}
    assert [name for name, key in found.items() if key.differs] == ["rollout.env_config.high", "training.learning_rate"]
    assert not found["rollout.env_config.low"].differs
    values = found["training.learning_rate"].values
    assert [(value.runs, value.text) for value in values] == [((0,), RATE), ((1,), "0.0007")]  # nothing known of c
    (runs[2] / "resolved.1.json").rename(runs[2] / "resolved.json")
    found = {key.name: key for key in read(*runs).config()}
    high = found["rollout.env_config.high"].values
    assert [(value.runs, value.text) for value in high] == [((0,), "8"), ((1,), "9"), ((2,), "not there")]
    assert [value.runs for value in found["training.learning_rate"].values] == [(0,), (1, 2)]


def test_an_evaluation_by_seed_is_what_the_record_has(tmp_path):
    path = run_in(tmp_path, "a", episodes=640)
    model = RunModel(LocalRunSource(path))
    evaluations = Evaluations(model.episodes)
    more = True
    while more:
        more = model.refresh().more
        more |= evaluations.refresh(0.0)[1]
    rows = [row for row in RunReader(path).index() if row["split"] == "eval" and row["iteration"] == 20]
    last = evaluations.at(None)
    assert [one.iteration for one in evaluations.found] == [0, 10, 20]
    assert last is not None and last.rewards == {row["seed"]: row["R"] for row in rows} and len(last.rewards) == 8
    assert last.mean == pytest.approx(model.metrics.latest["eval/reward_mean"])
    assert evaluations.at(39).iteration == 10 and evaluations.at(-1) is None
    assert {played[0].n for played in last.seeds.values()} == {row["n"] for row in rows}


def test_an_evaluation_that_was_played_again_counts_once_and_as_it_was_at_last(tmp_path):
    path = run_in(tmp_path, "a", "resumed", episodes=1280)  # attempt 1 ends at iteration 20, attempt 2 begins at 16
    comparison = read(path, run_in(tmp_path, "b", number=2))
    found = comparison.runs[0].evaluations.found
    assert [one.iteration for one in found] == [0, 10, 20, 30, 40]
    again = next(one for one in found if one.iteration == 20)
    assert {RunReader(path).index(played[0].n, played[0].n + 1)[0]["attempt"] for played in again.seeds.values()} == {2}
    assert len(again.rewards) == 8


def test_a_wide_difference_is_told_and_evaluations_up_to_a_step_are_compared(tmp_path):
    runs = [run_in(tmp_path, name, episodes=640, number=i + 1) for i, name in enumerate("ab")]
    comparison = read(*runs)
    comparison.at = 20
    test = comparison.tests()[1]
    first, second = (run.evaluations.at(20).rewards for run in comparison.runs)
    assert test.mean == pytest.approx(sum(second[seed] - first[seed] for seed in first) / 8)
    assert comparison.tests()[0] is None and "step 20" in comparison.sentence(0)
    comparison.baseline = 1
    assert comparison.tests()[0].mean == pytest.approx(-test.mean)
    comparison.at = -5
    assert comparison.sentence(0) == "no evaluation is recorded up to step -5" and comparison.seeds() == []


def test_runs_that_are_evaluated_otherwise_are_said_to_be(tmp_path):
    runs = [configured(tmp_path, "a", 1), configured(tmp_path, "b", 2, "evaluation.temperature=0.5")]
    assert read(*runs).sentence(1).endswith("evaluated differently: evaluation.temperature")


def test_runs_whose_rewards_are_different_things_are_said_to_be(tmp_path):
    blends = ("{env = 1.0}", "{env = 0.5, outcome = 0.5}")
    runs = [
        configured(tmp_path, name, i + 1, "judge.enabled=true", f"judge.reward_blend={blend}")
        for i, (name, blend) in enumerate(zip("ab", blends, strict=True))
    ]
    comparison = read(*runs)
    assert comparison.unlike_rewards(0) == []
    assert set(comparison.unlike_rewards(1)) >= {"judge.reward_blend.env", "judge.reward_blend.outcome"}
    assert comparison.sentence(1).startswith("the two rewards are different things (judge.reward_blend.env")
    tests = [None, paired({seed: 0.2 for seed in range(9)}, {seed: 0.2 + 0.01 * seed for seed in range(9)})]
    look = Look(ThemeFiles().load("dark"), ColorMode.NONE, ascii=True)
    rows = OutcomeRows()
    for unlike, p in (([False, False], tests[1].p), ([False, True], None)):
        rows.update(comparison.outcomes(), comparison.names, tests, unlike)
        line = "".join(part.text for part in rows.cells(1, 200, look))
        assert ("unlike" in line) == (p is None)


def test_a_judge_that_is_off_makes_no_reward(tmp_path):
    runs = [configured(tmp_path, "a", 1), configured(tmp_path, "b", 2, "judge.reward_blend={env = 0.5, outcome = 0.5}")]
    assert read(*runs).unlike_rewards(1) == []


def test_the_step_of_the_best_evaluation_stands_beside_it():
    titles = [column.title for column in plan(220).columns]
    assert titles[titles.index("best eval") + 1] == "best at" and "at step" not in titles


def test_metrics_that_a_run_does_not_have_are_listed_by_name(tmp_path):
    comparison = read(run_in(tmp_path, "a", judge=True), run_in(tmp_path, "b", number=2))
    missing = comparison.missing()
    assert {one.name for one in missing} >= {"judge/latency", "judge/failed"} and all(
        one.runs == (1,) for one in missing
    )


def test_curves_lie_where_their_run_was(tmp_path):
    comparison = read(run_in(tmp_path, "a", episodes=320), run_in(tmp_path, "b", episodes=320, number=2, group_size=16))
    overlay = comparison.overlay
    assert [one.index for one in overlay.series("reward/mean", "ab", 1)] == [1, 0]
    for axis, reach in (("step", [20, 10]), ("episodes", [320, 320])):
        overlay.axis = axis
        series = overlay.series("reward/mean", "ab")
        assert [one.pyramid.range()[1] for one in series] == reach
        assert series[0].pyramid is overlay.series("reward/mean", "ab")[0].pyramid  # a chart keeps its average
    overlay.axis = "time"
    path = comparison.runs[0].path
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    last = next(line["time"] for line in reversed(lines) if "reward/mean" in line)
    began = datetime.fromisoformat(json.loads((path / "status.json").read_text())["created_at"]).timestamp()
    assert overlay.series("reward/mean", "ab")[0].pyramid.range()[1] == pytest.approx(last - began)


def test_a_run_that_cannot_be_read_is_named_and_hides_no_other(tmp_path):
    good, bad = run_in(tmp_path, "a"), run_in(tmp_path, "b", number=2)
    (bad / "status.json").write_text("{torn")
    comparison = read(good, bad)
    outcomes = comparison.outcomes()
    assert [one.state for one in outcomes] == ["succeeded", "unreadable"] and "damaged" in (outcomes[1].error or "")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a-rl_0011", "b-rl_0022"], ["a", "b"]),
        (["a-rl_990011", "a-rl_880022", "b-rl_3"], ["a~0011", "a~0022", "b"]),
        (["a-rl_1aaaa", "a-rl_2aaaa"], ["a~1aaaa", "a~2aaaa"]),
        (["one", "two"], ["one", "two"]),
    ],
)
def test_names_are_short_and_differ(names, short):
    assert short_names(names) == short
