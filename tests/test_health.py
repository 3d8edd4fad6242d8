"""What a run says of its own health: by which numbers, how often, and that the Doctor means the same."""

import re

import pytest

from rltui.doctor.bands import defaults
from rltui.doctor.rules import RULES as DOCTORS
from trainer import health
from trainer.config.keys import all_keys
from trainer.health import RULES, Health

FINE = {
    "reward/frac_zero_std": 0.25,
    "reward/frac_all_good": 0.0,
    "reward/frac_all_bad": 0.25,
    "reward/mean": 0.4,
    "optim/grad_norm": 0.7,
    "optim/skipped": 0.0,
    "batch/trainable_frac": 0.75,
    "entropy": 1.2,
    "gspo/clip_frac_low": 0.05,
    "gspo/clip_frac_high": 0.05,
    "gspo/clip_noise_floor": 0.04,
    "gspo/ratio_out_of_band_frac": 0.01,
    "off_policy/max": 0.0,
    "off_policy/dropped": 0.0,
    "canary/undecided": 0.0,
    "judge/failed": 0.0,
}
STILL = {"optim/grad_norm": 0.0, "entropy": 5.557}
CLIPPED = {"gspo/clip_frac_high": 0.4, "gspo/clip_noise_floor": 0.2}
SKIPPED = {"optim/skipped": 1.0}
SICK = [  # rule, its lines, what is said, what to do
    ("D01", [{"reward/frac_zero_std": 1.0}], "all rewards were equal", "raise training.group_size"),
    ("D01", [{"reward/frac_zero_std": 1.0, "reward/frac_all_bad": 1.0}], "equal", "choose easier tasks"),
    ("D01", [{"reward/frac_zero_std": 1.0, "reward/frac_all_good": 1.0}], "equal", "choose harder tasks"),
    ("D08", [STILL] * 3, "exactly 0, the entropy is 5.557", "lower training.learning_rate"),
    (
        "D11",
        [CLIPPED] * 5,
        "45 % of the last 5 steps is clipped, and noise alone would clip 20 %",
        "raise training.clip",
    ),
    ("D15", [{"gspo/ratio_out_of_band_frac": 0.5}] * 5, "50 % of the ratios", "lower training.learning_rate"),
    ("D15", [{"gspo/ratio_out_of_band_frac": 0.5, "off_policy/max": 2.0}] * 5, "50 %", "lower training.max_lag"),
    ("D16", [{"off_policy/dropped": 8.0, "error/stale": 8.0}], "33 % of an iteration's", "lower rollout.max_concurr"),
    ("D16", [{"off_policy/dropped": 4.0}], "25 % of an iteration's", "raise training.max_lag"),  # masked in the batch
    ("D18", [{"canary/undecided": 5.0}], "5 checks", "raise training.weight_sync.verify_every_k"),
    (
        "D23",
        [SKIPPED, {}, SKIPPED],
        "2 of the last 3 steps made no update; three in a row end",
        "lower training.learning_rate",
    ),
    ("D27", [{"error/timeout": 9.0, "error/bad_json": 1.0}], "38 % of", "raise rollout.timeout_s"),
    ("D27", [{"error/http_error": 9.0}], "most often by http_error", "lower rollout.max_concurrent_rollouts"),
    ("D28", [{"judge/failed": 16.0}], "50 % of", "raise judge.timeout_s"),
]
WELL = [
    [{}] * 9,
    [{"reward/frac_zero_std": 0.9}] * 9,
    [STILL, STILL, {}] * 3,
    [STILL | {"gspo/clip_frac_low": 0.5, "gspo/clip_frac_high": 0.5}] * 9,  # the clip took all of it
    [SKIPPED | {"batch/trainable_frac": 0.0, "optim/grad_norm": 0.0}] * 9,  # there was nothing to learn from
    [{"gspo/clip_frac_high": 0.6}] * 9,  # of a policy that moves, not of noise
    [SKIPPED, *[{}] * 49, SKIPPED],
    [{"error/timeout": 3.0, "error/engine_error": 30.0, "judge/failed": 3.0, "off_policy/dropped": 3.0}] * 9,
]


def said(lines, of=None):
    """The messages of a run's findings, with their rules."""
    run = of or Health(16)
    return [(told.rule, told.message) for line in lines for told in run.look(FINE | line) if told.times == 1]


@pytest.mark.parametrize(("rule", "lines", "says", "advice"), SICK, ids=[f"{r}-{i}" for i, (r, *_) in enumerate(SICK)])
def test_it_says_once_what_is_wrong_and_what_to_change(rule, lines, says, advice):
    [(told, message)] = said([*lines, *lines])
    assert told == rule and message.startswith(f"{rule}: ") and says in message
    assert message.index(says) < message.index(advice)
    named = set(re.findall(r"\b(?:training|rollout|judge)\.[a-z_.]*[a-z]", message))
    assert named and named <= set(all_keys())


@pytest.mark.parametrize("lines", WELL, ids=range(len(WELL)))
def test_it_is_silent_of_a_run_that_goes_well(lines):
    assert said(lines) == []


def test_a_rule_speaks_again_only_after_three_good_readings():
    """What alternates would be told without end; a line without its metric is no reading at all."""
    bad, good = {"reward/frac_zero_std": 1.0}, {}
    run = Health(16)
    assert len(said([bad, good, bad, good, good, bad], run)) == 1
    between = {name: value for name, value in FINE.items() if not name.startswith("reward/")}
    assert [run.look(between) for _ in range(9)] == [[]] * 9 and not run.is_over("D01")
    assert said([good, good, good], run) == [] and run.is_over("D01")
    assert len(said([bad], run)) == 1 and not run.is_over("D01")
    assert not run.is_over("task_app"), "a warning of another kind"


def test_weights_that_had_to_be_sent_twice_are_told_until_the_canary_is_content():
    run = Health(16)
    [told] = run.resent(4)
    assert "weight version 4" in told.message and told.found.advice.startswith("lower training.weight_sync.verify")
    assert said([{}, {}, {}], run) == [] and run.is_over("D18")


def test_weights_that_had_to_be_sent_twice_are_news_whatever_the_rule_said_before():
    run = Health(16)
    assert len(said([{"canary/undecided": 5.0}], run)) == 1
    assert [told.times for version in (8, 9) for told in run.resent(version)] == [1, 1]


def test_while_it_speaks_its_figures_are_those_of_the_newest_reading():
    run = Health(16)
    told = [run.look(FINE | {f"error/{code}": n})[0] for code, n in (("http_error", 5.0), ("timeout", 144.0))]
    assert [each.times for each in told] == [1, 2] and "24 %" in told[0].message
    assert "90 %" in told[1].message and "by timeout" in told[1].message


def test_rules_and_bands_are_those_of_the_doctor():
    names = {rule.id: rule for rule in DOCTORS}
    assert set(RULES) <= set(names)
    bands = defaults()
    ours = {
        ("D08", "still"): health.STILL,
        ("D11", "act"): health.CLIPPED,
        ("D11", "floor"): health.FLOOR,
        ("D15", "outside_act"): health.OUTSIDE,
        ("D16", "dropped_act"): health.SHARE,
        ("D18", "undecided"): health.UNDECIDED,
        ("D23", "act"): health.SKIPPED + 1,  # before the third, which ends the run
        ("D27", "act"): health.SHARE,
        ("D28", "act"): health.SHARE,
    }
    assert {place: bands[place[0]][place[1]] for place in ours} == ours
