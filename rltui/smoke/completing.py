"""What `tab` makes of a line that a person types: names of tools, then of their arguments, then what those may be.

Pure. The spelling is the one that `policies.person.read_line` reads: `press(colour=red, times=2)`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from rltui.smoke.policies.base import Json, functions_of

_NAME = re.compile(r"\s*[\w.:-]*$")
_OPEN = re.compile(r"\s*([\w.:-]+)\((.*)$", re.DOTALL)
_LITERALS = {"boolean": ("true", "false"), "null": ("null",)}


@dataclass(frozen=True, slots=True)
class Completion:
    """line: what stands there afterwards. options: what it could go on with, where that is not settled."""

    line: str
    options: tuple[str, ...] = ()


def complete(line: str, tools: list[Json]) -> Completion:
    """The line, gone on as far as only one way leads."""
    functions = {function["name"]: _properties(function) for function in functions_of(tools)}
    if _NAME.fullmatch(line):
        return _name(line.strip(), functions)
    match = _OPEN.match(line)
    if match is None or match[1] not in functions:
        return Completion(line)
    properties, required = functions[match[1]]
    *done, last = _parts(match[2])
    given = _given(done, list(properties))
    before = line[: len(line) - len(last)]
    name, equals, value = last.partition("=")
    if equals:
        words = _values(properties.get(name.strip()))
        return _value(before + name + "=", value.strip(), words, [*given, name.strip()], properties, required)
    names = [key for key in properties if key not in given and key.startswith(last.strip())]
    if names or not last.strip():
        lead = before + last[: len(last) - len(last.lstrip())]
        return _chosen(lead, [f"{key}=" for key in names]) if names else Completion(_closed(before))
    position = next((key for key in properties if key not in given), "")
    return _value(before, last, _values(properties.get(position)), [*given, position], properties, required)


def _name(typed: str, functions: dict[str, tuple[Json, list[str]]]) -> Completion:
    names = [name for name in functions if name.startswith(typed)]
    if len(names) == 1:
        properties, required = functions[names[0]]
        if not properties:
            return Completion(f"{names[0]}()")
        return Completion(f"{names[0]}({next(iter(required or properties))}=")
    return _chosen("", names) if names else Completion(typed)


def _value(
    lead: str, typed: str, words: list[str], given: list[str], properties: Json, required: list[str]
) -> Completion:
    """A value: finished where its schema names its values, then the next argument, or the end."""
    fitting = [word for word in words if word.startswith(typed)]
    if fitting and typed not in words:
        return _chosen(lead, fitting)
    if not typed:
        return Completion(lead)
    rest = [key for key in (*required, *properties) if key not in given]
    if rest and (rest[0] in required or not required):
        return Completion(f"{lead}{typed}, {rest[0]}=")
    return Completion(f"{lead}{typed})" if not typed.endswith(")") else f"{lead}{typed}")


def _chosen(lead: str, options: list[str]) -> Completion:
    """What all options begin with; they themselves where there are several."""
    common = next(n for n in range(len(options[0]), -1, -1) if all(o.startswith(options[0][:n]) for o in options))
    return Completion(lead + options[0][:common], () if len(options) == 1 else tuple(options))


def _closed(before: str) -> str:
    return before.rstrip().rstrip(",").rstrip() + ")"


def _properties(function: Json) -> tuple[Json, list[str]]:
    schema = function.get("parameters")
    schema = schema if isinstance(schema, dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not all(isinstance(key, str) for key in properties):
        properties = {}
    found = {key: value for key, value in properties.items() if key.isidentifier()}
    return found, [key for key in required if key in found] if isinstance(required, list) else []


def _values(schema: Any) -> list[str]:
    """What an argument may be, as it is typed; [] where its schema names no values."""
    if not isinstance(schema, dict):
        return []
    if isinstance(schema.get("enum"), list):
        return [_spelt(value) for value in schema["enum"]]
    return list(_LITERALS.get(str(schema.get("type")), ()))


def _spelt(value: Any) -> str:
    plain = isinstance(value, str) and value.isidentifier() and value not in ("true", "false", "null")
    return value if plain else json.dumps(value, ensure_ascii=False)


def _parts(text: str) -> list[str]:
    """Arguments, cut at the commas that are in no quotes and in no brackets. At least one, the last unfinished."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            parts.append("")
            continue
        parts[-1] += char
    return parts


def _given(parts: list[str], names: list[str]) -> list[str]:
    """Names of the arguments that stand there: by name, or by place."""
    found: list[str] = []
    for at, part in enumerate(parts):
        name, equals, _ = part.partition("=")
        found.append(name.strip() if equals else names[at] if at < len(names) else "")
    return found
