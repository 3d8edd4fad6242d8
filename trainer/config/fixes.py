"""The line that puts a wrong value right: what was meant by it, else a value that is usual."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from trainer.config.keys import Key, all_keys
from trainer.config.toml_values import format_value, parse_value, same

NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
FLAG_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
GAP = "        "  # before an alternative


def fix_of(known: Key, value: Any) -> str:
    """`name = value`, right by itself, if there is one."""
    for candidate in _candidates(known, value):
        if candidate is not None and not same(candidate, value) and accepts(known, candidate):
            return f"{known.name} = {_spelt(candidate, value)}" + _alternative(known, value)
    return "delete this line" + (f"; it is then derived: {known.derived}" if known.derived else "")


def ways(*offers: str) -> str:
    """Fixes, of which one will do."""
    return f"{GAP}or   ".join(offers)


def accepts(known: Key, value: Any) -> bool:
    """Whether a value has the type and range of a key."""
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


def _candidates(known: Key, value: Any) -> Iterator[Any]:
    match value:
        case str():
            yield from _meant_by_text(known, value)
        case float() if value.is_integer():
            yield int(value)
        case int() if not isinstance(value, bool):
            yield bool(value)
            yield from (item.le for item in known.field.metadata if hasattr(item, "le"))
        case list():
            yield [item for item in value if accepts(known, [item])]
            yield value[: next((item.max_length for item in known.field.metadata if hasattr(item, "max_length")), 0)]
        case dict():
            yield {name: item for name, item in value.items() if accepts(known, {name: item})} or None
    if not isinstance(value, str | list | dict | None):
        yield format_value(value)
    yield known.meta.get("example")
    yield known.default
    yield from known.choices


def _meant_by_text(known: Key, value: str) -> Iterator[Any]:
    text = value.strip()
    yield from _choices_like(known, text)
    yield FLAG_WORDS.get(text.lower())
    yield NUMBER_WORDS.index(text.lower()) if text.lower() in NUMBER_WORDS else None
    for kind in (int, float):
        with suppress(ValueError):
            yield kind(text)
    if list in known.types and text:
        yield [text]
    if known.name.endswith("url") and (scheme := re.match(r"(https?):/(?=[^/])", text, re.IGNORECASE)):
        yield f"{scheme[1].lower()}://{text[scheme.end() :]}"
    elif known.name.endswith("url") and "://" not in text and not text.endswith(":"):
        yield _task_app(text) if _is_word(known, text) else f"http://{text}"


def _choices_like(known: Key, text: str) -> list[str]:
    if not known.choices:
        return []
    from difflib import get_close_matches

    if known.path == "algorithm.method" and _as_choice(text) in all_keys()["algorithm.variety"].choices:
        return []  # it has an explanation of its own
    return get_close_matches(_as_choice(text), known.choices, n=1, cutoff=0.5)


def _as_choice(text: str) -> str:
    return text.strip().lower().replace("-", "_")


def variety_as_method(value: Any) -> tuple[str, str] | None:
    """(method, variety) where a variety was given as algorithm.method."""
    from trainer.config.rules.policy import PAIRS

    variety = _as_choice(value) if isinstance(value, str) else None
    return next(((method, name) for method, name in PAIRS if name == variety), None)


def _is_word(known: Key, text: str) -> bool:
    """The name of a task app rather than of a host."""
    return known.name == "task_url" and re.fullmatch(r"[A-Za-z_][\w-]*", text) is not None and text != "localhost"


def _task_app(name: str) -> str:
    from trainer.taskapp.registry import BUILTIN

    return f"builtin:{name}" if name in BUILTIN else f"{name}.py"


def _alternative(known: Key, value: Any) -> str:
    """A word may be meant as any of three."""
    if isinstance(value, str) and _is_word(known, value.strip()):
        return f"{GAP}or   --set {known.path}=http://{value.strip()}"
    return ""


def _spelt(candidate: Any, value: Any) -> str:
    """A number that was given as text stays as it was spelt."""
    with suppress(ValueError):
        if isinstance(value, str) and not isinstance(candidate, str) and same(parse_value(value), candidate):
            return value.strip()
    return format_value(candidate)
