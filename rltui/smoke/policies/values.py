"""Random values that a JSON schema accepts: for the arguments of tool calls. Pure, given the random source."""

from __future__ import annotations

import math
import random
from typing import Any

Json = dict[str, Any]

MAX_DEPTH = 8  # of schemas that refer to themselves: deeper, only what is required
WORDS = ("alpha", "bravo", "north", "south", "open", "look", "yes", "no", "1", "42")


def value_of(schema: Any, rng: random.Random, root: Json | None = None, depth: int = 0) -> Any:
    """A value of `schema`. What JSON schema can say and this cannot (pattern, not, if) is left out of account."""
    if not isinstance(schema, dict):
        return {} if schema is not False else None
    root = schema if root is None else root
    schema = _resolved(schema, root)
    for word in ("const", "default"):
        if word in schema and (word == "const" or rng.random() < 0.2):
            return schema[word]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return rng.choice(schema["enum"])
    for word in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(word), list) and options:
            chosen = options[-1] if depth > MAX_DEPTH else rng.choice(options)
            rest = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
            return value_of(_merged(rest, _resolved(chosen, root)), rng, root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind) if kind else None
    if kind is None:
        kind = next((of for word, of in _IMPLIED.items() if word in schema), "string")
    make = _MAKERS.get(kind, _string)
    return make(schema, rng, root, depth)


def _resolved(schema: Any, root: Json) -> Json:
    """`schema` with its reference followed and `allOf` merged."""
    for _ in range(16):  # references to references
        if not isinstance(schema, dict):
            return {}
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            break
        target: Any = root
        for part in ref.removeprefix("#").strip("/").split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            target = target.get(part) if isinstance(target, dict) and part else target
        schema = _merged({k: v for k, v in schema.items() if k != "$ref"}, target if isinstance(target, dict) else {})
    found: Json = schema
    parts = found.get("allOf")
    if isinstance(parts, list):
        found = {k: v for k, v in found.items() if k != "allOf"}
        for part in parts:
            found = _merged(found, _resolved(part, root))
    return found


def _merged(a: Json, b: Json) -> Json:
    both = {**a, **b}
    if isinstance(a.get("properties"), dict) and isinstance(b.get("properties"), dict):
        both["properties"] = {**a["properties"], **b["properties"]}
    if isinstance(a.get("required"), list) and isinstance(b.get("required"), list):
        both["required"] = [*a["required"], *b["required"]]
    return both


def _string(schema: Json, rng: random.Random, root: Json, depth: int) -> str:
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return str(rng.choice(examples))
    if (made := _FORMATS.get(str(schema.get("format")))) is not None:
        return made
    text, low, high = rng.choice(WORDS), _int(schema.get("minLength"), 0), _int(schema.get("maxLength"), 1 << 16)
    while len(text) < low:
        text += rng.choice("abcdefgh")
    return text[:high]


def _number(schema: Json, rng: random.Random, root: Json, depth: int) -> int | float:
    whole = schema.get("type") == "integer" or "integer" in (schema.get("type") or [])
    step = _float(schema.get("multipleOf"), 1.0 if whole else 0.0)
    low, high = _bound(schema, "minimum", "exclusiveMinimum"), _bound(schema, "maximum", "exclusiveMaximum")
    if low is None:
        low = (0.0 if high is None else high[0] - 10, False)
    if high is None:
        high = (low[0] + 10, False)
    if not step:
        value = rng.uniform(low[0], high[0])
        return (low[0] + high[0]) / 2 if (value, True) in (low, high) else value
    first, last = math.ceil(low[0] / step), math.floor(high[0] / step)
    first += low[1] and first * step <= low[0]
    last -= high[1] and last * step >= high[0]
    number = rng.randint(first, max(first, last)) * step
    return int(number) if whole or number == int(number) else number


def _bound(schema: Json, inclusive: str, exclusive: str) -> tuple[float, bool] | None:
    """(bound, whether it is itself excluded); draft 4 says the latter by a flag."""
    strict = schema.get(exclusive)
    if isinstance(strict, (int, float)) and not isinstance(strict, bool):
        return float(strict), True
    plain = schema.get(inclusive)
    if isinstance(plain, (int, float)) and not isinstance(plain, bool):
        return float(plain), strict is True
    return None


def _array(schema: Json, rng: random.Random, root: Json, depth: int) -> list[Any]:
    low = _int(schema.get("minItems"), 0)
    high = max(low, min(_int(schema.get("maxItems"), low + 2), low + 3))
    size = low if depth > MAX_DEPTH else rng.randint(low, high)
    first = schema.get("prefixItems") if isinstance(schema.get("prefixItems"), list) else []
    items = [value_of(part, rng, root, depth + 1) for part in first or []]
    tries = 0
    while len(items) < size and tries < 50:
        item = value_of(schema.get("items", {"type": "string"}), rng, root, depth + 1)
        if not (schema.get("uniqueItems") and item in items):
            items.append(item)
        tries += 1
    return items


def _object(schema: Json, rng: random.Random, root: Json, depth: int) -> Json:
    properties = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    required = schema.get("required") if isinstance(schema.get("required"), list) else []
    names = [n for n in properties or {} if n in (required or []) or (depth <= MAX_DEPTH and rng.random() < 0.5)]
    found = {name: value_of((properties or {})[name], rng, root, depth + 1) for name in names}
    return found | {str(name): rng.choice(WORDS) for name in required or [] if name not in found}


def _int(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1 << 16 else default


def _float(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else default


_IMPLIED = {"properties": "object", "items": "array", "minimum": "number", "maximum": "number"}
_FORMATS = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "a@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_MAKERS = {
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda schema, rng, root, depth: rng.random() < 0.5,
    "null": lambda schema, rng, root, depth: None,
    "array": _array,
    "object": _object,
}
