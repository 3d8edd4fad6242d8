"""S12 judge: it answers, in time and in range, and how much its score of one episode varies."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.smoke.bench import Bench
from rltui.smoke.report import Episode, Turn
from rltui.smoke.settings import Judging
from rltui.smoke.stages.base import Findings, Found, skipped
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import RubricInfo, TaskInfo

if TYPE_CHECKING:
    from trainer.judge.judge import Judge
    from trainer.judge.types import JudgedEpisode, Judgement

REPEATS = 20
MOST_EPISODES = 4  # besides
NOISY = 0.1  # standard deviation of a score from 0 to 1


async def judging(bench: Bench) -> Found:
    """Judges a few of the episodes that were played, and one of them again and again: this asks the real judge."""
    if bench.settings.judging is None:
        return skipped("no judge is configured")
    from trainer.judge.errors import JudgeFailed, JudgeMisconfigured

    played = bench.first.episode if bench.first is not None else None
    finished = [e for e in [*bench.episodes, *([played] if played else [])] if e.R is not None]
    if not finished:
        return skipped("no episode finished")
    try:
        judge = _judge(bench, bench.settings.judging)
    except JudgeMisconfigured as error:
        return Found("fail", clean(error.message, 400), clean(error.hint, 300))
    others = [_judged(bench, e) for e in finished[1 : 1 + MOST_EPISODES]]
    asked = [*others, *[_judged(bench, finished[0])] * REPEATS]
    try:
        answers = await asyncio.gather(*(judge.judge(episode) for episode in asked), return_exceptions=True)
    finally:
        await judge.close()
    found = Findings()
    for answer in answers:
        if isinstance(answer, JudgeMisconfigured):
            return Found("fail", clean(answer.message, 400), clean(answer.hint, 300))
        if isinstance(answer, BaseException) and not isinstance(answer, JudgeFailed):
            raise answer
    failures = [error for error in answers if isinstance(error, JudgeFailed)]
    given: list[Judgement] = [answer for answer in answers if not isinstance(answer, BaseException)]
    if failures:
        text = f"{len(failures)} of {len(asked)} judgements failed: {failures[0].code}, {clean(failures[0].text)}"
        fix = "see the judge's own limits; judge.timeout_s and judge.options.max_concurrency are ours"
        (found.warn if given else found.fail)(text, fix)
    repeated = [a for a in answers[len(others) :] if not isinstance(a, BaseException)]
    return found.found(_numbers(given, repeated, found))


def _judge(bench: Bench, settings: Judging) -> Judge:
    """As a run makes it, without a memory of earlier answers. Raises JudgeMisconfigured."""
    from trainer.judge.choose import make_judge
    from trainer.judge.lookup import resolve_rubric

    task = next(iter(bench.task_infos.values()), TaskInfo())
    published: RubricInfo | None = task.rubric
    url = settings.url if settings.config.type == "llm" else None
    resolved = resolve_rubric(
        settings.config.options, folder=Path(settings.folder) / "rubrics", app=published, service=url is not None
    )
    return make_judge(
        settings.config,
        resolved,
        record=lambda record: 0,
        judge_url=url,
        policy_name=bench.settings.policy_name,
        task_app={"id": task.task.id, "base_url": bench.target.url},
        code_from=Path(settings.folder),
    )


def _judged(bench: Bench, episode: Episode) -> JudgedEpisode:
    from trainer.judge.types import JudgedEpisode, JudgedTurn

    info = bench.task_infos.get(episode.seed, TaskInfo())
    last = len(episode.turns) - 1
    turns = [
        JudgedTurn(
            t=t,
            messages=_messages(turn),
            reward=episode.step_rewards[t] if t < len(episode.step_rewards) else None,
            done=t == last,
        )
        for t, turn in enumerate(episode.turns)
    ]
    return JudgedEpisode(
        cid=f"smoke-{episode.n}",
        turns=turns,
        env_reward=episode.outcome,
        seed=episode.seed,
        env_name=bench.env_name or "",
        task={"name": info.task.name, "description": info.task.description},
    )


def _messages(turn: Turn) -> list[dict[str, Any]]:
    said = [m for m in turn.messages_tail if m.get("role") != "assistant"]
    messages = [{"role": str(m.get("role")), "text": _text(m.get("content"))} for m in said]
    answer: dict[str, Any] = {"role": "assistant", "text": turn.reply}
    if turn.tool_calls:
        answer["tool_calls"] = list(turn.tool_calls)
    return [*messages, answer]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _numbers(given: Sequence[Judgement], repeated: Sequence[Judgement], found: Findings) -> str:
    """What is said of the scores; notes and warnings into `found`."""
    told = []
    for name in ("event", "outcome"):
        scores = [score for one in given if (score := getattr(one, name)) is not None]
        if not scores:
            continue
        again = [score for one in repeated if (score := getattr(one, name)) is not None]
        noise = statistics.pstdev(again) if again else 0.0
        told.append(f"{name} {statistics.fmean(scores):.2f}")
        found.note(f"{name}: one episode judged {len(again)} times: sd {noise:.3f}")
        if noise > NOISY:
            found.warn(
                f"the {name} score of one episode varies by sd {noise:.2f}",
                "write criteria that leave less to taste, or choose a stronger model",
            )
    if given:
        seconds = statistics.median(one.seconds for one in given)
        costs = [one.cost_usd for one in given if one.cost_usd is not None]
        cost = f", {sum(costs) / len(costs):.5f} USD an episode" if costs else ""
        told.append(f"{seconds:.2f} s{cost}")
    return ", ".join(told)
