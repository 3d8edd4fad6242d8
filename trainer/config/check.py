"""Checks of single keys: secrets, unknown names, types and ranges, what is missing."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from trainer.config.errors import Place, Problem, shown
from trainer.config.keys import OPEN_SECTIONS, REQUIRED_SECTIONS, Key, all_keys, all_sections
from trainer.config.migrate import Entry, move_of
from trainer.config.schema import RunConfig
from trainer.config.secrets import is_secret
from trainer.config.sources import Given
from trainer.config.toml_values import format_key, format_value, split_key
from trainer.config.unknown import nearest_key, nearest_keys, nearest_section, top_sections

HUGE = 2**63
NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)

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
            meant.add(_now(f"{near}.{name}"))
            if section not in sections:
                sections.add(section)
                why = f"unknown section; did you mean `[{near}]`?"
                problems.append(
                    Problem(entry.key_place, section, why, fix=f"[{near}]", level=level, code="unknown_key")
                )
            continue
        why, fix = "unknown key", "delete this line        or   --allow-unknown"
        if near := nearest_keys(key):
            why += f"; did you mean {' or '.join(map(_as_meant, near))}?"
            fix = _now(near[0])
            meant.add(fix)
        problems.append(
            Problem(entry.key_place, key, why, shown(entry.value), fix=fix, level=level, code="unknown_key")
        )
    return problems, unknown, meant


def _now(key: str) -> str:
    move = move_of(key)
    return key if move is None else move.new


def _as_meant(key: str) -> str:
    return f"`{key}`" if _now(key) == key else f"`{key}` (now `{_now(key)}`)"


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
        elif _holds_huge(entry.value):
            known = all_keys().get(key)
            problems[key] = Problem(
                entry.place,
                key,
                "the number does not fit into 64 bits",
                shown(entry.value),
                allowed="any value" if known is None else known.allowed,
                fix="delete this line" if known is None else _fix(known, None),
                code="type",
            )
    values = {key: entry.value for key, entry in entries.items() if key not in problems}
    try:
        RunConfig.model_validate(nest(values))
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            key = _key_of(detail["loc"])
            if detail["type"] != "missing" and key in entries and key not in problems:
                problems[key] = _type_problem(entries[key], detail["msg"], detail["loc"])
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


def _type_problem(entry: Entry, message: str, loc: tuple[int | str, ...]) -> Problem:
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
        _why(known, entry.value, loc),
        shown(entry.value),
        allowed=_allowed(known),
        fix=_fix(known, entry.value),
        code="type",
    )


def _why(known: Key, value: Any, loc: tuple[int | str, ...]) -> str:
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
    """A line that is right by itself: the given value as it was meant, else a value that is usual."""
    for candidate in _candidates(known, value):
        if (
            candidate is not None
            and (type(candidate), candidate) != (type(value), value)
            and _accepts(known, candidate)
        ):
            return f"{known.name} = {format_value(candidate)}"
    return "delete this line" + (f"; it is then derived: {known.meta['derived']}" if "derived" in known.meta else "")


def _candidates(known: Key, value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        text = value.strip()
        if known.choices:
            from difflib import get_close_matches

            yield from get_close_matches(text.lower().replace("-", "_"), known.choices, n=1, cutoff=0.5)
        yield {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(text.lower())
        yield NUMBER_WORDS.index(text.lower()) if text.lower() in NUMBER_WORDS else None
        for kind in (int, float):
            with suppress(ValueError):
                yield kind(text)
        if list in known.types and text:
            yield [text]
        if known.name.endswith("url") and "://" not in text:
            yield f"http://{text}"
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield bool(value)
        yield from (item.le for item in known.field.metadata if hasattr(item, "le"))
    if isinstance(value, list):
        yield [item for item in value if _accepts(known, [item])]
        yield value[: next((item.max_length for item in known.field.metadata if hasattr(item, "max_length")), 0)]
    elif not isinstance(value, str | dict | None):
        yield format_value(value)
    yield known.meta.get("example")
    yield known.default
    yield from known.choices


def _accepts(known: Key, value: Any) -> bool:
    field = known.field
    if value == [] and list in known.types:
        return False
    kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    model = isinstance(kind, type) and issubclass(kind, BaseModel)  # it has a strictness of its own
    config = None if model else ConfigDict(strict=True, allow_inf_nan=False)
    try:
        TypeAdapter(kind, config=config).validate_python(value)
    except (ValidationError, PydanticUserError):
        return False
    return True


def _type_name(value: Any) -> str:
    for kind in (bool, int, float, str, list, dict):
        if isinstance(value, kind):
            return _TYPE_NAMES[kind]
    return "a date or time"


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
