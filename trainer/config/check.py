"""Checks of single keys: secrets, unknown names, types and ranges, what is missing."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, time
from math import isfinite
from typing import Any

from pydantic import ValidationError

from trainer.config.errors import Place, Problem, shown
from trainer.config.fixes import fix_of, variety_as_method
from trainer.config.keys import REQUIRED_SECTIONS, Key, all_keys, all_sections
from trainer.config.migrate import Entry
from trainer.config.schema import RunConfig
from trainer.config.secrets import is_secret, masked
from trainer.config.sources import Given
from trainer.config.toml_values import format_key, format_value, split_key

HUGE = 2**63
NOT_FINITE = "not a finite number"

_TYPE_NAMES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def secret_problems(given: Iterable[Given]) -> list[Problem]:
    return [
        Problem(
            replace(item.place, file=masked(item.place.file)),  # a JSON pointer holds the key
            masked(item.key),
            f"{_secret_at(item.key, item.value)}looks like a secret; a config is copied into run folders and job "
            "stores, so keys are read from the environment only",
            allowed="no secret",
            fix=_secret_fix(item.key),
            code="secret",
        )
        for item in given
        if is_secret(item.key, item.value)
    ]


def _secret_at(key: str, value: Any) -> str:
    """Which part of a table or list looks like one: its path, with "in it" after that."""
    path = ""
    while isinstance(value, dict | list):
        if isinstance(value, dict):
            parts = [(f".{format_key(str(name))}", str(name), item) for name, item in value.items()]
        else:
            parts = [(f"[{index}]", key, item) for index, item in enumerate(value)]
        found = next((part for part in parts if is_secret(part[1], part[2])), None)
        if found is None:  # the name is the secret
            break
        step, key, value = found
        path += step
    return f"{masked(path.removeprefix('.'))} in it " if path else ""


def _secret_fix(key: str) -> str:
    if key.endswith("api_key_env"):
        return 'give the name of the variable, as in api_key_env = "OPENAI_API_KEY", and export the key under it'
    if key.startswith("services."):
        return "delete it here and export ENVIRONMENT_API_KEY (task app) or SYNTH_API_KEY (judge service)"
    return "delete it here and export it as an environment variable"


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}."""
    root: dict[str, Any] = {}
    for key, value in values.items():
        *tables, name = split_key(key) if '"' in key else key.split(".")
        table = root
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
    return root


def type_problems(entries: Mapping[str, Entry]) -> tuple[list[Problem], set[str]]:
    """Problems of type and range, one a key, and the keys they are about."""
    problems: dict[str, Problem] = {}
    for key, entry in entries.items():
        if key in all_sections():
            problems[key] = Problem(
                entry.place,
                key,
                f"a table is wanted, {_type_name(entry.value)} was given",
                entry.shown,
                allowed=f"a [{key}] table",
                fix=f"[{key}]",
                code="type",
            )
        elif _holds_huge(entry.value):
            known = all_keys().get(key)
            problems[key] = Problem(
                entry.place,
                key,
                "the number does not fit into 64 bits",
                entry.shown,
                allowed="any value" if known is None else known.allowed,
                fix="delete this line" if known is None else fix_of(known, None),
                code="type",
            )
    values = {key: entry.value for key, entry in entries.items() if key not in problems}
    try:
        RunConfig.model_validate(nest(values))
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            key = _key_of(detail["loc"])
            if detail["type"] != "missing" and key in entries and key not in problems:
                problems[key] = _type_problem(entries[key], detail["loc"], entries)
    for key, entry in entries.items():
        if key not in problems and isinstance(entry.value, dict) and not _jsonable(entry.value):
            problems[key] = Problem(
                entry.place,
                key,
                "holds a date, NaN, infinity or an object, which JSON cannot carry to the task app",
                allowed="strings, finite numbers, booleans, lists and tables",
                fix="write it as a string",
                code="type",
            )
    return list(problems.values()), set(problems)


def _holds_huge(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_huge, value.values()))
    if isinstance(value, list):
        return any(map(_holds_huge, value))
    return isinstance(value, int) and not -HUGE <= value < HUGE


def _jsonable(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _key_of(loc: tuple[int | str, ...]) -> str:
    """The key that a pydantic location belongs to: list indexes, table keys and union branches cut off."""
    names = [str(part) for part in loc]
    if names[0] == "tags" and len(names) > 1:
        return f"tags.{format_key(names[1])}"
    for count in range(len(names), 0, -1):
        key = ".".join(names[:count])
        if key in all_keys():
            return key
    return ".".join(names)


def _type_problem(entry: Entry, loc: tuple[int | str, ...], entries: Mapping[str, Entry]) -> Problem:
    known = all_keys().get(entry.key)
    if known is None:
        why, allowed, fix = _tag(entry)
    elif known.path == "algorithm.method" and (pair := variety_as_method(entry.value)):
        why, fix = _variety_as_method(pair, entries)
        allowed = known.allowed
    else:
        why, allowed, fix = _why(known, entry.value, loc), known.allowed, fix_of(known, entry.value)
    return Problem(entry.place, entry.key, why, entry.shown, allowed=allowed, fix=fix, code="type")


def _tag(entry: Entry) -> tuple[str, str, str]:
    """A tag of another kind can be kept as text."""
    value, name = entry.value, format_key(split_key(entry.key)[-1])
    if isinstance(value, list):
        at = next(number for number, item in enumerate(value, 1) if not _is_scalar(item))
        why = f"item {at}, {shown(value[at - 1])}, does not fit"
    else:
        why = NOT_FINITE if isinstance(value, float) else f"{_type_name(value)} was given"
    text = format_value(format_value(value))
    fix = f"{name} = {text}" if len(text) < 60 else "write it as a string"
    return why, "a string, number, boolean, or a list of these", fix


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value))


def _variety_as_method(pair: tuple[str, str], entries: Mapping[str, Entry]) -> tuple[str, str]:
    method, variety = pair
    why = f'{variety} is a variety, not a method: it is method "{method}" with variety "{variety}"'
    given = entries.get("algorithm.variety")
    both = "" if given is not None and given.value == variety else f', and variety = "{variety}"'
    return why, f'method = "{method}"{both}'


def _why(known: Key, value: Any, loc: tuple[int | str, ...]) -> str:
    if isinstance(value, float) and not isfinite(value):
        return NOT_FINITE
    wanted = {float: (int, float), dict: (dict,)}
    fits = any(
        isinstance(value, wanted.get(kind, (kind,)) if isinstance(kind, type) else ())
        and (kind is bool or not isinstance(value, bool))
        for kind in known.types
    )
    inside = loc[len(known.path.split(".")) :]
    if known.choices and isinstance(value, str):
        return "not one of the known values"
    if known.is_table and isinstance(value, dict):
        return f"the value of {format_key(str(inside[0]))} in it does not fit" if inside else "it does not fit"
    if not fits:
        return f"{_type_name(value)} was given"
    if isinstance(value, list) and value:
        at = next((part for part in inside if isinstance(part, int)), None)
        return "too many items" if at is None else f"item {at + 1}, {shown(value[at])}, does not fit"
    reason = _REASONS.get(known.path)
    why = "does not fit" if isinstance(value, str) else "out of range"
    return "it is empty" if value == "" else why + (f": {reason}" if reason else "")


_REASONS = {
    "policy.temperature": "greedy members of a group are identical, so they give no gradient",
    "training.group_size": "one episode has no other to be compared with",
    "rollout.episodes_per_batch": "a group has at least 2 episodes",
}


def _type_name(value: Any) -> str:
    for kind in (bool, int, float, str, list, dict):
        if isinstance(value, kind):
            return _TYPE_NAMES[kind]
    return "a date or time" if isinstance(value, date | time) else f"a Python object ({type(value).__name__})"


def missing_keys(given: Iterable[str], derived: Iterable[str], sections: Collection[str]) -> list[str]:
    """Required keys that are neither given nor derived, of the sections that are required or present.

    In [compute] the GPU's type and count are required with the section, although each has a default without it.
    """
    have = {*given, *derived}
    wanted = {*REQUIRED_SECTIONS, *(["evaluation"] if "evaluation" in sections else [])}
    missing = [key for key, item in all_keys().items() if item.required and item.section in wanted and key not in have]
    if not have & {"policy.model_name", "policy.source"}:
        missing.append("policy.model_name")
    if "compute" in sections:
        missing += [key for key in ("compute.gpu_type", "compute.gpu_count") if key not in given]
    order = list(all_keys())
    return sorted(missing, key=order.index)


def missing_problem(file: str, missing: list[str], sections: Collection[str]) -> Problem:
    """One error for all missing keys, with a block to paste. `sections`: those that the file has."""
    block: list[str] = []
    section = None
    asked = [all_keys()[path] for path in missing]
    for path, known in zip(missing, asked, strict=True):
        if known.section != section:
            section = known.section
            block.append(f"  [{section}]")
        line = f"  {known.name} = {format_value(known.meta['example'])}"
        if path == "policy.model_name":
            block.append(f"{line}   # or source; {known.summary}")
        elif path == "services.task_url":
            block.append(f"{line}   # or the variable TASK_APP_URL; {known.summary}")
        else:
            block.append(f"{line}   # {known.summary}")
    count = f"{len(missing)} required keys are missing" if len(missing) > 1 else "a required key is missing"
    why = f"{count}: {', '.join(missing)}"
    below = " (below the header, where the file has it)" if {known.section for known in asked} & {*sections} else ""
    return Problem(
        Place(file),
        "",
        why,
        fix="\n".join([f"paste this{below}, and set the values to yours", *block]),
        code="missing",
    )
