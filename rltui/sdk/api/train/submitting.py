"""From a job's config to what is posted: merged, validated, and with a task app that answers."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rltui.backend import normal_url
from rltui.job_body import job_body
from rltui.smoke.net import is_loopback

if TYPE_CHECKING:
    from rltui.sdk.api.train.rl import RLJobConfig
    from trainer.config import Loaded

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    body: dict[str, Any]
    task_app_key: str | None = field(repr=False)


def prepare(config: RLJobConfig, *, check_task_app: bool) -> Submission:
    """What is to be posted.

    Raises:
        ConfigError: the config, overrides included.
        ValueError: the task app does not pass the health gate (WIRE 1.3), or a rubric's file is none.
    """
    from trainer.config import ConfigError, load
    from trainer.config.machine import ELSEWHERE
    from trainer.judge.errors import JudgeMisconfigured

    same_machine = is_loopback(normal_url(config.backend_url))
    loaded = load(config.config_path, overrides=_overrides(config), machine=ELSEWHERE)
    for problem in loaded.warnings:
        log.log(logging.WARNING if problem.code == "beaten" else logging.INFO, "%s", problem)
    if template := [problem for problem in loaded.launch_problems() if problem.code == "template_host"]:
        raise ConfigError(template)
    key = config.task_app_api_key or loaded.env_file.get("ENVIRONMENT_API_KEY", "").strip() or None
    if check_task_app and "://" in loaded.config.services.task_url:
        _run(_health_gate(loaded, key))
    try:
        body = job_body(loaded, config.config_path, client="rltui.sdk", same_machine=same_machine)
    except JudgeMisconfigured as error:
        raise ValueError(str(error)) from None
    return Submission(body, key)


def _overrides(config: RLJobConfig) -> dict[str, Any]:
    """overrides.task_url wins over the argument and TASK_APP_URL, which are task_app_url by now."""
    given = dict(config.overrides or {})
    services = given.get("services")
    names = {"task_url", "services.task_url", "task_app.url"}
    named = names & given.keys() or (isinstance(services, Mapping) and "task_url" in services)
    if config.task_app_url and not named:
        given["task_url"] = config.task_app_url
    return given


async def _health_gate(loaded: Loaded, key: str | None) -> None:
    from trainer.taskapp import auth
    from trainer.taskapp.client import TaskAppClient
    from trainer.taskapp.errors import TaskAppError

    aliases = auth.split_keys(os.environ.get(auth.ALIASES_NAME, ""))
    try:
        async with TaskAppClient(loaded.config.services.task_url, api_key=key, aliases=aliases) as client:
            await client.health_gate()
    except TaskAppError as error:
        text = f"{error.message}. {error.hint}"
        prefix = "" if text.startswith("Task app health check failed") else "Task app health check failed: "
        raise ValueError(prefix + text) from None


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Runs it to its end, whether an event loop is running in this thread or not."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:  # raised anew in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
