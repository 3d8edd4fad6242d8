import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.taskapp.codes import CODES, WARNINGS
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import check_against_calls, parse_rollout
from trainer.taskapp.reading import cid_of_url, server_error

CID = "job-1-2-3-0-abc"
URL = f"http://h/v1/chat/completions?cid={CID}"


def parse(**body):
    return parse_rollout({"trace_correlation_id": CID, "inference_url": URL, **body}, cid=CID)


def failure(**body):
    with pytest.raises(RolloutFailure) as caught:
        parse(**body)
    return caught.value


def steps(*rewards, **extra):
    return [{"steps": [{"obs": {}, "reward": r, "info": {"meta": {}}, **extra} for r in rewards]}]


# The places of O in order; a body that holds all from place i on must be read at place i.
PLACES = [
    ("reward_info.outcome_reward", {"reward_info": {"outcome_reward": 1.0}}),
    ("metrics.outcome_reward", {"metrics": {"outcome_reward": 2.0}}),
    ("reward_info.outcome_objectives.reward", {"reward_info": {"outcome_objectives": {"reward": 3.0}}}),
    ("metrics.outcome_objectives.reward", {"metrics": {"outcome_objectives": {"reward": 4.0}}}),
    ("metrics.episode_returns[0]", {"metrics": {"episode_returns": [5.0]}}),
    ("metrics.mean_return", {"metrics": {"mean_return": 6.0}}),
    ("metrics.episode_rewards[0]", {"metrics": {"episode_rewards": [7.0]}}),
    ("metrics.outcome_score", {"metrics": {"outcome_score": 8.0}}),
    ("metrics.reward_mean", {"metrics": {"reward_mean": 9.0}}),
    ("outcome_reward", {"outcome_reward": 10.0}),
    ("steps[].reward", {"trajectories": steps(5.0, 6.0)}),
]


@pytest.mark.parametrize("first", range(len(PLACES)))
def test_the_outcome_is_read_at_the_first_place_that_has_one(first):
    body: dict = {"metrics": {}}
    for _, part in PLACES[first:]:
        for name, value in part.items():
            if isinstance(value, dict):
                body.setdefault(name, {}).update(value)
            else:
                body[name] = value
    parsed = parse(**body)
    assert (parsed.outcome_path, parsed.outcome) == (PLACES[first][0], float(first + 1))


@pytest.mark.parametrize(
    "body",
    [
        {
            "metrics": {"episode_returns": [0.5], "mean_return": 0.5, "num_steps": 2},
            "trajectories": steps(0, 0.5),
        },
        {"metrics": {"mean_return": 0.5}},
        {"metrics": {"outcome_reward": 0.5, "episode_rewards": [], "reward_mean": 0.0}},
        {"metrics": {"outcome_reward": None, "episode_rewards": [0.5], "reward_mean": 0.0}},
        {"metrics": {"outcome_reward": 0.5}, "trace": {"event_history": [{"call_records": []}]}},
        {"reward_info": {"outcome_reward": 0.5, "event_rewards": [0.1]}},
    ],
    ids=["0.4.1", "0.4.3", "0.4.10", "0.4.10-list", "0.4.12", "after"],
)
def test_every_era_parses(body):
    assert parse(**body).outcome == 0.5


def test_an_unset_reward_mean_does_not_hide_the_steps():
    unset = {"reward_mean": 0.0, "episode_rewards": []}
    assert parse(metrics=unset, trajectories=steps(0.25, 0.5)).outcome == 0.75
    alone = parse(metrics=unset)
    assert alone.outcome == 0.0 and alone.outcome_path == "metrics.reward_mean"
    assert "defaulted_reward_mean" in alone.warnings


def test_several_returns_mean_and_warn():
    parsed = parse(metrics={"episode_returns": [1.0, 0.0], "mean_return": 0.5})
    assert parsed.outcome == 0.5 and parsed.outcome_path == "metrics.mean_return"
    assert "multiple_episodes" in parsed.warnings
    assert parse(metrics={"episode_returns": [1.0, 0.0, 0.5]}).outcome == 0.5


def test_no_place_of_the_outcome_has_a_number():
    assert failure(metrics={}).code == "reward_missing"
    assert failure(metrics={"episode_returns": []}, trajectories=[{"steps": [{"obs": {}}]}]).code == "reward_missing"


@pytest.mark.parametrize("value", [True, "0.5", math.nan, math.inf, -math.inf, 10**400, [1], {"total": 1}])
@pytest.mark.parametrize("place", ["outcome", "step", "event", "list"])
def test_a_reward_that_is_no_finite_number_excludes(value, place):
    body = {
        "outcome": {"metrics": {"outcome_reward": value}},
        "step": {"metrics": {"outcome_reward": 1.0}, "trajectories": steps(0.5, value)},
        "event": {"reward_info": {"outcome_reward": 1.0, "event_rewards": [0.0, value]}},
        "list": {"metrics": {"episode_returns": [value]}},
    }[place]
    error = failure(**body)
    path = {
        "outcome": "metrics.outcome_reward",
        "step": "steps[1].reward",
        "event": "reward_info.event_rewards[1]",
        "list": "metrics.episode_returns[0]",
    }[place]
    assert error.code == "reward_not_finite" and error.detail["path"] == path
    assert str(error).startswith(f"the reward at {path} is ") and not error.retryable


def test_a_broken_place_behind_the_first_hit_costs_nothing():
    assert parse(metrics={"outcome_reward": 1.0, "episode_returns": [math.nan, "x"]}).outcome == 1.0


def test_steps_that_sum_to_infinity_are_not_a_reward():
    assert failure(trajectories=steps(1.7e308, 1.7e308)).code == "reward_not_finite"


@pytest.mark.parametrize("body", [None, 3, "x", [], {}, {"ok": 1}, {"metrics": None, "trace": "<circular>"}])
def test_wrong_shapes(body):
    with pytest.raises(RolloutFailure) as caught:
        parse_rollout(body, cid=CID)
    assert caught.value.code == "wrong_shape" and caught.value.evidence == json.dumps(body)[:2000]


def test_more_than_one_trajectory_is_undefined():
    error = failure(metrics={"outcome_reward": 1}, trajectories=steps(1) + steps(0))
    assert error.code == "multiple_trajectories" and str(error) == "2 trajectories in one answer"


@pytest.mark.parametrize(
    "echo",
    [
        {"trace_correlation_id": "other"},
        {"trace_correlation_id": None, "pipeline_metadata": {"trace_correlation_id": "other"}},
        {"trace_correlation_id": None, "trajectories": [{"trace_correlation_id": "other"}]},
        {"trace_correlation_id": None, "run_id": "other"},
        {"inference_url": "http://h/v1/chat/completions?cid=other"},
        {"inference_url": "http://h/cid/other/v1"},
        {"inference_url": "http://h?cid=other/v1/chat/completions"},
        {
            "inference_url": None,
            "trajectories": [{"steps": [{"info": {"meta": {"inference_url": "http://h?cid=other"}}}]}],
        },
        {"inference_url": None, "steps": [{"info": {"meta": {"inference_url": "http://h?cid=other"}}}]},
    ],
)
def test_an_answer_to_another_episode(echo):
    error = failure(metrics={"outcome_reward": 1}, **echo)
    assert error.code == "cid_mismatch" and error.detail == {"other": "other"}


def test_the_first_echo_wins():
    assert parse(metrics={"outcome_reward": 1}, run_id="the app's own number").outcome == 1


def test_warnings_about_echoes_and_meta():
    parsed = parse_rollout({"metrics": {"outcome_reward": 1}, "trajectories": [{"steps": [{}, 5]}]}, cid=CID)
    assert set(parsed.warnings) == {
        "no_id_echo", "no_inference_url_echo", "step_meta_missing", "malformed_step",
    }  # fmt: skip
    parsed = parse(metrics={"outcome_reward": 1}, inference_url="http://vendor/v1", trace={"event_history": []})
    assert parsed.warnings == ["inference_url_without_cid", "empty_event_history"]
    assert set(parsed.warnings) <= set(WARNINGS)
    assert parse(metrics={"outcome_reward": 1}).warnings == []


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"aborted": True, "status_detail": "env crashed"}, "env crashed"),
        ({"success_status": "network_error"}, "network_error"),
        ({"success_status": "TIMEOUT"}, "TIMEOUT"),
        ({"success_status": False}, "no reason given"),
    ],
)
def test_an_app_that_gives_up_is_played_again_whatever_reward_it_reports(body, detail):
    error = failure(metrics={"outcome_reward": math.nan}, **body)
    assert error.code == "aborted" and error.retryable and error.detail == {"status_detail": detail}


@pytest.mark.parametrize("status", ["success", "Succeeded without error", True, None, "ok", 1])
def test_success_is_not_a_failure(status):
    assert parse(metrics={"outcome_reward": 1}, success_status=status, aborted=False).outcome == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (502, 502),
        ({"code": 503}, 503),
        ({"message": "Error code: 500 - boom"}, 500),
        ("HTTP 502 from inference", 502),
        ("Server error '504 Gateway Timeout' for url", 504),
        ("503", 503),
        ("you lost 500 coins", None),
        ("invalid move", None),
        (404, None),
        ({"code": True}, None),
        (None, None),
    ],
)
def test_http_like_errors_in_step_info(error, status):
    assert server_error(error) == status
    body = {"metrics": {"outcome_reward": 1}, "trajectories": steps(0.0, info={"error": error, "meta": {}})}
    if status:
        caught = failure(**body)
        assert caught.code == "app_error" and caught.detail == {"call": 0, "status": status}
    else:
        assert parse(**body).warnings == (["info_error"] if error else [])


def test_steps_carry_credit_and_flags():
    info = {"stepwise": {"new_achievements": ["a"]}, "meta": {}}
    step = {
        "obs": {"x": 1},
        "tool_calls": [{"n": 1}],
        "reward": None,
        "done": True,
        "truncated": True,
        "info": info,
    }
    parsed = parse(
        metrics={"outcome_reward": 1.0, "num_steps": 4},
        trajectories=[{"steps": [step], "length": 9, "decision_samples": [{"d": 1}]}],
    )
    only = parsed.steps[0]
    assert (only.reward, only.done, only.truncated, only.info) == (0.0, True, True, info)
    assert only.obs == {"x": 1} and only.tool_calls == [{"n": 1}]
    assert parsed.num_steps == 4 and parsed.truncated and parsed.decision_samples == [{"d": 1}]
    assert parsed.event_rewards == [0.0] and parsed.inference_url == URL


def test_counts_fall_back_in_order():
    assert parse(metrics={"outcome_reward": 1}, ops_executed=3, trajectories=[{"length": 9}]).num_steps == 3
    assert parse(metrics={"outcome_reward": 1, "num_steps": 1.5}, trajectories=[{"length": 9}]).num_steps == 9
    assert parse(metrics={"outcome_reward": 1, "num_steps": True}).num_steps is None


def test_steps_are_rebuilt_from_either_trace_shape():
    call = {"call_records": [{"output_tool_calls": [{"name": "f"}]}]}
    response = {"choices": [{"message": {"content": None, "tool_calls": [{"name": "g"}]}}]}
    helper_call = {"event_type": "lm_call", "call_record": {"messages": [], "response": response}}
    history = [
        call,
        {"reward": 0.5},
        {"reward": 0.25},
        helper_call,
        {"reward": 1, "done": True},
    ]
    parsed = parse(trace={"event_history": history})
    assert [s.reward for s in parsed.steps] == [0.75, 1.0] and parsed.steps[0].tool_calls == [{"name": "f"}]
    assert parsed.steps[1].tool_calls == [{"name": "g"}]
    assert [s.done for s in parsed.steps] == [False, True]
    assert parsed.outcome == 1.75 and parsed.outcome_path == "steps[].reward"
    turns = [{"events": [call, {"reward": 0.5}]}, {"events": [call, {"reward": 0.1, "truncated": True}]}]
    parsed = parse(trajectories=[{"trace": {"session_time_steps": turns}}])
    assert [s.reward for s in parsed.steps] == [0.5, 0.1] and parsed.truncated
    assert parsed.event_rewards == [0.5, 0.1]


def test_event_rewards_in_order():
    body = {
        "reward_info": {"outcome_reward": 1, "event_rewards": [1, None]},
        "metrics": {"event_rewards": [2.0]},
        "trajectories": steps(4.0),
    }
    assert parse(**body).event_rewards == [1.0, 0.0]
    body["reward_info"].pop("event_rewards")
    assert parse(**body).event_rewards == [2.0]
    body["metrics"] = {"event_objectives": [{"reward": 3}]}
    assert parse(**body).event_rewards == [3.0]
    body["metrics"] = {}
    assert parse(**body).event_rewards == [4.0]


def test_the_record_of_the_gateway_decides():
    def check(num_steps, calls, failed=()):
        parsed = parse(metrics={"outcome_reward": 1, "num_steps": num_steps})
        check_against_calls(parsed, calls=calls, failed=list(failed), max_turns=3)
        return parsed.warnings

    assert check(2, 2) == []
    assert check(2, 4) == ["num_steps_mismatch", "more_calls_than_turns"]
    for num_steps, calls, failed, code in [
        (0, 0, (), "no_steps"),
        (2, 0, (), "no_recorded_call"),
        (None, 0, (), "no_recorded_call"),
        (2, 1, [(1, 502)], "app_error"),
    ]:
        with pytest.raises(RolloutFailure) as caught:
            check(num_steps, calls, failed)
        assert caught.value.code == code
    assert str(caught.value) == "call 1 failed with 502, yet a reward came back"


def test_an_unreadable_url_names_no_episode():
    assert cid_of_url("http://[") is None and cid_of_url("") is None and cid_of_url("http://h/?cid=") is None


NAMES = st.sampled_from(
    (
        "metrics reward_info trajectories trace steps info meta reward outcome_reward episode_returns "
        "reward_mean outcome_objectives event_objectives num_steps event_history session_time_steps events "
        "call_records error inference_url aborted run_id success_status status_detail event_rewards done "
        "mean_return length"
    ).split()
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([CID, URL, "http://[::", "\ud800"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=8) | JSON)
def test_any_json_parses_or_fails_by_name(body):
    try:
        parsed = parse_rollout(body, cid=CID)
    except RolloutFailure as error:
        assert error.code in CODES and str(error) and len(error.evidence) <= 2000
        return
    assert math.isfinite(parsed.outcome)
    assert all(math.isfinite(r) for r in parsed.event_rewards)
    assert all(math.isfinite(s.reward) for s in parsed.steps)
    assert set(parsed.warnings) <= set(WARNINGS) and len(set(parsed.warnings)) == len(parsed.warnings)


def test_deep_nesting_is_no_crash():
    body: dict = {}
    for _ in range(50_000):
        body = {"a": body}
    with pytest.raises(RolloutFailure) as caught:
        parse_rollout(body, cid=CID)
    assert caught.value.code == "wrong_shape"


def test_short_fields_that_mean_nothing_here_are_kept_beside_the_rest():
    parsed = parse(
        metrics={"outcome_reward": 1}, build="v7", scores=[1, 2], big="x" * 501, deep={"a": "x" * 600}, no=None
    )
    assert parsed.extra == {"build": "v7", "scores": [1, 2]}
    assert len(parse(metrics={"outcome_reward": 1}, **{f"f{i}": i for i in range(100)}).extra) == 20
