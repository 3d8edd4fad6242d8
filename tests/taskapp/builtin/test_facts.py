import asyncio

import pytest

from trainer.taskapp.builtin.facts import BANK, SPLITS, TEST, TRAIN, build_config, prompt, score, words
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import RolloutFailure, TaskAppRejected
from trainer.taskapp.server import create_task_app

from ..conftest import request_body, serving


@pytest.mark.parametrize(
    ("reply", "accepted", "cut", "reward"),
    [
        ("Athens", ["Athens"], False, 1.0),
        ("athens.", ["Athens"], False, 1.0),
        ("It's Athens", ["Athens"], False, 0.2 + 0.8 * 7 / 8),
        ("It’s Athens!", ["Athens"], False, 0.9),
        ("The capital of Greece is Athens.", ["Athens"], False, 0.2 + 0.8 * 3 / 8),
        ("Athens and then " + "some " * 30, ["Athens"], False, 0.2),
        ("Athens is the", ["Athens"], True, 0.2),
        ("Sparta", ["Athens"], False, 0.0),
        ("Sparta", ["Athens"], True, 0.0),
        ("Athensville", ["Athens"], False, 0.0),
        ("", ["Athens"], False, 0.0),
        ("...", ["Athens"], False, 0.0),
        ("Brasília", ["Brasilia"], False, 1.0),
        ("ＡＴＨＥＮＳ", ["Athens"], False, 1.0),
        ("Buenos Aires", ["Buenos Aires"], False, 1.0),
        ("Buenos", ["Buenos Aires"], False, 0.0),
        ("Aires Buenos", ["Buenos Aires"], False, 0.0),
        ("Pacific Ocean", ["Pacific", "Pacific Ocean"], False, 1.0),
        ("twenty-four", ["24", "twenty-four"], False, 1.0),
        ("1,000", ["1000"], False, 1.0),
        ("10", ["1"], False, 0.0),
        ("Washington, D.C.", ["Washington", "Washington D.C."], False, 1.0),
    ],
)
def test_scores(reply, accepted, cut, reward):
    assert score(reply, accepted, cut) == pytest.approx(reward)


def test_long_hostile_replies_are_scored_fast():
    assert score("a " * 200_000, ["a a a b"], False) == 0.0
    assert words("_-_" * 1000) == []


def test_the_bank_and_its_splits():
    assert (len(TRAIN), len(TEST)) == (160, 40)
    assert SPLITS == {"train": range(160), "test": range(160, 200)}
    questions = [" ".join(words(fact.question)) for fact in BANK]
    assert len(set(questions)) == 200
    # Both splits mix the categories: none of the first nine of a split begin alike.
    for part in (TRAIN, TEST):
        assert len({fact.question.split(" ", 3)[3] for fact in part[:9]}) == 9


def test_no_question_holds_its_answer_and_every_answer_is_right():
    for fact in BANK:
        assert score(prompt(fact), fact.accepted, False) == 0.0, fact
        assert all(score(answer, fact.accepted, False) == 1.0 for answer in fact.accepted), fact


@pytest.fixture(scope="module")
def app_url():
    with serving(create_task_app(build_config())) as url:
        yield url


@pytest.fixture
def play(key, gateway, app_url):
    """play(seeds, **changes) -> what the client makes of each episode."""

    async def run(*seeds, **changes):
        async with TaskAppClient(app_url, api_key=key, max_connections=8) as client:
            await client.health_gate()

            def body(seed):
                at = f"{gateway.url}/v1/chat/completions?cid=c{seed}"
                return request_body(cid=f"c{seed}", seed=seed, inference_url=at, **changes)

            return await asyncio.gather(*(client.rollout(body(s)) for s in seeds), return_exceptions=True)

    return run


async def test_many_episodes_at_once_are_not_mixed_up(play, gateway):
    by_prompt = {prompt(fact): fact for fact in BANK}

    def answer(body):
        return gateway.says(by_prompt[body["messages"][-1]["content"]].accepted[0])

    gateway.answer = answer
    results = await play(*range(200))
    assert [r.outcome for r in results] == [1.0] * 200
    assert all(r.warnings == [] and r.num_steps == 1 and r.steps[0].done for r in results)
    asked = {path: body["messages"] for path, body in gateway.requests}
    for seed, fact in enumerate(BANK):
        messages = asked[f"/v1/chat/completions?cid=c{seed}"]
        assert messages == [{"role": "user", "content": f"Answer in as few words as possible. {fact.question}"}]


async def test_a_cut_reply(play, gateway):
    gateway.answer = lambda body: gateway.says(f"{BANK[0].accepted[0]} is", "length")
    (result,) = await play(0)
    assert result.outcome == pytest.approx(0.2) and result.truncated


async def test_seeds_outside_the_bank_or_the_split_are_refused(play):
    (outside,) = await play(200)
    assert isinstance(outside, TaskAppRejected) and outside.reason == "request"
    assert "split train has 160 seeds, 0-159; split test has 40 seeds, 160-199" in outside.message
    (other,) = await play(160, split="train")
    assert "seed 160 is out of range: split train has 160 seeds, 0-159" in other.message
    (unknown,) = await play(0, split="dev")
    assert "known: train, test" in unknown.message
    assert isinstance((await play(-1))[0], TaskAppRejected)


async def test_a_failing_model_is_never_a_zero(play, gateway):
    gateway.answer = lambda body: (500, {"error": {"message": "engine down"}})
    (error,) = await play(0)
    assert isinstance(error, RolloutFailure) and error.code == "http_error" and error.retryable
    assert "engine down" in error.evidence


async def test_task_info_shows_prompts_and_sizes(key):
    with serving(create_task_app(build_config())) as url:
        async with TaskAppClient(url, api_key=key) as client:
            assert (await client.taskset()).sizes == {"train": 160, "test": 40}
            infos = await client.task_info(range(15))
    assert [info.task_metadata["prompt"] for info in infos] == [prompt(fact) for fact in BANK[:15]]
    assert infos[0].limits.max_turns == 1
