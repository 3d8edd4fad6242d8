"""One episode through the real ledger, with a task app made of a function."""

import asyncio
import time

import pytest

from trainer.inference.ledger import Ledger
from trainer.inference.sampling import call_sampling
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.types import Judgement
from trainer.rewards.rules import OUTCOME_ALONE, Blend, RewardRules
from trainer.rollout.episode import Assignment
from trainer.rollout.judging import Judging
from trainer.rollout.meter import Meter
from trainer.rollout.player import (
    OUTAGES,
    FirstTries,
    ModelUnfit,
    Player,
    PlayRules,
    TaskAppDown,
    TaskAppFailing,
    seed_parts,
)
from trainer.rollout.types import Call, Span
from trainer.taskapp.codes import warning
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import parse_rollout

TRAIN = Assignment("train", 2, 3, 1, 40)


class FakeGateway:
    def __init__(self) -> None:
        self.ledger = Ledger()

    def chat_url(self, cid: str) -> str:
        return f"http://gateway/v1/chat/completions?cid={cid}"

    base_url = chat_url


class FakeApp:
    """Fails `failures` times, then plays one call. Keeps the request bodies and the seed of each call."""

    def __init__(self, ledger: Ledger, failures: int = 0, outcome: float = 0.5) -> None:
        self.ledger, self.failures, self.outcome = ledger, failures, outcome
        self.bodies: list[dict] = []
        self.seeds: list[int] = []
        self.request: dict = {}
        self.down = False

    async def is_up(self) -> bool:
        return not self.down

    async def rollout(self, body: dict):
        self.bodies.append(body)
        if len(self.bodies) <= self.failures:
            raise RolloutFailure("http_error", {"status": 500, "tries": 1}, "boom")
        cid = body["run_id"]
        episode = self.ledger.find(cid)
        sampling, forced = call_sampling(self.request, episode.policy, 0)
        self.seeds.append(sampling.seed)
        episode.record.calls.append(
            Call(cid, 0, [1, 2], [3], [-0.5], [Span(0, 1, 0)], "stop", {"temperature": 1.0}, [], {}, forced=forced)
        )
        return parse_rollout({"run_id": cid, "metrics": {"outcome_reward": self.outcome, "num_steps": 1}}, cid=cid)


def never() -> asyncio.Future:
    return asyncio.get_running_loop().create_future()


@pytest.fixture
def made(monkeypatch):
    """(app, player, what was recorded); waits between tries take no time."""
    monkeypatch.setattr("trainer.rollout.player.backoff", lambda *_: 0.0)

    def make(failures: int = 0, max_retries: int = 2, rewards: RewardRules = OUTCOME_ALONE, judge=None):
        gateway, recorded = FakeGateway(), []
        rules = PlayRules(
            job_id="rl_1", env_name="e", env_config={}, policy_name="p", policy_config={}, model="m", max_turns=1,
            max_tokens=8, temperature=1.0, top_p=1.0, top_k=-1, repetition_penalty=1.0, stop=(), data_split=None,
            ops=("agent", "env"), on_done="reset", timeout_s=5.0, max_retries=max_retries, seed=7,
            rewards=rewards,
        )  # fmt: skip
        app = FakeApp(gateway.ledger, failures)
        judging = judge and Judging(judge, rules.rewards.blend, Meter(), steps=1, env_name="e", task={})
        player = Player(lambda: rules, gateway, app, FirstTries(), lambda e, _: recorded.append(e), judging)
        return app, player, recorded

    return make


async def test_an_episode_is_scored_and_recorded(made):
    _, player, recorded = made()
    episode = await player.play(TRAIN, never())
    assert recorded == [episode] and episode.exclusion is None
    assert (episode.total, episode.stop, episode.branches[0].ids) == (0.5, "completed", [1, 2, 3])


async def test_a_play_is_as_long_as_it_took_though_the_wall_clock_is_set_back_meanwhile(made, monkeypatch):
    app, player, _ = made(failures=1)
    rollout, now = app.rollout, time.time()

    async def rollout_and_jump(body):
        monkeypatch.setattr(time, "time", lambda: now - 3600 * (1 + len(app.bodies)))
        return await rollout(body)

    app.rollout = rollout_and_jump
    episode = await player.play(TRAIN, never())
    assert 0 <= episode.tries[0]["wall"] < 60 and 0 <= episode.ended - episode.started < 60


async def test_each_try_has_its_own_id_number_and_sampling_seed(made):
    app, player, recorded = made(failures=2)
    episode = await player.play(TRAIN, never())
    cids = [body["run_id"] for body in app.bodies]
    assert len(set(cids)) == 3 and [cid.split("-")[1:5] for cid in cids] == [["2", "3", "1", str(k)] for k in range(3)]
    assert episode.number == 2 and [play["code"] for play in episode.tries] == ["http_error"] * 2
    assert recorded == [episode]  # earlier tries stand in its line, not in lines of their own
    replayed = await player.play(Assignment("train", 2, 3, 1, 40, replay=1), never())
    assert replayed.number == 3 and len(set(app.seeds)) == 2


async def test_an_app_that_asks_for_other_sampling_is_warned_about(made):
    app, player, _ = made()
    assert "sampling_forced" not in (await player.play(TRAIN, never())).parsed.warnings
    app.request = {"top_p": 0.5, "seed": 1}
    episode = await player.play(TRAIN, never())
    assert "sampling_forced" in episode.parsed.warnings and episode.forced == {"top_p": 1, "seed": 1}


async def test_steps_that_match_no_call_are_warned_about_or_exclude_the_episode(made):
    _, player, _ = made(rewards=RewardRules(enabled=True))
    episode = await player.play(TRAIN, never())
    assert episode.total == 0.5 and "turns_unmatched" in episode.parsed.warnings
    assert warning("turns_unmatched", episode.facts).startswith("0 steps do not match 1 calls")
    _, player, _ = made(rewards=RewardRules(enabled=True, per_turn=True))
    episode = await player.play(TRAIN, never())
    assert (episode.reward, episode.tries) == (None, [])  # played again as another member, not retried
    assert (episode.exclusion.code, episode.exclusion.detail) == ("turn_mapping", {"steps": 0, "calls": 1})


async def test_a_failure_says_after_how_many_tries_it_was_given_up(made):
    _, player, _ = made(failures=9)
    episode = await player.play(TRAIN, never())
    assert (episode.total, episode.exclusion.code) == (None, "http_error")
    assert episode.exclusion.detail == {"status": 500, "tries": 3}


async def test_eight_first_failures_end_the_job_and_the_last_is_on_record(made):
    _, player, recorded = made(failures=99, max_retries=10)
    with pytest.raises(
        TaskAppFailing, match=r"the first 8 tries all failed \(http_error x 8\), the last because task app answered 500"
    ):
        await player.play(TRAIN, never())
    assert recorded[-1].exclusion.code == "http_error"


async def test_tools_that_the_model_has_no_calls_for_end_the_run_with_the_first_of_them(made):
    app, player, _ = made(max_retries=10)
    plays = app.rollout

    async def asks_with_tools(body):
        episode = app.ledger.find(body["run_id"])
        episode.fail("no_tool_parser", 400, 0, "set vllm.tool_call_parser")
        return await plays(body)  # and the app makes a reward of it all the same

    app.rollout = asks_with_tools
    with pytest.raises(ModelUnfit, match=r"^set vllm\.tool_call_parser$"):
        await player.play(TRAIN, never())
    assert len(app.bodies) == 1


@pytest.mark.parametrize("playing", [True, False])
async def test_a_play_that_has_become_stale_is_given_up_and_is_no_fault_of_the_app(made, playing, monkeypatch):
    """While the app plays, and between two tries."""
    app, player, recorded = made()
    monkeypatch.setattr("trainer.rollout.player.backoff", lambda *_: 3600.0)
    stale, asked = never(), asyncio.Event()

    async def hangs(body):
        asked.set()
        await asyncio.sleep(3600 if playing else 0)
        raise RolloutFailure("http_error", {"status": 500, "tries": 1})

    app.rollout = hangs
    play = asyncio.ensure_future(player.play(TRAIN, stale))
    await asked.wait()
    for _ in range(0 if playing else 10):  # into the pause
        await asyncio.sleep(0)
    stale.set_result({"version": 3, "lag": 5, "limit": 4})
    episode = await play
    assert (episode.exclusion.code, episode.exclusion.detail["lag"], episode.stop) == ("stale", 5, "aborted")
    assert recorded == [episode] and len(episode.tries) == (0 if playing else 1)


class FakeJudge:
    """Gives `given`, or never answers."""

    def __init__(self, given=None) -> None:
        self.given, self.asked = given, asyncio.Event()

    async def judge(self, episode):
        self.asked.set()
        if self.given is None:
            await asyncio.sleep(3600)
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


async def test_the_reward_is_the_blend_with_what_the_judge_says(made):
    rules = RewardRules(blend=Blend(0.5, 0.0, 0.5))
    app, player, _ = made(rewards=rules, judge=FakeJudge(Judgement(outcome=0.9)))
    episode = await player.play(TRAIN, never())
    assert episode.total == pytest.approx(0.5 * 0.5 + 0.5 * 0.9) and episode.judged.outcome == 0.9
    assert app.bodies[0]["record"]["trace_format"] == "structured"


async def test_a_judge_that_fails_is_no_fault_of_the_app_and_costs_the_episode_alone(made):
    _, player, recorded = made(judge=FakeJudge(JudgeFailed("judge_transient", "503 from the judge (3 tries)")))
    for _ in range(9):  # more than the first tries that may all fail
        episode = await player.play(TRAIN, never())
        assert (episode.total, episode.exclusion.code, episode.tries) == (None, "judge_failed", [])
    assert recorded[-1].exclusion.detail["cause"] == "503 from the judge (3 tries)"


async def test_a_job_that_cannot_be_judged_ends_with_what_the_judge_said(made):
    _, player, _ = made(judge=FakeJudge(JudgeMisconfigured("judge_auth", "no", "Correct the variable X")))
    with pytest.raises(JudgeMisconfigured, match="Correct the variable X"):
        await player.play(TRAIN, never())


async def test_an_episode_that_becomes_stale_at_the_judge_is_given_up(made):
    judge, stale = FakeJudge(), never()
    _, player, recorded = made(judge=judge)
    play = asyncio.ensure_future(player.play(TRAIN, stale))
    await judge.asked.wait()
    stale.set_result({"version": 3, "lag": 5, "limit": 4})
    episode = await play
    assert (episode.exclusion.code, episode.total) == ("stale", None) and recorded == [episode]


def test_sampling_seeds_differ_between_everything_that_may_share_a_prompt():
    plays = [Assignment("train", i, g, m, 40) for i in (1, 2) for g in (0, 1) for m in (0, 1)]
    plays += [Assignment("eval", i, None, m, seed) for i in (1, 2) for m in (0, 1) for seed in (0, 1, 160)]
    parts = {seed_parts(7, play, number) for play in plays for number in (0, 1)}
    assert len(parts) == 2 * len(plays)


async def test_an_app_that_is_not_there_costs_no_try_and_leaves_no_record(made):
    app, player, recorded = made(failures=99, max_retries=0)
    app.down = True
    with pytest.raises(TaskAppDown, match="task app answered 500"):
        await player.play(TRAIN, never())
    assert recorded == []
    app.down, app.failures = False, 0
    episode = await player.play(TRAIN, never())
    assert episode.exclusion is None and episode.number == 0 and recorded == [episode]


async def test_a_play_that_brings_the_app_down_each_time_is_excluded_in_the_end(made):
    app, player, recorded = made(failures=99, max_retries=0)
    app.down = True
    for _ in range(OUTAGES):
        with pytest.raises(TaskAppDown):
            await player.play(TRAIN, never())
    assert (await player.play(TRAIN, never())).exclusion.code == "http_error" and len(recorded) == 1


async def test_whatever_an_app_makes_of_a_failed_call_the_engine_was_the_cause(made):
    app, player, _ = made(max_retries=0)

    async def fails(body):
        app.ledger.find(body["run_id"]).fail("engine_error", 503, 0, "vLLM was killed (signal 9)")
        raise RolloutFailure("http_error", {"status": 500, "tries": 1}, "boom")

    app.rollout = fails
    episode = await player.play(TRAIN, never())
    assert (episode.exclusion.code, episode.exclusion.detail) == (
        "engine_error",
        {"cause": "vLLM was killed (signal 9)"},
    )
