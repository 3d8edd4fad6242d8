"""The adapter with the real package."""

import contextlib
import functools
import json
import re
import sys

import pytest

from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import RolloutFailure, TaskAppError, TaskAppRejected
from trainer.taskapp.load import load_task_app
from trainer.taskapp.server import create_task_app

from .conftest import KEY, request_body, serving

# Of different kinds: a number, one of many right answers, a grid, a word, a graph's own scorer without one answer.
DATASETS = ["leg_counting", "countdown", "game_of_life", "letter_jumble", "graph_color"]


@pytest.fixture(scope="module")
def servers():
    """servers(data set) -> URL of its task app."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def url_of(name):
            from trainer.taskapp.reasoning_gym import build_config

            return stack.enter_context(serving(create_task_app(build_config(name))))

        yield url_of


@pytest.fixture
def play(key, gateway, servers):
    """play(data set, seed, reply, split, **env_config) -> (parsed answer or the error, messages of the policy)."""

    async def episode(name, seed, reply, split=None, **env_config):
        gateway.requests.clear()
        gateway.answer = lambda body: gateway.says(reply) if isinstance(reply, str) else reply
        url = f"{gateway.url}/v1/chat/completions?cid=c"
        async with TaskAppClient(servers(name), api_key=KEY) as client:
            body = request_body("c", seed, inference_url=url, split=split, env_config=env_config)
            try:
                return await client.rollout(body), gateway.requests[0][1]["messages"]
            except (TaskAppRejected, RolloutFailure) as error:
                return error, gateway.requests

    return episode


def right_answer(entry):
    """An answer that is right by construction, where the entry holds none: a proper colouring."""
    if entry["answer"] is not None:
        return entry["answer"]
    puzzle, colours = entry["metadata"]["puzzle"], {}
    for vertex in puzzle["vertices"]:
        taken = {colours.get(b if a == vertex else a) for a, b in puzzle["edges"] if vertex in (a, b)}
        colours[vertex] = next(c for c in puzzle["color_options"] if c not in taken)
    return json.dumps({str(vertex): colour for vertex, colour in colours.items()})


@pytest.mark.parametrize("dataset", DATASETS)
async def test_right_answers_score_what_the_package_says_and_others_less(play, dataset):
    import reasoning_gym

    reference = reasoning_gym.create_dataset(dataset, seed=0, size=11_000)
    entry = reference[7]
    right = right_answer(entry)
    parsed, messages = await play(dataset, 7, f"I think.\n<answer>7x</answer> no:\n<answer>\n{right}\n</answer>")
    assert parsed.outcome == 1.0 == reference.score_answer(right.strip(), entry)
    assert [m["role"] for m in messages] == ["system", "user"] and messages[1]["content"] == entry["question"]
    assert "<answer>" in messages[0]["content"]
    assert parsed.num_steps == 1 and parsed.steps[0].done and parsed.warnings == []
    for wrong in ("no tags at all", "<answer>{}</answer>", "<answer></answer>"):
        parsed, _ = await play(dataset, 7, wrong)
        assert 0.0 <= parsed.outcome < 0.5


async def test_an_answer_that_breaks_the_scorer_is_wrong_and_says_why(play):
    parsed, _ = await play("prime_factorization", 0, "<answer>three times five</answer>")
    assert parsed.outcome == 0.0 and parsed.steps[0].info["unreadable"].startswith("ValueError")
    assert parsed.warnings == []


async def test_a_question_that_is_too_long_costs_its_episode_and_not_the_job(play):
    error, _ = await play("leg_counting", 0, (400, {"error": {"code": "context_length_exceeded", "message": "m"}}))
    assert isinstance(error, RolloutFailure) and error.code == "http_rejected" and "too_long" in error.evidence
    assert "raise vllm.max_model_len" in error.evidence


async def test_splits_are_apart_and_seeds_give_the_same_item_each_time(play):
    _, first = await play("leg_counting", 0, "")
    _, again = await play("leg_counting", 0, "", split="train")
    _, other = await play("leg_counting", 10_000, "", split="test")
    assert first == again != other
    error, calls = await play("leg_counting", 10_000, "", split="train")
    assert "split train has 10000 seeds, 0-9999" in error.message and calls == []


async def test_env_config_reaches_the_data_set_and_the_prompt(play):
    few = {"min_animals": 1, "max_animals": 1, "min_instances": 1, "max_instances": 1}
    _, messages = await play("leg_counting", 0, "", dataset=few, system_prompt="none")
    assert [m["role"] for m in messages] == ["user"] and re.search(r"you have 1 \w+( \w+)?\?", messages[0]["content"])
    for config, words in [
        ({"dataset": {"no_such_field": 1}}, "no_such_field"),
        ({"dataset": {"seed": 1}}, "seed are fixed"),
        ({"dataset": {"min_animals": -1}}, "AssertionError"),
        ({"system_prompt": "x"}, "DeepSeekZero"),
    ]:
        error, calls = await play("leg_counting", 0, "", **config)
        assert words in error.message and calls == []


async def test_it_is_loaded_by_name_and_says_what_it_asks(key):
    for spec in ("reasoning_gym:leg_counting", "builtin:reasoning_gym.leg_counting", "reasoning_gym.leg_counting"):
        _, app = load_task_app(spec)
    with serving(app) as url:
        async with TaskAppClient(url, api_key=key) as client:
            assert (await client.health_gate()).sizes == {"train": 10_000, "test": 1_000}
            infos = await client.task_info(range(15))
    prompts = [info.task_metadata["prompt"] for info in infos]
    assert len(set(prompts)) == 15 and infos[0].task.id == "reasoning_gym:leg_counting"
    with pytest.raises(TaskAppError, match=r"no data set 'nope'.*taskapp list reasoning_gym"):
        load_task_app("reasoning_gym:nope")


def test_without_the_package_one_sentence_says_what_to_run(key, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(TaskAppError, match=r"reasoning_gym is not installed\. Run `pip install reasoning-gym`"):
        load_task_app("reasoning_gym:leg_counting")
