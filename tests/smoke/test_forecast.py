"""The sums of the forecast, worked by hand."""

import statistics

import pytest

from rltui.smoke.forecast import forecast_of, last_context, quantile
from rltui.smoke.report import Episode, Plan, Turn

PLAN = Plan(iterations=20, episodes_per_iteration=64, group_size=4, concurrency=32, max_turns=4, max_tokens=100, gpus=2)


def episode(
    seconds: float, policy_seconds: float, *calls: tuple[int, int], policy: str = "self", n: int = 0
) -> Episode:
    """calls: (prompt tokens, tokens of the answer)"""
    turns = tuple(Turn(({"role": "user"},), "ab", (), 0.1, tokens, prompt_tokens=prompt) for prompt, tokens in calls)
    return Episode(n, n, 0, turns, (), 1.0, 1.0, seconds=seconds, policy_seconds=policy_seconds, policy=policy)


FOUR = [episode(seconds, seconds / 2 + 0.5, (10, 5), (30, 5)) for seconds in (1.0, 2.0, 3.0, 4.0)]


def test_without_a_burst_the_iteration_is_the_mean_shared_by_all_at_once():
    found = forecast_of(FOUR, PLAN)
    assert found.minutes_per_iteration == pytest.approx(64 * 2.5 / 32 / 60)
    assert found.hours == pytest.approx(20 * 5 / 3600) and found.gpu_hours == pytest.approx(2 * 20 * 5 / 3600)
    assert (found.episode_p50_s, found.episode_p95_s) == (2.5, pytest.approx(3.85))
    assert found.policy_share == pytest.approx((0.5 * 10 + 4 * 0.5) / 10) and found.bound == "inference"
    assert (found.turns_mean, found.turns_max, found.tokens_mean) == (2, 2, 35)
    assert any("64 episodes x 2.5 s / 32 at once = 5 s, if many" in text for text in found.inputs)
    assert any("20 iterations x 5 s = 1 m 40 s at least" in text for text in found.inputs)


def test_a_burst_is_what_concurrency_really_gives():
    found = forecast_of(FOUR, Plan(2, 64, 4, 32, burst_episodes=32, burst_seconds=16.0))
    assert found.minutes_per_iteration == pytest.approx(64 * 0.5 / 60)
    assert any("32 episodes at once took 16 s: 0.5 s each" in text for text in found.inputs)
    assert found.gpu_hours is None


def test_an_iteration_takes_one_episode_at_least():
    found = forecast_of(FOUR, Plan(2, 4, 4, 32, burst_episodes=32, burst_seconds=3.2))
    assert found.minutes_per_iteration == pytest.approx(2.5 / 60)
    assert forecast_of(FOUR, Plan(2, 4, 4, 32)).minutes_per_iteration == pytest.approx(2.5 / 60)


def test_records_are_counted_in_bytes():
    """A turn: {"role": "user"} is 16 bytes, "ab" with its quotes 4; two of them. 35 tokens of 23 bytes."""
    found = forecast_of(FOUR, PLAN)
    assert found.disk_bytes == 20 * 64 * (2 * 20 + 35 * 23)
    assert any("1280 episodes x 845 bytes = 1 MB;" in text for text in found.inputs)


def test_without_a_config_only_the_episodes_are_told():
    found = forecast_of(FOUR, Plan())
    assert found.episode_p50_s == 2.5
    assert (found.minutes_per_iteration, found.hours, found.gpu_hours, found.disk_bytes) == (None,) * 4


def test_a_persons_time_is_no_part_of_it():
    found = forecast_of([episode(60.5, 60.0, (1, 1), policy="human")], PLAN)
    assert found.episode_p50_s == 0.5 and found.policy_share is None and found.bound == ""
    assert found.minutes_per_iteration == pytest.approx(64 * 0.5 / 32 / 60)


def test_mock_answers_say_nothing_of_the_model():
    found = forecast_of([episode(1.0, 0.0, (1, 100), policy="mock")] * 4, PLAN)
    assert found.bound == "" and not found.warnings
    assert any("no model played" in text for text in found.inputs)


@pytest.mark.parametrize(
    ("episodes", "plan", "words"),
    [
        (FOUR[:2], PLAN, "only 2 episodes"),
        ([episode(1, 1, *[(1, 1)] * 4)] * 4, PLAN, "4 of 4 episodes used all 4 turns"),
        ([episode(1, 1, (1, 100), (1, 2))] * 4, PLAN, "4 of 8 answers were cut at policy.max_tokens = 100"),
        ([episode(1, 1, (60, 4))] * 4, Plan(max_model_len=64), "filled vllm.max_model_len = 64"),
        ([], PLAN, "no episode finished"),
    ],
)
def test_what_is_warned_of(episodes, plan, words):
    assert any(words in text for text in forecast_of(episodes, plan).warnings)


def test_an_excluded_episode_is_not_timed():
    late = Episode(9, 9, 0, (), (), None, None, excluded="timeout", sentence="late", seconds=600.0, policy="self")
    assert forecast_of([*FOUR, late], PLAN) == forecast_of(FOUR, PLAN)


def test_quantiles_are_those_of_the_library():
    values = [3.0, 1.0, 9.0, 4.0, 7.5]
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    assert [quantile(values, i / 20) for i in range(1, 20)] == pytest.approx(cuts)
    assert quantile([2.0], 0.95) == 2.0


def test_a_context_is_known_only_if_every_call_is_counted():
    turns = (Turn((), "", (), 0.0, 3, prompt_tokens=4), Turn((), "", (), 0.0))
    assert last_context(Episode(0, 0, 0, turns, (), 1.0, 1.0)) is None
    refused = (turns[0], Turn((), "", (), 0.0, error="429 call_limit"))
    assert last_context(Episode(0, 0, 0, refused, (), 1.0, 1.0)) == 7
