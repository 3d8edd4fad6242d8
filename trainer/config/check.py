"""Checks of single keys: secrets, unknown names, types and ranges, what is missing."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from trainer.config.errors import Place, Problem, shown
from trainer.config.keys import OPEN_SECTIONS, REQUIRED_SECTIONS, Key, all_keys, all_sections
from trainer.config.migrate import Entry, move_of
from trainer.config.schema import RunConfig
from trainer.config.secrets import is_secret
from trainer.config.sources import Given
from trainer.config.toml_values import format_value, split_key
from trainer.config.unknown import nearest_key, nearest_section, top_sections

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
            item.place,
            item.key,
            "looks like a secret; a config is copied into run folders and job stores, "
            "so keys are read from the environment only",
            allowed="no secret",
            fix=_secret_fix(item.key),
            code="secret",
        )
        for item in given
        if is_secret(item.key, item.value)
    ]


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


def unknown_problems(entries: Iterable[Entry], *, allow: bool) -> tuple[list[Problem], set[str], set[str]]:
    """Problems, the unknown keys, and the known keys that were probably meant by them.

    A misspelt section is one problem, however many keys it holds.
    """
    problems: list[Problem] = []
    unknown: set[str] = set()
    meant: set[str] = set()
    sections: set[str] = set()
    for entry in entries:
        key = entry.key
        section, _, name = key.partition(".")
        parent = key.rpartition(".")[0]
        if key in all_keys() or key in all_sections():
            continue
        if parent in OPEN_SECTIONS:
            if parent == "vllm" and (near := nearest_key(key)) and near.startswith("vllm."):
                why = f"no key of ours: passed to the engine. Did you mean `{near}`?"
                problems.append(
                    Problem(entry.key_place, key, why, shown(entry.value), level="warning", code="engine_option")
                )
            continue
        unknown.add(key)
        level = "warning" if allow else "error"
        if name and section not in top_sections() and (near := nearest_section(section)) is not None:
            move = move_of(f"{near}.{name}")
            meant.add(f"{near}.{name}" if move is None else move.new)
            if section not in sections:
                sections.add(section)
                why = f"unknown section; did you mean `[{near}]`?"
                problems.append(
                    Problem(entry.key_place, section, why, fix=f"[{near}]", level=level, code="unknown_key")
                )
            continue
        near = nearest_key(key)
        why, fix = "unknown key", "delete it, or load with --allow-unknown"
        if near is not None:
            move = move_of(near)
            why += f"; did you mean `{near}`?" if move is None else f"; did you mean `{near}` (now `{move.new}`)?"
            fix = near if move is None else move.new
            meant.add(fix)
        problems.append(
            Problem(entry.key_place, key, why, shown(entry.value), fix=fix, level=level, code="unknown_key")
        )
    return problems, unknown, meant


def type_problems(entries: Mapping[str, Entry]) -> tuple[list[Problem], set[str]]:
    """Problems of type and range, one a key, and the keys they are about."""
    problems: dict[str, Problem] = {}
    for key, entry in entries.items():
        if key in all_sections():
            problems[key] = Problem(
                entry.place,
                key,
                f"a table is wanted, {_type_name(entry.value)} was given",
                shown(entry.value),
                allowed=f"a [{key}] table",
                fix=f"[{key}]",
                code="type",
            )
    values = {key: entry.value for key, entry in entries.items() if key not in problems}
    try:
        RunConfig.model_validate(nest(values))
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            key = _key_of(detail["loc"])
            if detail["type"] != "missing" and key in entries and key not in problems:
                problems[key] = _type_problem(entries[key], detail["msg"])
    for key, entry in entries.items():
        if key not in problems and isinstance(entry.value, dict) and not _jsonable(entry.value):
            problems[key] = Problem(
                entry.place,
                key,
                "holds a date, NaN or infinity, which JSON cannot carry to the task app",
                allowed="strings, finite numbers, booleans, lists and tables",
                fix="write dates as strings",
                code="type",
            )
    return list(problems.values()), set(problems)


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
        return f"tags.{names[1]}"
    for count in range(len(names), 0, -1):
        key = ".".join(names[:count])
        if key in all_keys():
            return key
    return ".".join(names)


def _type_problem(entry: Entry, message: str) -> Problem:
    known = all_keys().get(entry.key)
    if known is None:
        return Problem(
            entry.place,
            entry.key,
            message,
            shown(entry.value),
            allowed="a string, number, boolean, or a list of these",
            fix="write it as a string",
            code="type",
        )
    return Problem(
        entry.place,
        entry.key,
        _why(known, entry.value),
        shown(entry.value),
        allowed=_allowed(known),
        fix=_fix(known, entry.value),
        code="type",
    )


def _why(known: Key, value: Any) -> str:
    wanted = {float: (int, float), dict: (dict,)}
    fits = any(
        isinstance(value, wanted.get(kind, (kind,)) if isinstance(kind, type) else ())
        and (kind is bool or not isinstance(value, bool))
        for kind in known.types
    )
    if known.choices and isinstance(value, str):
        return "not one of the known values"
    if known.is_table and isinstance(value, dict):
        return "a value in the table has the wrong type"
    if not fits:
        return f"{_type_name(value)} was given"
    return "a list item does not fit" if isinstance(value, list) and value else "out of range"


def _allowed(known: Key) -> str:
    if known.path == "services.task_url":
        return "an http(s) URL, builtin:NAME, or the path of a .py file"
    if known.name.endswith("url"):
        return "an http(s) URL"
    if known.name == "api_key_env":
        return "the name of an environment variable"
    if known.path == "smoke.policy":
        return "mock, scripted, self, human, gpt-5-nano, openai, groq, or an http(s) URL"
    if known.path == "judge.reward_blend":
        return "a table with env, event and outcome, numbers >= 0"
    return known.allowed


def _fix(known: Key, value: Any) -> str:
    if known.choices:
        from difflib import get_close_matches

        near = get_close_matches(str(value).strip().lower(), known.choices, n=1, cutoff=0.0)
        return f'{known.name} = "{(near or known.choices)[0]}"'
    if isinstance(value, str) and ({int, float} & set(known.types)):
        try:
            number: Any = int(value) if int in known.types else float(value)
        except ValueError:
            pass
        else:
            return f"{known.name} = {number}"
    if str in known.types and not isinstance(value, str | list | dict):
        return f"{known.name} = {format_value(format_value(value))}"
    default = known.meta.get("example", known.default)
    if default is not None:
        return f"{known.name} = {format_value(default)}"
    return "delete this line" + (f"; it is then derived: {known.meta['derived']}" if "derived" in known.meta else "")


def _type_name(value: Any) -> str:
    for kind in (bool, int, float, str, list, dict):
        if isinstance(value, kind):
            return _TYPE_NAMES[kind]
    return "a date or time"


def missing_keys(given: Iterable[str], derived: Iterable[str], *, evaluates: bool) -> list[str]:
    """Required keys that are neither given nor derived, of the sections that are required or present.

    In [compute] the GPU's type and count belong together, although each has a default.
    """
    have = {*given, *derived}
    sections = {*REQUIRED_SECTIONS, *(["evaluation"] if evaluates else [])}
    missing = [
        key for key, item in all_keys().items() if item.required and item.section in sections and key not in have
    ]
    if not have & {"policy.model_name", "policy.source"}:
        missing.append("policy.model_name")
    if set(given) & {"compute.gpu_type", "compute.gpu_count", "compute.nodes"}:
        missing += [key for key in ("compute.gpu_type", "compute.gpu_count") if key not in given]
    order = list(all_keys())
    return sorted(missing, key=order.index)


def missing_problem(file: str, missing: list[str]) -> Problem:
    """One error for all missing keys, with a block to paste."""
    block: list[str] = []
    section = None
    for path in missing:
        known = all_keys()[path]
        if known.section != section:
            section = known.section
            block.append(f"  [{section}]")
        line = f"  {known.name} = {format_value(known.meta['example'])}"
        if path == "policy.model_name":
            block.append(f"{line}   # or source; {known.help}")
        elif path == "services.task_url":
            block.append(f"{line}   # or the variable TASK_APP_URL; {known.help}")
        else:
            block.append(f"{line}   # {known.help}")
    count = f"{len(missing)} required keys are missing" if len(missing) > 1 else "a required key is missing"
    why = f"{count}: {', '.join(missing)}"
    return Problem(
        Place(file),
        "",
        why,
        fix="\n".join(["paste this, and set the values to yours", *block]),
        code="missing",
    )
