"""The schema as a flat table of keys: `training.lora.r` and what is known about it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from trainer.config.schema import RewardBlend, RunConfig, Section
from trainer.config.schema.base import META, Origin

OPEN_SECTIONS = ("vllm", "vllm.limit_mm_per_prompt", "tags")  # keys that are not ours belong here
REQUIRED_SECTIONS = ("algorithm", "services", "policy", "rollout", "training")
Condition = Mapping[str, tuple[Any, ...]]  # each of these keys has one of these values


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the config: where it stands, its type, and what its schema says of it."""

    path: str
    section: str
    name: str
    field: FieldInfo
    meta: Mapping[str, Any]

    @property
    def required(self) -> bool:
        """Required when its section is present."""
        return self.field.is_required()

    @property
    def default(self) -> Any:
        return None if self.required else self.field.get_default(call_default_factory=True)

    @property
    def help(self) -> str:
        """Its effect, in one or two sentences."""
        return self.field.description or ""

    @property
    def summary(self) -> str:
        """The first sentence of `help`, without its full stop: for places that have one line."""
        return re.split(r"\.(?=\s|$)", self.help, maxsplit=1)[0]

    @property
    def origin(self) -> Origin:
        """Who documents it: "ref", "sdk", "seen" or "ours"."""
        origin: Origin = self.meta["origin"]
        return origin

    @property
    def derived(self) -> str | None:
        """How its value follows when it is not given."""
        return self.meta.get("derived")

    @property
    def unit(self) -> str | None:
        return self.meta.get("unit")

    @property
    def group(self) -> str | None:
        """A sub-heading of its section."""
        return self.meta.get("group")

    @property
    def live(self) -> bool:
        """It can be changed while a run is going."""
        return bool(self.meta.get("live"))

    @property
    def resume(self) -> bool:
        """It may differ on `--resume`."""
        return bool(self.meta.get("resume"))

    @property
    def synonyms(self) -> tuple[str, ...]:
        """Its names in other systems: understood in a search or as a mistake, never accepted."""
        synonyms: tuple[str, ...] = self.meta.get("synonyms", ())
        return synonyms

    @property
    def visible_when(self) -> Condition:
        """A form shows it while this holds. Its section's condition is part of it."""
        condition: Condition = self.meta.get("visible_when", {})
        return condition

    @property
    def allowed(self) -> str:
        """Its type and range, for a person: `integer >= 1`, `one of "lora", "full"`."""
        return self.meta.get("allowed") or _describe(self.field.annotation, tuple(self.field.metadata))

    @property
    def choices(self) -> tuple[str, ...]:
        return _choices(self.field.annotation)

    @property
    def is_table(self) -> bool:
        """Whether its value is a table: free-form, or one checked as a whole."""
        return any(
            get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, RewardBlend))
            for kind in _members(self.field.annotation)
        )

    @property
    def types(self) -> tuple[Any, ...]:
        """Its plain Python types, None left out."""
        return tuple(get_origin(kind) or kind for kind in _members(self.field.annotation))


@cache
def all_keys() -> Mapping[str, Key]:
    """Every canonical key by its path, in the order of the schema."""
    return MappingProxyType(dict(_walk(RunConfig, "")))


@cache
def all_sections() -> tuple[str, ...]:
    """Every table by its path, in the order of the schema."""
    return (*section_models(), "tags")


@cache
def section_models() -> Mapping[str, type[Section]]:
    """The model of each section by its path, in the order of the schema."""
    return MappingProxyType(dict(_sections(RunConfig, "")))


def _sections(model: type[Section], prefix: str) -> Iterator[tuple[str, type[Section]]]:
    for name, field in model.model_fields.items():
        if (inner := _section_type(field.annotation)) is not None:
            yield f"{prefix}{name}", inner
            yield from _sections(inner, f"{prefix}{name}.")


def _walk(model: type[Section], prefix: str, condition: Condition | None = None) -> Iterator[tuple[str, Key]]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        meta: dict[str, Any] = _meta(field)
        when = {**(condition or {}), **meta.get("visible_when", {})}
        section = _section_type(field.annotation)
        if section is not None:
            yield from _walk(section, f"{path}.", when)
            continue
        if when:
            meta = meta | {"visible_when": when}
        yield path, Key(path, prefix.rstrip("."), name, field, meta)


def _meta(field: FieldInfo) -> dict[str, Any]:
    extra: Any = field.json_schema_extra
    return extra.get(META, {}) if isinstance(extra, dict) else {}


def _section_type(annotation: Any) -> type[Section] | None:
    for kind in _members(annotation):
        if isinstance(kind, type) and issubclass(kind, Section) and not issubclass(kind, RewardBlend):
            return kind
    return None


def _members(annotation: Any) -> tuple[Any, ...]:
    """The parts of a union, annotations and None taken off."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(m for arg in get_args(annotation) if arg is not NoneType for m in _members(arg))
    return (annotation,)


def _choices(annotation: Any) -> tuple[str, ...]:
    return tuple(value for kind in _members(annotation) if get_origin(kind) is Literal for value in get_args(kind))


_WORDS = {int: "integer", float: "number", str: "string", bool: "true or false"}


def _describe(annotation: Any, metadata: tuple[Any, ...] = ()) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        flat = [item for extra in more for item in getattr(extra, "metadata", [extra])]
        return _describe(inner, (*metadata, *flat))
    if origin in (Union, UnionType):
        parts = [_describe(arg, metadata) for arg in get_args(annotation) if arg is not NoneType]
        return " or ".join(dict.fromkeys(parts))
    if origin is Literal:
        values = [f'"{value}"' for value in get_args(annotation)]
        return f"one of {', '.join(values)}" if len(values) > 1 else f"only {values[0]}"
    if origin is list:
        item, *range_ = _describe(get_args(annotation)[0]).split(" ", 1)
        return " ".join([f"list of {item}s", *range_]) + _limits(metadata, length=True)
    if origin is dict or annotation in (dict, RewardBlend):
        return "a table"
    return _WORDS.get(annotation, "any value") + _limits(metadata, length=annotation is str)


def _limits(metadata: tuple[Any, ...], *, length: bool) -> str:
    parts = []
    for item in metadata:
        match item:
            case annotated_types.Ge(ge=bound):
                parts.append(f">= {bound}")
            case annotated_types.Gt(gt=bound):
                parts.append(f"> {bound}")
            case annotated_types.Le(le=bound):
                parts.append(f"<= {bound}")
            case annotated_types.Lt(lt=bound):
                parts.append(f"< {bound}")
            case annotated_types.MinLen() if length:
                parts.append("that is not empty")
            case annotated_types.MaxLen(max_length=bound) if length:
                parts.append(f"of at most {bound}")
    return " " + " and ".join(parts) if parts else ""
