import itertools
import re

import pytest

from trainer.taskapp.builtin.guess import Game, build_config, read_guess, target_of
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import TaskAppRejected
from trainer.taskapp.server import create_task_app

from ..conftest import request_body, serving


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("7", 7),
        ("I guess 7.", 7),
        ("Not 3, rather 12!", 12),
        ("-4", -4),
        ("seven", None),
        ("", None),
        ("3.14", None),
        ("9" * 5000, None),
        ("room101", 101),
    ],
)
def test_the_last_whole_number_is_the_guess(text, guess):
    assert read_guess(text) == guess


def test_the_target_is_fixed_by_the_seed_and_uses_the_range():
    targets = [target_of(seed, 1, 20) for seed in range(400)]
    assert targets == [target_of(seed, 1, 20) for seed in range(400)]
    assert set(targets) == set(range(1, 21))


def test_a_game_step_by_step():
    game = Game(target=14, low=1, high=20)
    assert game.play(None) == ("I saw no number. Reply with one whole number.", 0.0, [])
    assert game.play(10) == ("Higher.", 0.1, ["first_valid_guess", "halved_the_range"])
    assert game.play(5) == ("Higher.", 0.0, [])  # already ruled out
    assert game.play(99) == ("Lower.", 0.0, [])
    assert (game.low, game.high) == (11, 20)
    assert game.play(16) == ("Lower.", 0.1, [])
    assert game.play(14) == ("Correct!", 0.1, ["found"])
    assert game.outcome() == pytest.approx(1 - 0.05 * 5)


def test_outcomes_are_ordered():
    first = Game(target=5, low=1, high=20)
    first.play(5)
    assert first.outcome() == 1.0 and first.unlocked == ["first_valid_guess", "halved_the_range", "found"]
    late = Game(target=5, low=1, high=20)
    for _ in range(30):
        late.play(None)
    assert late.outcome() == 0.0
    late.play(10)
    near = late.outcome()
    assert 0 < near <= 0.3
    late.play(5)
    assert late.outcome() == 0.5


@pytest.fixture(scope="module")
def app_url():
    with serving(create_task_app(build_config())) as url:
        yield url


@pytest.fixture
def play(key, gateway, app_url):
    async def run(seed, **changes):
        async with TaskAppClient(app_url, api_key=key) as client:
            at = f"{gateway.url}/v1/chat/completions?cid=cid-1"
            return await client.rollout(request_body(seed=seed, inference_url=at, **changes))

    return run


def bisect(gateway):
    """A policy that halves the interval, from the messages alone."""

    def answer(body):
        low, high = map(int, re.search(r"from (\d+) to (\d+)", body["messages"][0]["content"]).groups())
        guess = None
        for message in body["messages"][1:]:
            if message["role"] == "assistant":
                guess = int(message["content"])
            elif message["content"] == "Higher.":
                low = guess + 1
            else:
                high = guess - 1
        return gateway.says(str((low + high) // 2))

    return answer


async def test_bisection_finds_the_number_with_a_growing_history(play, gateway):
    gateway.answer = bisect(gateway)
    result = await play(3, max_turns=8)
    assert result.steps[-1].done and not result.truncated
    assert result.steps[-1].info["achievements_status"]["found"] is True
    assert result.outcome == pytest.approx(1 - 0.05 * (len(result.steps) - 1))
    assert [s.reward for s in result.steps] == [0.1] * len(result.steps) and result.warnings == []
    new = [name for s in result.steps for name in s.info["stepwise"]["new_achievements"]]
    assert sorted(new) == ["first_valid_guess", "found", "halved_the_range"]
    histories = [body["messages"] for _, body in gateway.requests]
    assert len(histories) == len(result.steps) == result.num_steps
    for before, after in itertools.pairwise(histories):
        assert after[: len(before)] == before and len(after) == len(before) + 2


async def test_the_turn_limit_ends_the_episode(play, gateway):
    gateway.answer = lambda body: gateway.says("no idea")
    result = await play(0, max_turns=3)
    assert len(gateway.requests) == len(result.steps) == 3
    assert result.truncated and result.outcome == 0.0


async def test_a_full_context_ends_the_episode_with_what_was_reached(play, gateway):
    def answer(body):
        if len(body["messages"]) > 3:
            return 400, {"error": {"code": "context_length_exceeded", "message": "too long"}}
        return gateway.says("10")

    gateway.answer = answer
    result = await play(3)
    assert len(result.steps) == 2 and result.truncated and 0 < result.outcome <= 0.3


async def test_the_range_comes_from_the_config(play, gateway):
    gateway.answer = bisect(gateway)
    await play(1, env_config={"low": 100, "high": 103})
    assert "from 100 to 103" in gateway.requests[0][1]["messages"][0]["content"]


@pytest.mark.parametrize("config", [{"low": 5, "high": 5}, {"low": "1"}, {"high": True}, {"max_turns": 0}])
async def test_a_config_that_makes_no_game(play, config):
    with pytest.raises(TaskAppRejected, match="whole numbers"):
        await play(0, env_config=config)


async def test_seeds_outside(play):
    with pytest.raises(TaskAppRejected, match="split test has 1000 seeds, 10000-10999"):
        await play(11_000)
