"""Each rule fires on a record made for it, is content with a healthy one, and has no data where nothing is recorded."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from rltui.doctor.doctor import Doctor
from rltui.doctor.record import Record
from rltui.doctor.report import document, key_words
from rltui.doctor.rule import State
from rltui.doctor.rules import RULES
from tests.doctor.records import BY_ID, HEALTHY, START, STEP_S, STEPS, read, record, resolved, states

LATE = {"heartbeat": START + STEPS * STEP_S + 600}
DERIVED_LEAF = {"value": 512, "origin": "derived", "at": "a.toml:3:1", "note": "the model has no more"}


def halves(first: float, then: float) -> list[float]:
    return [first] * (STEPS // 2) + [then] * (STEPS - STEPS // 2)


def spike(at: int, value: float) -> list[float]:
    return [value if i == at else 1.0 + 0.01 * (i % 3) for i in range(STEPS)]


FLAT = [0.4 + 0.02 * (-1) ** i for i in range(STEPS)]
# rule: (series, further arguments of `record`, state, what its sentence must hold)
FIRES: list[tuple[str, dict[str, Any], dict[str, Any], State, str]] = [
    ("D01", {"reward/frac_zero_std": 0.46, "reward/frac_all_bad": 0.4}, {}, State.WATCH, "40 % all bad"),
    ("D01", {"reward/frac_zero_std": 0.95}, {}, State.ACT, "95 %"),
    ("D02", {"reward/mean": FLAT}, {}, State.WATCH, "give or take"),
    ("D03", {"reward/mean": halves(0.6, 0.4)}, {}, State.WATCH, "0.600 at its best"),
    ("D03", {"reward/mean": halves(0.6, 0.2)}, {"status": {"best": {"step": 50}}}, State.ACT, "step 50"),
    ("D04", {"eval/reward_mean": {0: 0.2, 120: 0.55}}, {}, State.WATCH, "with temperature 1 and 0."),
    (
        "D04",
        {"eval/reward_mean": {0: 0.2, 120: 0.55}},
        {"config": {"evaluation.temperature": 0.7, "policy.top_p": 0.9, "evaluation.thinking_mode": "no_think"}},
        State.WATCH,
        "with temperature 1 and 0.7, top_p 1 and 0.9, thinking_mode not set and no_think.",
    ),
    ("D04", {"eval/reward_mean": {0: 0.2, 120: 0.3}}, {}, State.ACT, "evaluation 0.300"),
    ("D05", {"eval/episodes": {0: 12, 60: 12, 120: 12}}, {}, State.OK, "12 different"),
    ("D05", {"eval/reward_mean": {0: 0.2, 120: 0.24}}, {}, State.WATCH, "200 different"),
    # Greedy repeats of few seeds are no more than the seeds.
    ("D05", {}, {"config": {"evaluation.seeds": [1, 2, 3]}}, State.WATCH, "3 different"),
    ("D06", {"judge/agreement": 0.1}, {}, State.WATCH, "0.10"),
    ("D06", {"judge/agreement": -0.4}, {}, State.ACT, "-0.40"),
    ("D06", {"reward/env": [1 - 0.004 * i for i in range(STEPS)]}, {}, State.WATCH, "while the task's reward falls"),
    ("D07", {"reward/outcome": None}, {}, State.WATCH, "outcome (weight 0.5) was never recorded"),
    ("D07", {"reward/env": 0.0}, {}, State.WATCH, "env (weight 0.5) is 0 all the time"),
    ("D08", {"entropy": halves(1.2, 0.1)}, {}, State.WATCH, "0.100 now"),
    ("D08", {"entropy": halves(1.2, 0.01)}, {}, State.ACT, "1.200"),
    ("D08", {"entropy": halves(1.2, 3.0)}, {}, State.WATCH, "3.000 now"),
    ("D08", {"optim/grad_norm": halves(1.0, 0.0)}, {}, State.ACT, "exactly 0 since step 101"),
    ("D09", {"length/mean": halves(200, 500), "reward/mean": FLAT}, {}, State.WATCH, "the reward is flat"),
    ("D09", {"length/mean": halves(200, 500)}, {}, State.OK, "still rises"),
    ("D10", {"length/truncated": 0.2}, {}, State.WATCH, "limit of tokens"),
    ("D10", {"stop/max_turns": 0.7, "reward/mean": FLAT}, {}, State.ACT, "limit of turns"),
    ("D10", {"length/truncated": 0.7}, {}, State.WATCH, "The reward is not flat"),
    ("D10", {"length/truncated": 0.7, "reward/frac_all_good": 0.9}, {}, State.OK, "full reward all the same"),
    # An iteration in which none ended so has no value for it.
    ("D10", {"stop/context_overflow": {110: 0.5}}, {}, State.OK, ""),
    ("D11", {"gspo/clip_noise_floor": 0.2}, {}, State.WATCH, "noise alone would clip 20 %"),
    ("D11", {"gspo/clip_noise_floor": 0.4, "gspo/clip_frac_low": 0.4}, {}, State.ACT, "40 %"),
    ("D11", {"gspo/clip_frac_high": 0.25}, {}, State.WATCH, "30 %"),
    ("D12", {"gspo/ratio_min": 1.0, "gspo/ratio_max": 1.0}, {}, State.WATCH, "0 at most"),
    ("D13", {"logp_gap/mean": halves(0.015, 0.03)}, {}, State.WATCH, "at lag 0"),
    ("D13", {"logp_gap/mean": halves(0.015, 0.2)}, {}, State.ACT, "0.200"),
    ("D13", {"logp_gap/mean": halves(6e-6, 6e-5)}, {}, State.OK, ""),
    # A gap at lag says nothing: old weights explain it.
    ("D13", {"logp_gap/mean": halves(0.015, 0.2), "off_policy/max": halves(0, 2)}, {}, State.NONE, "has 0"),
    ("D14", {"mismatch_kl/mean": [0.001] * 100 + [0.005] * 20}, {}, State.WATCH, "50 steps before"),
    ("D15", {"ess": 15.0}, {}, State.WATCH, "52 %"),
    ("D15", {"ess": 3.0}, {}, State.ACT, ""),
    ("D15", {"gspo/ratio_out_of_band_frac": 0.1}, {}, State.WATCH, "outside what noise explains"),
    ("D15", {"ess": 15.0, "off_policy/max": 1.0}, {}, State.WATCH, "all alike."),
    ("D16", {"off_policy/max": 6.0}, {}, State.WATCH, "6 steps behind"),
    ("D16", {"off_policy/dropped": 2.0}, {}, State.WATCH, "too old"),
    ("D17", {"batch/trainable_frac": 0.3, "reward/frac_zero_std": 0.6}, {}, State.WATCH, "equal rewards"),
    ("D17", {"batch/trainable_frac": 0.05, "error/timeout": 30.0}, {}, State.ACT, "timeouts"),
    ("D18", {"canary/failed": {100: 0.0, 120: 1.0}}, {}, State.ACT, "1 checks"),
    ("D18", {"canary/slope": {100: 1.0, 120: 0.1}}, {}, State.ACT, "0.10 times"),
    ("D18", {"canary/residual": {120: 0.05}}, {}, State.WATCH, "noise of a right sync"),
    ("D18", {"canary/undecided": {120: 6.0}}, {}, State.WATCH, "6 checks in a row"),
    ("D19", {"time/weight_sync": 1.2}, {}, State.WATCH, "20 % of the step, 1.2 s"),
    ("D19", {"time/weight_sync": 0.3, "time/step": 1.0}, {}, State.OK, "30 % of the step, 0.3 s"),
    ("D19", {}, {"status": {"weight_updates": 100}}, State.ACT, "weights of step 100"),
    ("D20", {"optim/update_ratio": 0.03}, {}, State.WATCH, "10^-1.5"),
    ("D20", {"optim/update_ratio": 0.3}, {}, State.ACT, ""),
    ("D21", {"optim/update_ratio": 1e-5, "reward/mean": FLAT}, {}, State.WATCH, "the reward is flat"),
    ("D21", {"optim/update_ratio": 1e-5}, {}, State.OK, ""),
    ("D22", {"optim/grad_norm": spike(100, 40.0)}, {}, State.WATCH, "at step 101"),
    (
        "D22",
        {"optim/clipped_frac": 0.6, "optim/grad_norm": spike(100, 6.0)},
        {},
        State.WATCH,
        "clipped to training.max",
    ),
    ("D22", {"optim/clipped_frac": 0.6}, {}, State.OK, ""),
    ("D23", {"optim/skipped": [float(i == 110) for i in range(STEPS)]}, {}, State.WATCH, "step 111"),
    ("D23", {"optim/skipped": [float(i > 116) for i in range(STEPS)]}, {}, State.ACT, "3 of the last 50"),
    ("D23", {"optim/skipped": 1.0, "batch/trainable_frac": 0.0}, {}, State.OK, "Every step was finite"),
    ("D23", {"gspo/loss": [nan if i == 100 else 0.1 for i in range(STEPS)]}, {}, State.WATCH, "1 of the last 50"),
    ("D24", {}, {"config": {"training.lora.dropout": 0.1}}, State.WATCH, "0.1 is written"),
    ("D25", {}, {"config": {"policy.top_p": 0.9}}, State.WATCH, "policy.top_p = 0.9"),
    ("D25", {"tokens/sampling_forced": 3.0}, {}, State.WATCH, "60 settings"),
    ("D26", {"tokens/fork": 5.0}, {}, State.WATCH, "fork"),
    ("D26", {"tokens/realign": 20.0}, {}, State.WATCH, "realigned"),
    ("D27", {"error/http_error": {i: 2.0 for i in range(101, 121)}}, {}, State.WATCH, "most often http_error"),
    ("D27", {"error/timeout": 20.0}, {}, State.ACT, "timeout"),
    ("D27", {}, {"walls": ([2.0] * 60, [9.0] * 60)}, State.WATCH, "at first it was 2.0 s"),
    ("D28", {"judge/failed": 2.0}, {}, State.WATCH, "never counted as 0"),
    ("D28", {"judge/latency": 20.0}, {}, State.WATCH, "the limit is 30 s"),
    ("D28", {"time/wait_for_judge": 1.2}, {}, State.WATCH, "waiting for the judge"),
    (
        "D28",
        {},
        {"status": {"pipeline": {"judge_in_flight": 10, "judge_queued": 40}}},
        State.WATCH,
        "10 judgements are under way",
    ),
    (
        "D28",
        {"judge/failed": None, "judge/latency": None, "time/wait_for_judge": None},  # no iteration has closed
        {"judge_calls": [(1, "judge_unparsable")] * 64 + [(1, "judge_transient")], "step": 0},
        State.ACT,
        "65 of the newest 65 tries at the judge gave no score: 64 replies could not be read, 1 by judge_transient",
    ),
    ("D28", {}, {"judge_calls": [(1, ""), (2, "judge_unparsable"), *[(3, "")] * 7]}, State.WATCH, "1 replies"),
    ("D29", {"time/wait_for_batch": 3.0}, {}, State.WATCH, "50 % of the step for episodes"),
    ("D29", {"time/wait_for_straggler": 1.2}, {}, State.WATCH, "one slow episode"),
    ("D29", {"time/wait_for_eval": 1.2}, {}, State.WATCH, "an evaluation"),
    ("D30", {"time/wait_for_policy": 3.0}, {"config": {"training.max_lag": 0}}, State.WATCH, "take turns"),
    ("D30", {"rollouter/idle_ratio": 0.7}, {}, State.WATCH, "Nothing generates"),
    (
        "D31",
        {"system/gpu_util": halves(0.8, 0.05)},
        {"status": {"waiting": {"for": "judge", "on": "2 judge replies"}}},
        State.WATCH,
        "2 judge replies",
    ),
    ("D31", {"system/gpu_util": 0.05}, {"status": {"phase": "evaluating"}}, State.OK, "evaluating"),
    ("D32", {"system/gpu_mem": 0.97}, {}, State.WATCH, "97 %"),
    ("D32", {"system/gpu_mem": 0.999}, {}, State.ACT, ""),
    ("D32", {"system/alloc_retries": [float(i) for i in range(STEPS)]}, {}, State.WATCH, "19 times"),
    ("D33", {"system/disk_free_gib": 1.5}, {}, State.WATCH, "2 checkpoints of about 0.8 GiB"),
    ("D33", {"system/disk_free_gib": [60 - 0.3 * i for i in range(STEPS)]}, {}, State.ACT, "180.0 GiB"),
    (
        "D34",
        {},
        {"status": {**LATE, "waiting": {"for": "batch", "on": "3 task app replies", "since": START}}},
        State.ACT,
        "waits for the episodes of the next batch, for 3 task app replies since",
    ),
    ("D35", {}, {"status": {"state": "failed", "error": {"code": "process_lost"}}}, State.ACT, "process is gone"),
    ("D35", {}, {"status": {"silent": True}}, State.WATCH, "No sign of life"),
    ("D36", {}, {"config": {"vllm.max_model_len": DERIVED_LEAF}}, State.WATCH, "vllm.max_model_len is 512 here"),
    (
        "D36",
        {},
        {"resolved": resolved(warnings=[{"code": "no_effect", "key": "a.b", "text": "no effect: x", "at": "f:1:1"}])},
        State.WATCH,
        "a.b: no effect",
    ),
]


@pytest.mark.parametrize(
    ("id", "changes", "more", "state", "told"), FIRES, ids=[f"{case[0]}-{case[3]}-{i}" for i, case in enumerate(FIRES)]
)
def test_fires(id, changes, more, state, told):
    reading = read(id, record(changes, **more))
    assert reading.state is state, reading
    assert told in reading.says
    if state in (State.ACT, State.WATCH):
        assert reading.measured and reading.want
        (found,) = Doctor(rules=[BY_ID[id]]).examine(record(changes, **more))
        assert found.state is state


@pytest.mark.parametrize(("waits", "speaks"), [((3.0, 2.9), "D29"), ((2.0, 3.9), "D30")])
def test_of_two_that_take_turns_the_longer_wait_speaks(waits, speaks):
    changes = {"time/wait_for_batch": waits[0], "time/wait_for_policy": waits[1], "rollouter/idle_ratio": 0.6}
    found = record(changes, config={"training.max_lag": 0})
    readings = {id: read(id, found) for id in ("D29", "D30")}
    assert [id for id, reading in readings.items() if reading.state is State.WATCH] == [speaks]
    for reading in readings.values():
        assert reading.keys[0] == "training.max_lag" and len(set(reading.keys)) == len(reading.keys)
    assert key_words("training.max_lag", found) == "training.max_lag (now 0)"


@pytest.mark.parametrize("topology", ["cpu", "colocate"])
def test_of_two_that_share_a_device_the_engine_is_not_told_to_wait_less(topology):
    changes = {"time/wait_for_batch": 2.0, "time/wait_for_policy": 3.9, "rollouter/idle_ratio": 0.6}
    found = record(changes, config={"training.max_lag": 0, "compute.topology.type": topology})
    reading = read("D30", found)
    assert reading.state is State.OK and "share what they compute on" in reading.says
    other = read("D30", record(changes, config={"training.max_lag": 4, "compute.topology.type": topology}))
    assert other.state is State.WATCH
    assert ("compute.topology.gpus_for_training" in other.keys) == (topology != "cpu")


UNIFORM = {"optim/grad_norm": [0.8, 3e4, *[0.0] * (STEPS - 2)], "entropy": [5.1, 5.3, *[5.5568] * (STEPS - 2)]}


def test_a_policy_that_one_step_made_uniform_is_told_after_three_steps():
    """As a rate of 5000 does it: no other rule has enough to go by."""
    assert [read("D08", record(UNIFORM, steps=steps)).state for steps in (4, 5)] == [State.NONE, State.ACT]
    reading = read("D08", record(UNIFORM, steps=12))
    assert (reading.measured, reading.keys) == ("without gradient in 10 steps", ("training.learning_rate",))
    assert "since step 3" in reading.says and "entropy is 5.557" in reading.says
    assert states(record(UNIFORM, steps=12))["D08"] == "act"


@pytest.mark.parametrize(
    "why",
    [
        {"batch/trainable_frac": 0.0},  # there was nothing to learn from
        {"gspo/clip_frac_low": 0.4, "gspo/clip_frac_high": 0.6},  # the clip took all of it
        {"optim/grad_norm": [float(i % 3 > 0) for i in range(STEPS)]},
    ],
)
def test_a_gradient_of_0_that_has_its_reason_is_none_of_the_policy(why):
    assert read("D08", record({"optim/grad_norm": 0.0, **why})).state is State.OK


def test_where_nothing_is_old_the_rate_is_what_leads_off_policy():
    keys = [read("D15", record({"ess": 3.0, "off_policy/max": lag})).keys for lag in (0.0, 1.0)]
    assert keys == [("training.learning_rate",), ()]


@pytest.mark.parametrize(
    ("id", "changes", "line"),
    [
        ("D11", {"gspo/clip_noise_floor": 0.3}, "clipped by noise alone 30 % (want < 10 %)"),
        ("D15", {"gspo/ratio_out_of_band_frac": 0.25}, "ratios out of band 25 % (want < 5.0 %)"),
        ("D16", {"off_policy/dropped": 8.0}, "stale episodes 20 % dropped (want < 1.0 %)"),
        ("D28", {"judge/failed": 2.0}, "episodes without a score 5.9 % (want < 1.0 %)"),
        ("D28", {"judge/latency": 20.0}, "seconds of a judgement 20.0 s (want < 15 s)"),
        ("D28", {"time/wait_for_judge": 1.2}, "wait for the judge 20 % of step (want < 10 %)"),
    ],
)
def test_the_headline_names_the_signal_that_speaks(id, changes, line):
    (found,) = Doctor(rules=[BY_ID[id]]).examine(record(changes))
    assert found.line == line and document([found], record())["findings"][0]["title"] == found.title


def test_a_judge_of_rules_is_not_told_to_take_another_model():
    for changes in ({"judge/failed": 2.0}, {"time/wait_for_judge": 1.2}, {"judge/latency": 20.0}):
        keys = {kind: read("D28", record(changes, config={"judge.type": kind})).keys for kind in ("llm", "rule")}
        assert keys["rule"] and not {"judge.options.model", "judge.options.max_concurrency"} & {*keys["rule"]}
        assert keys["rule"] != keys["llm"]
    crowd = {"pipeline": {"judge_in_flight": 10, "judge_queued": 40}}
    assert read("D28", record(config={"judge.type": "rule"}, status=crowd)).state is State.OK


def test_every_rule_fires_somewhere():
    assert {case[0] for case in FIRES if case[3] in (State.ACT, State.WATCH)} == {rule.id for rule in RULES}
    assert [rule.id for rule in RULES] == [f"D{i:02}" for i in range(1, len(RULES) + 1)]


def test_all_are_content_with_a_healthy_run():
    found = {finding.rule.id: finding for finding in Doctor().examine(record())}
    odd = {id: finding.reading for id, finding in found.items() if finding.state is not State.OK}
    assert odd == {}
    assert all(finding.reading.measured and finding.reading.want for finding in found.values())


def test_without_anything_recorded_none_has_data():
    found = Doctor().examine(Record())
    assert {finding.state for finding in found} == {State.NONE}
    assert all(finding.reading.says for finding in found)


@pytest.mark.parametrize("steps", [1, 2, 5, 30])
def test_an_early_run_is_given_time(steps):
    """What needs a window says so; nothing is judged by a few values."""
    told = states(record(steps=steps))
    assert not {"act", "watch", "broken"} & set(told.values()), told


def test_values_of_other_kinds_break_no_rule():
    """Records come from other versions, and from disks."""
    odd = record(
        status={"pipeline": 3, "waiting": "x", "error": [], "weight_updates": "7", "heartbeat": None, "best": 1},
        environment={"model": []},
        resolved={"values": 3, "derived": [], "warnings": {}, "effective_blend": 1},
        events=[{"created_at": 5, "data": None, "type": 3}],
    )
    assert "broken" not in states(odd).values()


def test_metrics_name_what_is_there():
    """Each rule reads what it says it reads: without those it has no data, or says nothing of act or watch."""
    for rule in RULES:
        if rule.metrics and rule.id != "D07":  # of which a part that was never recorded is what it looks for
            without = record(dict.fromkeys(rule.metrics), walls=((), ()), status={"weight_updates": None})
            assert read(rule.id, without).state in (State.NONE, State.OK), rule.id
    assert {name for rule in RULES for name in rule.metrics} & set(HEALTHY)


def test_the_value_of_a_key_is_the_one_in_force() -> None:
    def asked(new: Any, attempt: int = 2, action: str = "set", type_: str = "rl.control.done") -> dict[str, Any]:
        return {"type": type_, "attempt": attempt, "data": {"action": action, "new": new}}

    leaf = {"value": 0.001, "origin": "file"}
    found = Record(
        status={"attempt": 2},
        resolved={"values": {"training": {"learning_rate": leaf}}},
        events=[
            asked({"training.learning_rate": 0.5}, attempt=1),  # what attempt 2 resolved came later
            asked({"training.learning_rate": 1e-4}),
            asked({"training.learning_rate": 0.7}, type_="rl.control.refused"),
            asked("no table"),
            {"type": "rl.control.done", "attempt": 2, "data": {"action": "pause"}},
        ],
    )
    assert key_words("training.learning_rate", found) == "training.learning_rate (now 0.0001)"
    assert found.leaves["training.learning_rate"]["origin"] == "live"
