"""Task apps from the package `reasoning_gym`: any of its data sets as a one-turn task, scored by its own scorer.

`reasoning_gym:DATASET` (also `builtin:reasoning_gym.DATASET`). The seed of an episode is the index of the
item: 0-9999 are the split `train`, 10000-10999 the split `test`. The package draws each item from a generator seeded
with the data set's seed plus the index, so no item occurs in both splits; only a data set with few possible questions
may still ask the same one twice.

env.config: `dataset` (fields of the data set's own config, such as `max_animals`), `system_prompt` (a name of the
package's SYSTEM_PROMPTS, or "none").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from trainer.taskapp.builtin.common import complete, seed_in_split
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.llm import ChatClient
from trainer.taskapp.reading import mapping
from trainer.taskapp.replies import refuse
from trainer.taskapp.server import TaskAppConfig

INSTALL = "pip install reasoning-gym"
SPLITS = {"train": range(0, 10_000), "test": range(10_000, 11_000)}
SIZE = 11_000
DATASET_SEED = 0
DEFAULT_PROMPT = "default"
# What a scorer raises over an answer that it cannot read; such an answer is wrong, the episode is fine.
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, SyntaxError, RecursionError)


def datasets() -> list[str]:
    """The names of the package's data sets. Raises TaskAppError: the package is not installed."""
    return sorted(_package("factory").DATASETS)


def build_config(name: str) -> TaskAppConfig:
    """The task app of one data set. Raises TaskAppError: no such data set, or no such package."""
    if name not in datasets():
        raise TaskAppError(
            f"reasoning_gym has no data set {clean(name)!r}",
            "`rltui taskapp list reasoning_gym` names them all",
        )
    client = ChatClient()
    dataset_of = lru_cache(maxsize=16)(lambda options: _dataset(name, json.loads(options)))
    prompts: Mapping[str, str] = _package("utils").SYSTEM_PROMPTS
    extract: Callable[[str], str | None] = _package("utils").extract_answer

    def item(seed: int, options: Any = None) -> tuple[Any, Json]:
        """(data set, entry) of a seed."""
        try:
            dataset = dataset_of(json.dumps(options or {}, sort_keys=True))
            return dataset, dataset[seed]
        except (*UNREADABLE, AssertionError) as error:
            cause = clean(f"{type(error).__name__}: {error}")
            raise refuse(422, "bad_env_config", f"{name} cannot be made with env_config.dataset: {cause}") from None

    async def rollout(request: RolloutRequest, _: Request) -> Json:
        seed, config = seed_in_split(request, SPLITS), request.env.config
        dataset, entry = await run_in_threadpool(item, seed, config.get("dataset"))
        messages = _messages(entry["question"], prompts, config.get("system_prompt", DEFAULT_PROMPT))
        completion = await complete(client, request, messages)
        if completion is None:  # the question alone is longer than the context: another seed takes its place
            raise refuse(
                413,
                "too_long",
                f"the question of seed {seed} does not fit into the model's context; raise vllm.max_model_len, or "
                "have shorter questions (rollout.env_config.dataset)",
            )
        answer = extract(completion.text)
        reward, fault = await run_in_threadpool(score, dataset, answer, entry)
        info: Json = {"extracted": answer, "answer": _text(entry.get("answer")), "dataset": name}
        step = {
            "obs": {"messages": messages},
            "tool_calls": [],
            "output": completion.text,
            "output_mode": "text",
            "reward": reward,
            "done": True,
            "truncated": completion.finish_reason == "length",
            "info": info if fault is None else info | {"unreadable": fault},
        }
        return {
            "trajectories": [{"env_id": name, "policy_id": request.policy.policy_name, "steps": [step]}],
            "metrics": {"outcome_reward": reward, "episode_returns": [reward], "mean_return": reward},
            "success_status": "success",
        }

    def task_infos(seeds: Sequence[int]) -> list[Json]:
        known = [seed for seed in seeds if 0 <= seed < SIZE]
        return [{"task_metadata": {"seed": seed, "prompt": item(seed)[1]["question"]}} for seed in known]

    return TaskAppConfig(
        app_id=f"reasoning_gym:{name}",
        name=f"Reasoning Gym: {name}",
        description=f"The data set {name} of reasoning_gym, scored by its own scorer.",
        base_task_info={
            "task": {"id": f"reasoning_gym:{name}", "name": name, "version": "1"},
            "environment": "reasoning_gym",
            "dataset": {"id": name, "splits": list(SPLITS), "default_split": "train"},
            "rubric": {"outcome": None, "events": None},
            "limits": {"max_turns": 1},
        },
        describe_taskset=lambda: {
            "id": name,
            "splits": list(SPLITS),
            "default_split": "train",
            "sizes": {split: len(seeds) for split, seeds in SPLITS.items()},
        },
        provide_task_instances=task_infos,
        rollout=rollout,
        shutdown_hooks=(client.close,),
    )


def score(dataset: Any, answer: str | None, entry: Json) -> tuple[float, str | None]:
    """(reward, why the answer could not be read or None) by the data set's own scorer."""
    try:
        return float(dataset.score_answer(answer, entry)), None
    except UNREADABLE as error:
        return 0.0, clean(f"{type(error).__name__}: {error}")


def _dataset(name: str, options: Json) -> Any:
    fixed = {"seed": DATASET_SEED, "size": SIZE}
    if clash := sorted(fixed.keys() & mapping(options).keys()):
        raise ValueError(f"{' and '.join(clash)} are fixed: the episode's seed picks the item")
    return _package("factory").create_dataset(name, **options, **fixed)


def _messages(question: str, prompts: Mapping[str, str], chosen: object) -> list[Json]:
    user = {"role": "user", "content": question}
    if chosen == "none":
        return [user]
    if chosen not in prompts:
        message = f"env_config.system_prompt is one of {', '.join(prompts)}, none"
        raise refuse(422, "bad_env_config", message)
    return [{"role": "system", "content": prompts[str(chosen)].strip()}, user]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _package(module: str) -> Any:
    try:
        return import_module(f"reasoning_gym.{module}")
    except ImportError as error:
        lacks = error.name or ""
        missing = "" if lacks.partition(".")[0] in ("", "reasoning_gym") else f" whole (it lacks {lacks})"
        raise TaskAppError(f"the package reasoning_gym is not installed{missing}", f"Run `{INSTALL}`") from None
