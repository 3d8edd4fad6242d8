import pytest
from pydantic import ValidationError

from trainer.taskapp.contracts import RolloutRequest, ServiceInfo, TaskInfo, Taskset

from .conftest import request_body


def test_the_request_holds_every_version_of_the_contract():
    body = request_body(
        cid="c9", seed=7, max_turns=3, split="test", stop=["\n"], job_id="job", timeout_s=30.0, judge_on=True
    )
    assert body["run_id"] == body["trace_correlation_id"] == "c9"
    assert body["env"] == {
        "env_id": None,
        "env_name": "facts",
        "config": {"max_turns": 3, "split": "test"},
        "seed": 7,
    }
    assert body["policy"]["config"] == {
        "model": "m",
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 20,
        "stop": ["\n"],
        "inference_url": "http://127.0.0.1:1/v1/chat/completions?cid=c9",
        "inference_base_url": "http://127.0.0.1:1/cid/c9/v1",
        "trace_correlation_id": "c9",
    }
    assert body["policy"]["output_mode"] == "tool_calls" and body["policy"]["structured_config"] is None
    assert body["ops"] == ["agent", "env"] * 3
    assert body["mode"] == "rl" and body["on_done"] == "reset"
    assert body["record"]["trace_format"] == "structured" and body["record"]["return_trace"] is True
    assert body["safety"] == {"max_ops": 12, "max_time_s": 30.0}
    assert body["training_session_id"] == "job" and "synth_base_url" not in body


def test_user_config_wins_except_for_what_names_the_episode():
    body = request_body(
        env_config={"max_turns": 2, "split": "mine", "level": 3},
        split="test",
        policy_config={
            "temperature": 0.2,
            "thinking_mode": "think",
            "inference_url": "http://elsewhere",
            "trace_correlation_id": "other",
            "output_mode": "text",
            "structured_config": {"schema": {}},
        },
    )
    assert body["env"]["config"] == {"max_turns": 2, "split": "mine", "level": 3}
    config = body["policy"]["config"]
    assert config["temperature"] == 0.2 and config["thinking_mode"] == "think"
    assert config["inference_url"].endswith("?cid=cid-1") and config["trace_correlation_id"] == "cid-1"
    assert body["policy"]["output_mode"] == "text" and "output_mode" not in config
    assert body["policy"]["structured_config"] == {"schema": {}}
    assert body["record"]["trace_format"] == "compact"


def test_building_leaves_the_callers_tables_alone():
    env, policy = {"a": 1}, {"output_mode": "text"}
    request_body(env_config=env, policy_config=policy, split="s")
    assert env == {"a": 1} and policy == {"output_mode": "text"}


@pytest.mark.parametrize("broken", ["<circular …>", None, 3, [], {"task": "<circular …>", "limits": 7}])
def test_broken_task_info_reads_as_missing(broken):
    info = TaskInfo.read(broken)
    assert info.task.id is None and info.limits.max_turns is None and info.task_metadata == {}


def test_good_parts_survive_beside_broken_ones_and_extras_are_kept():
    info = TaskInfo.read(
        {
            "task": {"id": "t", "name": 5, "mine": 1},
            "rubric": {
                "outcome": {"name": "o", "criteria": [{"id": "a", "weight": 2}]},
                "events": "<circular>",
            },
            "limits": {"max_turns": 4, "timeout_seconds": "soon"},
            "own": [1],
        }
    )
    assert info.task.id == "t" and info.task.name is None and info.task.model_extra == {"mine": 1}
    assert info.rubric.outcome.criteria[0].weight == 2.0 and info.rubric.events is None
    assert info.limits.max_turns == 4 and info.limits.timeout_seconds is None
    assert info.model_extra == {"own": [1]}
    assert ServiceInfo.read({"rubrics": None}).rubrics.outcome is None


def test_sizes_come_from_the_taskset_or_the_dataset():
    assert Taskset.of({"taskset": {"sizes": {"train": 3}}}).sizes == {"train": 3}
    assert Taskset.of({"taskset": {}, "dataset": {"sizes": {"train": 4}}}).sizes == {"train": 4}
    assert Taskset.of("<circular>").sizes is None


@pytest.mark.parametrize("name", ["run_id", "trace_correlation_id"])
def test_the_server_reads_requests_of_both_eras(name):
    request = RolloutRequest.model_validate({name: "c", "env": {"seed": 3, "config": None}, "policy": {}, "extra": 1})
    assert request.run_id == request.trace_correlation_id == "c"
    assert request.mode == "rl" and request.ops == [] and request.env.config == {}
    assert request.model_extra == {"extra": 1}


def test_a_request_without_any_id_is_refused():
    with pytest.raises(ValidationError):
        RolloutRequest.model_validate({"env": {}, "policy": {}})
