"""The adapter with the real package, and environments as their authors write them."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import RolloutFailure, TaskAppError, TaskAppRejected
from trainer.taskapp.load import load_task_app

from .conftest import KEY, request_body, serving

HERE = str(Path(__file__).parent / "environments")

try:
    import verifiers.v1  # noqa: F401
except ImportError:
    installed = pytest.mark.skip("verifiers 0.4 is not installed: pip install 'rltui[verifiers]'")
else:
    installed = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def environments(key, monkeypatch):
    """The environments are importable, here and by the processes that serve their tools."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", HERE, prepend=":")


@pytest.fixture
def play(environments, gateway):
    """play(environment, replies, seed, cid, **env_config) -> (parsed answer or the error, the bodies of the calls)."""
    with ExitStack() as stack:
        urls = {}

        async def episode(name, replies, seed=0, cid="c", split=None, max_turns=6, **env_config):
            if name not in urls:
                urls[name] = stack.enter_context(serving(load_task_app(f"verifiers:{name}")[1]))
            rest = iter(replies)
            gateway.requests.clear()
            gateway.answer = lambda body: completion(next(rest))
            url = f"{gateway.url}/v1/chat/completions?cid={cid}&x=1"
            body = request_body(
                cid, seed, inference_url=url, split=split, env_config=env_config, max_turns=max_turns, stop=["###"]
            )
            async with TaskAppClient(urls[name], api_key=KEY) as client:
                try:
                    parsed = await client.rollout(body)
                except (TaskAppRejected, RolloutFailure) as error:
                    return error, list(gateway.requests)
            assert all(path.endswith(f"/v1/chat/completions?cid={cid}&x=1") for path, _ in gateway.requests)
            return parsed, [sent for _, sent in gateway.requests]

        yield episode


def completion(reply):
    """A whole answer of the gateway. reply: text, (tool, arguments), or (status, body) of a refusal."""
    if isinstance(reply, tuple) and isinstance(reply[0], int):
        return reply
    message = {"role": "assistant", "content": reply}
    if isinstance(reply, tuple):
        function = {"name": reply[0], "arguments": reply[1]}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "call-1", "type": "function", "function": function}]
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return 200, {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


@installed
async def test_one_turn_is_scored_by_the_environments_weighted_rewards(play):
    parsed, [sent] = await play("capitals-env", ["Rome, of course"], seed=1)
    assert sent["messages"] == [
        {"role": "system", "content": "Answer in a word."},
        {"role": "user", "content": "The capital of Italy?"},
    ]
    assert (sent["model"], sent["temperature"], sent["max_tokens"], sent["stop"]) == ("m", 1.0, 20, ["###"])
    assert (parsed.outcome, parsed.event_rewards, parsed.num_steps, parsed.warnings) == (2.0, [2.0], 1, [])
    [step] = parsed.steps
    assert step.done and not step.truncated
    assert step.info["rewards"] == {"right": 2.0, "short": 0.0} and step.info["metrics"] == {"letters": 15.0}
    parsed, _ = await play("capitals-env", ["Oslo"], seed=1)
    assert parsed.outcome == 0.5  # an honest low reward


@installed
async def test_splits_of_the_task_set_and_seeds_outside_of_it(play):
    parsed, [sent] = await play("capitals-env", ["Tokyo"], split="test")
    assert "Japan" in sent["messages"][1]["content"] and parsed.outcome == 2.5
    error, calls = await play("capitals-env", [], seed=3)
    assert "seed 3 is out of range: split train has 3 seeds, 0-2" in error.message and calls == []
    error, _ = await play("hot-cold-env", [], split="test")
    assert "there is no split 'test'" in error.message
    error, _ = await play("capitals-env", [], env={"taskset": {"spilt": "test"}})
    assert "capitals-env cannot be made" in error.message and "spilt" in error.message


@installed
async def test_turns_of_an_environment_that_is_the_user_each_make_a_step(play):
    parsed, sent = await play("hot-cold-env", ["1", "9", "4"], seed=4)
    said = [[m["content"] for m in body["messages"]] for body in sent]
    assert said == [
        ["Guess my number."],
        ["Guess my number.", "1", "Cold."],
        ["Guess my number.", "1", "Cold.", "9", "Cold."],
    ]
    assert (parsed.outcome, parsed.event_rewards, parsed.num_steps) == (1.0, [0.0, 0.0, 1.0], 3)
    assert [step.obs["messages"][-1]["content"] for step in parsed.steps] == ["Guess my number.", "Cold.", "Cold."]
    parsed, sent = await play("hot-cold-env", ["1", "2"], seed=4, max_turns=2)
    assert (parsed.outcome, len(sent), parsed.truncated) == (0.0, 2, True)


@installed
@pytest.mark.slow  # a task's tools are a process of their own, which verifiers starts for every episode
async def test_tools_run_and_their_results_go_back_to_the_model(play):
    call = ("sums_add", json.dumps({"a": 123, "b": 456}))
    parsed, [first, second] = await play("adder-env", [call, "It is 579."])
    [tool] = first["tools"]
    assert tool["function"]["name"] == "sums_add" and set(tool["function"]["parameters"]["properties"]) == {"a", "b"}
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call-1", "name": "sums_add", "content": "579"}
    assert (parsed.outcome, parsed.num_steps) == (1.0, 2)
    assert parsed.steps[0].tool_calls[0]["function"]["name"] == "sums_add"
    assert parsed.steps[0].info["tool_results"][0]["content"] == "579"
    parsed, [_, second] = await play("adder-env", [("sums_add", "{"), "I give up."])
    assert "not JSON" in second["messages"][-1]["content"] and parsed.outcome == 0.0


@installed
async def test_what_an_environment_raises_is_a_failure_with_a_name_and_no_reward(play):
    error, _ = await play("capitals-env", ["Paris"], env={"taskset": {"task": {"broken": True}}})
    assert isinstance(error, RolloutFailure) and error.code == "aborted"
    assert "TaskError" in str(error) and "no such row" in str(error)
    error, _ = await play("capitals-env", [(503, {"error": {"message": "engine gone"}})])
    assert error.code == "aborted" and "engine gone" in str(error)


@installed
async def test_an_episode_that_used_up_its_context_ends_and_is_scored(play):
    full = (400, {"error": {"code": "context_length_exceeded", "message": "m"}})
    parsed, _ = await play("hot-cold-env", ["1", full], seed=4)
    assert (parsed.outcome, parsed.num_steps) == (0.0, 1)
    error, _ = await play("hot-cold-env", [full], seed=4)
    assert error.code == "http_rejected" and "raise vllm.max_model_len" in error.evidence


@installed
async def test_agents_beside_the_trained_one_need_a_model_of_their_own(play):
    error, _ = await play("capitals-env", ["Hello"] * 20, env={"id": "user-sim", "user": {"max_turns": 1}})
    assert "user is not trained, yet plays with the policy" in error.message
    assert "rollout.env_config.env.user.client" in error.message


@installed
async def test_it_says_what_it_asks_and_how_many_there_are(environments, key):
    with serving(load_task_app("builtin:verifiers.capitals-env")[1]) as url:
        async with TaskAppClient(url, api_key=key) as client:
            assert (await client.health_gate()).sizes == {"train": 3}
            infos = await client.task_info([0, 2])
    assert [info.task_metadata["prompt"] for info in infos] == ["The capital of France?", "The capital of Spain?"]
    with serving(load_task_app("verifiers:hot-cold-env")[1]) as url:
        async with TaskAppClient(url, api_key=key) as client:
            assert not (await client.health_gate()).sizes


@installed
def test_an_environment_that_is_not_there_lists_those_that_are(environments, tmp_path, monkeypatch):
    folder = tmp_path / "some_env-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: some-env\nVersion: 1.0\nRequires-Dist: verifiers>=0.4\n"
    )
    (tmp_path / "some_env.py").touch()
    (tmp_path / "needy_env.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TaskAppError, match=r"no environment 'nope' of verifiers\. Installed: some-env$"):
        load_task_app("verifiers:nope")
    with pytest.raises(TaskAppError, match=r"needy_env lacks the package no_such_package"):
        load_task_app("verifiers:needy_env")
    with pytest.raises(TaskAppError, match=r"some-env fails: AttributeError: .*__all__"):
        load_task_app("verifiers:some-env")


def test_without_the_package_one_sentence_says_what_to_run(key, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("verifiers.", "trainer.taskapp.verifiers."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(TaskAppError, match=r"verifiers 0.4 is not installed\. Run `pip install 'rltui\[verifiers\]'`"):
        load_task_app("verifiers:anything")
