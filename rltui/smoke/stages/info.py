"""S04 info and limits, S05 task_info: one seed, none, many."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rltui.smoke.bench import Bench
from rltui.smoke.probe import NoAnswer
from rltui.smoke.stages.base import Findings, Found, listed
from trainer.taskapp.codes import clean
from trainer.taskapp.contracts import ServiceInfo, TaskInfo, Taskset
from trainer.taskapp.reading import mapping

FULL_SEEDS = tuple(range(15))
MOST_EVALUATION = 20  # seeds of an evaluation that are compared
_NAMES_OF_A_SEED = {"seed", "id", "index", "instance_id", "idx", "task_id"}


async def info(bench: Bench) -> Found:
    found = Findings()
    try:
        answer = await bench.probe.get("/info", bench.keys)
    except NoAnswer as error:
        return Found("warn", f"GET /info: {error}", "answer 404 where there is none")
    service = ServiceInfo()
    if answer.status == 404:
        found.note("the app has no /info, which is optional")
    elif answer.status != 200:
        found.warn(f"GET /info answers {answer.status}", "answer 200, or 404 where there is none")
    elif not isinstance(body := answer.json_or_none(), dict):
        found.warn("GET /info answers no JSON object", "answer {service, dataset, rubrics, inference, limits}")
    else:
        service = ServiceInfo.read(body)
        bench.app = {"task": mapping(body.get("service")).get("task"), "limits": body.get("limits")}
    needed, allowed = bench.settings.needed_turns or bench.settings.max_turns, service.limits.max_turns
    if allowed is not None and bench.settings.needed_turns is not None and allowed < needed:
        found.warn(
            f"the app plays at most {allowed} turns, the config asks for {needed}", f"set rollout.max_turns = {allowed}"
        )
    names = ", ".join(map(str, filter(None, (mapping(bench.app.get("task")).get("id"), _limits(service)))))
    return found.found(clean(names) or "no limits given")


def _limits(service: ServiceInfo) -> str:
    limits = service.limits
    given = {"turns": limits.max_turns, "tokens": limits.max_response_tokens, "seconds": limits.timeout_seconds}
    return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)


async def task_info(bench: Bench) -> Found:
    """One seed, no seed and many seeds of `GET /task_info`; enough of them, and different."""
    found, settings = Findings(), bench.settings
    seeds = list(FULL_SEEDS if settings.full else settings.seeds)
    evaluation = [s for s in settings.evaluation_seeds[:MOST_EVALUATION] if s not in seeds]
    whole = await _ask(bench, [], found, "no seed")
    bench.taskset = Taskset.of(whole)
    single = await _ask(bench, seeds[:1], found, "one seed")
    if single is not None and not isinstance(single, dict):
        found.fail("GET /task_info?seed=N answers no object", "answer one TaskInfo object for one seed")
    many = await _ask(bench, [*seeds, *evaluation], found, "many seeds") if len([*seeds, *evaluation]) > 1 else [single]
    if isinstance(many, list):
        _read_infos(bench, many, [*seeds, *evaluation], found)
    elif many is not None:
        found.fail(
            "GET /task_info?seed=1&seed=2 answers no list", "answer a list with one TaskInfo for each seed, in order"
        )
    _check_size(bench, found)
    if bench.env_name is None:
        first = bench.task_infos.get(seeds[0]) or TaskInfo.read(single)
        bench.env_name = first.environment or first.task.id
    if not bench.app:
        bench.app = {"task": mapping(mapping(single).get("task"))}
    _check_env_name(bench, found)
    _check_different(bench, seeds, evaluation, found)
    return found.found(f"{len(bench.task_infos)} seeds described")


async def _ask(bench: Bench, seeds: Sequence[int], found: Findings, what: str) -> Any:
    try:
        answer = await bench.probe.get("/task_info", bench.keys, [("seed", seed) for seed in seeds])
    except NoAnswer as error:
        found.fail(f"GET /task_info with {what}: {error}", "answer it at once")
        return None
    body = answer.json_or_none()
    if answer.status == 422:
        found.fail(f"GET /task_info with {what} answers 422: {clean(answer.evidence, 120)}", "use seeds of its split")
    elif answer.status != 200:
        found.fail(f"GET /task_info with {what} answers {answer.status}", "take seed=, repeated for many")
    elif body is None:
        found.fail(f"GET /task_info with {what} answers no JSON", "answer JSON")
    return body if answer.status == 200 else None


def _read_infos(bench: Bench, many: list[Any], asked: list[int], found: Findings) -> None:
    if len(many) != len(asked):
        message = f"{len(asked)} seeds asked, {len(many)} described"
        found.warn(message, "describe each seed that is asked for, or choose seeds of the app's split")
        return
    bench.task_infos = {seed: TaskInfo.read(item) for seed, item in zip(asked, many, strict=True)}
    for seed, item in zip(asked, many, strict=True):
        told = mapping(mapping(item).get("task_metadata")).get("seed")
        if isinstance(told, int) and not isinstance(told, bool) and told != seed:
            found.fail(f"seed {seed} asked, seed {told} described", "answer the seeds in the order of the request")
            return


def _check_size(bench: Bench, found: Findings) -> None:
    taskset, settings = bench.taskset, bench.settings
    sizes = (taskset.sizes or {}) if taskset is not None else {}
    split = settings.split or (taskset.default_split if taskset is not None else None) or "train"
    size = sizes.get(split)
    if size is None:
        found.note("the app does not say how many seeds it has")
    elif settings.seed_count is not None and settings.seed_count > size:
        found.fail(f"data.seed_count is {settings.seed_count}, the split {split} has {size}", f"seed_count = {size}")
    else:
        found.note(f"split {split}: {size} seeds")


def _check_env_name(bench: Bench, found: Findings) -> None:
    known = {info.environment for info in bench.task_infos.values()} - {None}
    if known and bench.env_name is not None and bench.env_name not in known:
        names = listed(sorted(clean(str(name), 60) for name in known))
        found.warn(f"env_name is {clean(bench.env_name, 60)}, the app calls it {names}", "correct rollout.env_name")


def _check_different(bench: Bench, seeds: list[int], evaluation: list[int], found: Findings) -> None:
    essences = {seed: essence(item) for seed, item in bench.task_infos.items()}
    same: dict[str, list[int]] = defaultdict(list)
    for seed in (seed for seed in seeds if seed in essences):
        same[essences[seed]].append(seed)
    repeated = [group for group in same.values() if len(group) > 1]
    if repeated and len(seeds) > 1:
        whole = len(same) == 1
        what = "all prompts are equal" if whole else f"seeds {listed(repeated[0])} have equal prompts"
        found.warn(f"{what} in task_info", "the difference may be hidden state; else make the seed choose the task")
    trained = {essences[seed]: seed for seed in seeds if seed in essences}
    equal = [seed for seed in evaluation if essences.get(seed) in trained]
    if equal and len(same) > 1:  # where all first prompts are equal, they say nothing of the tasks
        found.warn(
            f"evaluation seeds {listed(equal)} have prompts of training seeds",
            "choose evaluation.seeds whose tasks do not occur in training",
        )


def essence(item: TaskInfo) -> str:
    """A task description without what merely numbers it."""
    return json.dumps(_without_numbers(item.model_dump(mode="json")), sort_keys=True, default=str)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_numbers(v) for k, v in value.items() if k not in _NAMES_OF_A_SEED}
    return [_without_numbers(item) for item in value] if isinstance(value, list) else value
