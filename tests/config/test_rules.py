"""What rules and derivations make of right configs. The errors of rules: test_rules_errors.py."""

import pytest


@pytest.mark.parametrize(
    ("per_batch", "batches", "size", "nearest", "next_per_batch"),
    [(32, 1, 5, "4, 8", 35), (10, 3, 4, "3, 5", 12), (7, 1, 5, "7", 10), (8, 1, 64, "8", 64)],
)
def test_fixes_of_the_batch_arithmetic_are_valid(
    errors, small, per_batch: int, batches: int, size: int, nearest: str, next_per_batch: int
) -> None:
    keys = [f"rollout.episodes_per_batch={per_batch}", f"rollout.batches_per_step={batches}"]
    [problem] = errors(*keys, f"training.group_size={size}")
    assert f"(nearest: {nearest})" in problem.allowed
    assert problem.fix.endswith(f"rollout.episodes_per_batch={next_per_batch}")
    small(*keys, f"training.group_size={size}", f"rollout.episodes_per_batch={next_per_batch}")


def test_update_size_with_accumulation(small) -> None:
    numbers = small(
        "training.batch_size=4",
        "training.gradient_accumulation_steps=5",
        "training.max_accumulated_minibatch=3",
        "training.num_epochs=2",
    ).derived
    assert numbers == {"E": 32, "U": 12, "m": 3, "groups": 8, "iterations": 6, "steps": 18}


def test_a_broken_value_silences_the_rules_that_read_it(errors) -> None:
    assert [p.code for p in errors('training.group_size="5"', "rollout.episodes_per_batch=1")] == [
        "type",
        "type",
    ]


def test_old_per_achievement_runs_as_gspo_token(small) -> None:
    loaded = small("training.rewards.step_rewards_strategy=per_achievement")
    assert loaded.config.algorithm.variety == "gspo_token"
    assert loaded.config.training.rewards.step_rewards_strategy == "per_turn"
    assert {item.code for item in loaded.warnings} == {"old_value", "gspo_token"}


def test_zero_beta_with_decision_stepwise_is_one(small) -> None:
    rewards = "training.rewards.step_rewards_"
    loaded = small(f"{rewards}enabled=true", f"{rewards}mode=decision_stepwise", f"{rewards}beta=0.0")
    assert loaded.config.training.rewards.step_rewards_beta == 1.0
    assert loaded.origins[f"{rewards}beta"].kind == "derived"


def test_blend_follows_the_judge(small) -> None:
    assert small("judge.enabled=true").blend == {"env": 0.5, "event": 0.0, "outcome": 0.5}
    only_events = small("judge.enabled=true", "judge.options.outcome=false", "judge.options.event=true")
    assert only_events.blend == {"env": 0.5, "event": 0.5, "outcome": 0.0}
    without_env = small("judge.enabled=true", "rollout.rubric_rewards_only=true")
    assert without_env.blend["env"] == 0.0


def test_rules_about_groups_are_silent_while_the_episodes_are_no_whole_groups(errors) -> None:
    [problem] = errors("training.group_size=5", "data.seed_count=3", "rollout.max_refill_groups=7")
    assert problem.key == "training.group_size"


@pytest.mark.parametrize(
    ("batch_size", "words"),
    [
        (6, ["6 / 4 = 1.5 groups an update", "32 / 6 = 5.33 updates: the last of an iteration has 2 sequences"]),
        (12, ["32 / 12 = 2.67 updates: the last of an iteration has 8 sequences"]),
        (2, ["2 / 4 = 0.5 groups an update"]),
        (16, []),
        (32, []),
        (40, []),  # one update; another note says so
    ],
)
def test_updates_that_split_groups_or_are_smaller_are_noted(small, batch_size: int, words: list[str]) -> None:
    notes = [item for item in small(f"training.batch_size={batch_size}").warnings if item.code == "uneven_updates"]
    assert bool(notes) == bool(words)
    assert all(item.level == "note" and all(word in item.why for word in words) for item in notes)
