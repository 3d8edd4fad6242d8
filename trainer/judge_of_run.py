"""The judge of a run: what the config asks for, the task app publishes, and earlier attempts paid for already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from trainer.config import Loaded
from trainer.failures import misconfigured
from trainer.judge.cache import known_replies
from trainer.judge.choose import make_judge
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.judge import Judge
from trainer.judge.lookup import RUBRICS, resolve_rubric
from trainer.recorder import Recorder
from trainer.rewards.rules import Blend
from trainer.rundir.reader import RunReader
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import RubricInfo, ServiceInfo, TaskInfo
from trainer.taskapp.errors import TaskAppError

Json = dict[str, Any]
ALLOW_CODE = "RLTUI_ALLOW_CODE"  # 0: set by a job server, whose clients, and their task apps, may not run code here


@dataclass(frozen=True, slots=True)
class RunJudge:
    """`task`: what the task app says of the task, as every judge is told. `facts`: who judges by what, to be stored."""

    judge: Judge
    task: Json
    facts: Json


async def judge_of_run(loaded: Loaded, recorder: Recorder, client: TaskAppClient, config_file: Path) -> RunJudge | None:
    """None: the config asks for none, or for the task app's rewards alone. What was chosen is told as an event.

    Args:
        config_file: where the config lay when the run was first started; rubrics and rules lie beside it.

    Raises:
        RunError: nothing can be judged like this.
    """
    config = loaded.config
    if not config.judge.enabled or config.rollout.task_app_origin_rewards_only:
        return None
    writer, url = recorder.writer, config.services.judge_url if config.judge.type == "llm" else None
    published = await _published(client, config.data.seed_start)
    try:
        resolved = resolve_rubric(
            config.judge.options,
            folder=config_file.parent / RUBRICS,
            app=published.rubric,
            service=url is not None,
        )
        judge = make_judge(
            config.judge,
            resolved,
            record=writer.judge,
            judge_url=url,
            policy_name=config.rollout.policy_name,
            task_app={"id": published.id, "base_url": client.base_url},
            known=known_replies(RunReader(writer.paths.root).judge_lines()),
            allow_code=os.environ.get(ALLOW_CODE) != "0",
            code_from=config_file.parent,
        )
    except JudgeMisconfigured as error:
        raise misconfigured(error) from None
    facts = {**judge.describe(), "rubric_from": resolved.source, "task": published.task}
    for text in resolved.warnings:
        recorder.warn("judge", text)
    blend = Blend(**loaded.blend)
    recorder.event("rl.judge", told(facts, blend), **facts, blend=blend.record())
    return RunJudge(judge, published.task, facts)


def told(facts: Mapping[str, Any], blend: Blend) -> str:
    """Who judges, and what becomes the reward, in one line."""
    who = {"rule": "rules judge", "service": "a judge service scores"}.get(facts["source"])
    if who is None:
        who = f"{clean(facts['model'], 80)} ({clean(facts['provider'], 40)}) judges"
    rubric = f"the rubric {clean(facts['rubric_id'], 60)}" if facts["rubric_id"] else "the rubric"
    parts = {"the environment": blend.env, "J_event": blend.event, "J_outcome": blend.outcome}
    terms = [f"{weight:g} x {name}" for name, weight in parts.items() if weight]
    return f"{who} by {rubric} of {facts['rubric_from']}; reward = {' + '.join(terms)}"


@dataclass(frozen=True, slots=True)
class _Published:
    """What the task app says of itself; one that says nothing can be judged all the same."""

    id: str | None
    rubric: RubricInfo | None
    task: Json


async def _published(client: TaskAppClient, seed: int) -> _Published:
    service, infos = ServiceInfo(), [TaskInfo()]
    with suppress(TaskAppError, httpx.HTTPError):
        service = await client.info()
    with suppress(TaskAppError, httpx.HTTPError):
        infos = await client.task_info([seed, seed + 1]) or infos
    rubrics = (rubric for rubric in (service.rubrics, infos[0].rubric) if rubric.outcome or rubric.events)
    task: Json = {}
    for name in ("name", "description"):
        said = {getattr(info.task, name) for info in infos}
        if len(said) == 1 and (text := said.pop()):  # what differs from seed to seed is not said of all of them
            task[name] = clean(text, 1000)
    return _Published(infos[0].task.id, next(rubrics, None), task)
