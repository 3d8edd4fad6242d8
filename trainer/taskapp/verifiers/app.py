"""`verifiers:NAME` (also `builtin:verifiers.NAME`): an installed environment, served as a task app.

The seed of an episode is the number of its task, from 0. A task set with a `split` in its own config plays the split
that a request names; any other has one, `train`.

env.config: `env` (verifiers' own `[env]` table: taskset, the agents by name, id), `split`, `max_turns`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from trainer.taskapp.builtin.common import USED_UP
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.reading import count, mapping
from trainer.taskapp.replies import refuse
from trainer.taskapp.server import TaskAppConfig

INSTALL = "pip install 'rltui[verifiers]'"
SPLIT = "train"
CAUSE_CHARS = 800


def datasets() -> list[str]:
    """Names of the installed environments: packages that require verifiers. Raises TaskAppError: it is missing."""
    _parts()
    found = {
        distribution.metadata["Name"]
        for distribution in distributions()
        if any(_needs_verifiers(requirement) for requirement in distribution.requires or [])
    }
    return sorted(name for name in found if find_spec(_module(name)) is not None)


def _needs_verifiers(requirement: str) -> bool:
    """What only an extra requires, as ours does, makes no environment of a package."""
    return re.match(r"verifiers(?![\w.-])", requirement) is not None and "extra ==" not in requirement


def build_config(name: str) -> TaskAppConfig:
    """The task app of one environment. Raises TaskAppError: no such environment, or no such package."""
    parts, answers = _parts()
    try:
        first = parts.Environment(name, {})
    except Exception as error:  # also what the environment's own code raises
        raise TaskAppError(_why_not(name, error), f"Installed: {', '.join(datasets()) or 'none'}") from None
    environments: dict[str, Any] = {}
    read: dict[str, Any] = {}

    def environment_of(config: Json) -> Any:
        """The environment of a request's env.config."""
        options, split, max_turns = mapping(config.get("env")), config.get("split"), count(config.get("max_turns"))
        if split is not None and first.has_splits:
            options = {**options, "taskset": {"split": split, **mapping(options.get("taskset"))}}
        elif split not in (None, SPLIT):
            raise refuse(422, "unknown_split", f"there is no split {split!r}; known: {SPLIT}")
        wanted = json.dumps([options, max_turns], sort_keys=True)
        if wanted not in environments:
            try:
                environments[wanted] = parts.Environment(name, options, max_turns)
            except Exception as error:  # pydantic's, and the environment's own
                raise refuse(422, "bad_env_config", f"{name} cannot be made: {_cause(error)}") from None
        return environments[wanted]

    def tasks_of(environment: Any) -> Any:
        return read.setdefault(environment.taskset_key, parts.Tasks(environment.env.taskset))

    async def rollout(request: RolloutRequest, _: Request) -> Json:
        environment, seed = environment_of(request.env.config), request.env.seed or 0
        tasks = tasks_of(environment)
        task = await run_in_threadpool(tasks.get, seed)
        if task is None:
            size = await run_in_threadpool(tasks.size)
            message = f"seed {seed} is out of range: split {environment.split} has {size} seeds, 0-{(size or 0) - 1}"
            raise refuse(422, "seed_out_of_range", message)
        if not isinstance(request.policy.config.get("inference_url"), str):
            raise refuse(422, "no_inference_url", "policy.config.inference_url is missing")
        try:
            async with asyncio.timeout(request.safety.max_time_s):  # whoever asked has gone by then
                episode = await environment.play(task, request.policy.config, mode=request.mode)
        except TimeoutError:
            raise refuse(504, "timeout", f"the episode took longer than {request.safety.max_time_s} s") from None
        except Exception as error:  # what the episodes share could not be started
            raise refuse(502, "environment_failed", f"{name}: {_cause(error)}") from None
        cause = answers.failure_of(episode) or ""
        if any(code in cause for code in USED_UP):
            text = f"the prompt of seed {seed} does not fit into the model's context; raise vllm.max_model_len"
            raise refuse(413, "too_long", text)
        try:
            return dict(answers.answer(episode, request, name))
        except answers.Unplayable as error:
            raise refuse(422, "unplayable", f"{name}: {error}") from None

    def taskset() -> Json:
        size = tasks_of(first).size()
        return {"id": name, **splits, **({} if size is None else {"sizes": {first.split: size}})}

    def task_infos(seeds: Sequence[int]) -> list[Json]:
        tasks = {seed: tasks_of(first).get(seed) for seed in seeds}
        return [
            {"task_metadata": {"seed": seed, "prompt": task.data.prompt_text, "system_prompt": task.data.system_prompt}}
            for seed, task in tasks.items()
            if task is not None
        ]

    async def close() -> None:
        await asyncio.gather(*(environment.close() for environment in environments.values()))

    splits = {"splits": [first.split], "default_split": first.split}
    return TaskAppConfig(
        app_id=f"verifiers:{name}",
        name=f"verifiers: {name}",
        description=f"The environment {name} of verifiers, played and scored by its own code.",
        base_task_info={
            "task": {"id": f"verifiers:{name}", "name": name, "version": "1"},
            "environment": "verifiers",
            "dataset": {"id": name, **splits},
            "rubric": {"outcome": None, "events": None},
            "limits": {},
        },
        describe_taskset=taskset,
        provide_task_instances=task_infos,
        rollout=rollout,
        shutdown_hooks=(close,),
    )


def _why_not(name: str, error: Exception) -> str:
    lacks = getattr(error.__cause__, "name", None) if isinstance(error, ModuleNotFoundError) else None
    if lacks == _module(name):
        return f"there is no environment {clean(name)!r} of verifiers"
    return f"{clean(name)} lacks the package {clean(lacks)}" if lacks else f"{clean(name)} fails: {_cause(error)}"


def _module(name: str) -> str:
    return name.replace("-", "_").lower()


def _cause(error: Exception) -> str:
    return clean(f"{type(error).__name__}: {error}", CAUSE_CHARS)


def _parts() -> tuple[Any, Any]:
    """The modules environment and answer, which import the package. Raises TaskAppError: it is not there."""
    try:
        parts = [import_module(f"trainer.taskapp.verifiers.{name}") for name in ("environment", "answer")]
    except ImportError as error:
        lacks = error.name or ""
        missing = "" if lacks.partition(".")[0] in ("", "verifiers") else f" whole (it lacks {lacks})"
        raise TaskAppError(f"the package verifiers 0.4 is not installed{missing}", f"Run `{INSTALL}`") from None
    return parts[0], parts[1]
