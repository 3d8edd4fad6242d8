"""The judge that a config asks for."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from trainer.config.schema import JudgeConfig
from trainer.judge.calls import Calls, Record
from trainer.judge.cost import cost_usd
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.judge import Judge
from trainer.judge.llm import LlmJudge
from trainer.judge.lookup import Resolved
from trainer.judge.providers import OWN_KEY_NAME, choose_provider
from trainer.judge.rule import RuleJudge
from trainer.judge.service import KEY_NAME, ServiceJudge
from trainer.taskapp.retries import Sleep

_NO_RUBRIC = "There is no rubric"


def make_judge(
    judge: JudgeConfig,
    resolved: Resolved,
    *,
    record: Record,
    judge_url: str | None = None,
    policy_name: str = "",
    task_app: Mapping[str, Any] | None = None,
    known: MutableMapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    allow_code: bool = True,
    code_from: Path | None = None,
    sleep: Sleep = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Judge:
    """
    Args:
        judge: [judge] with its derived values.
        resolved: of `resolve_rubric`.
        record: writes a line of judge.jsonl, gives its byte: `RunWriter.judge`.
        judge_url: services.judge_url.
        task_app: {id, base_url} as a judge service is told.
        known: of `known_replies`; it grows. None: every episode is asked about anew.
        allow_code: whether rules of kind python may run.
        code_from: the project's folder, in which their modules are looked for, too.

    Raises:
        JudgeMisconfigured: no key, no provider, no rubric, a wrong rule.
    """
    rubric, options = resolved.rubric, judge.options
    if judge.type == "rule":
        if rubric is None:
            raise JudgeMisconfigured("judge_rubric", _NO_RUBRIC, "Give judge.options.rubric_overrides")
        return RuleJudge(
            rubric,
            judge.event_aggregation,
            timeout_s=judge.timeout_s,
            record=record,
            allow_code=allow_code,
            code_from=code_from,
        )
    about = {
        "source": "service" if judge_url else "llm",
        "provider": options.provider,
        "model": options.model,
        "rubric_id": rubric.id if rubric else options.rubric_id,
        "rubric_hash": rubric.hash if rubric else None,
    }
    if judge_url is not None:
        calls = Calls(limit=options.max_concurrency, record=record, known=known, about=about, sleep=sleep, clock=clock)
        return ServiceJudge(
            rubric,
            judge.event_aggregation,
            judge_url=judge_url,
            key=environ.get(KEY_NAME, "").strip() or None,
            options=options,
            timeout_s=judge.timeout_s,
            policy_name=policy_name,
            task_app=dict(task_app or {}),
            calls=calls,
        )
    if rubric is None:
        raise JudgeMisconfigured("judge_rubric", _NO_RUBRIC, "Set judge.options.rubric_id")
    who = choose_provider(
        options.provider, options.model, options.base_url, options.api_key_env or OWN_KEY_NAME, environ
    )
    calls = Calls(
        limit=options.max_concurrency,
        record=record,
        known=known,
        about=about | {"model": who.model},
        cost=lambda tokens_in, tokens_out: cost_usd(who.model, tokens_in, tokens_out),
        sleep=sleep,
        clock=clock,
    )
    return LlmJudge(rubric, judge.event_aggregation, who, judge.timeout_s, options.max_concurrency, calls)
