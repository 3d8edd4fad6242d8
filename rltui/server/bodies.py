"""The three bodies that a job may be made from, brought to one (WIRE 3.3). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rltui.server.answers import Refused, object_of
from rltui.server.tomltext import without_nulls
from trainer.config.sources import CHECKPOINT_PREFIXES, deep_merge
from trainer.rundir.jsonl import Json, encode

TRAINER_KEYS = ("batch_size", "group_size")  # what older clients give beside their config, as keys of [training]
MAX_NOTES = 8_192  # bytes of tags, and of metadata
MODEL_KEYS = (("policy", "model_name"), ("policy", "source"), ("model", "base"), ("model", "source"))


@dataclass(frozen=True)
class Asked:
    """A job as it was asked for.

    Attributes:
        given: the config as it came; empty where a stored one was named instead.
        config: what is to run, a nested table with everything laid over it that stands beside it in the body.
    """

    given: Json
    config: Json
    metadata: Json
    allow_unknown: bool


def read_body(body: Any, stored: Callable[[str], Json | None]) -> Asked:
    """
    Args:
        body: the decoded JSON.
        stored: the config of an earlier job by its id or its hash; None: there is none.

    Raises:
        Refused: it is no job, or contradicts itself. Whether its config is valid is seen by the loader.
    """
    outer = object_of(body, "the body")
    kind = outer.get("job_type") or "rl"
    if kind != "rl":
        raise Refused(422, "job_type", f"job_type {_told(kind)} is not served here; the one kind is rl")
    inner = object_of(outer["data"], "data") if outer.get("data") is not None else outer

    def of(name: str) -> Any:
        """A field where the body's shape has it, else where another shape would."""
        return inner.get(name) if inner.get(name) is not None else outer.get(name)

    given = object_of(of("config") or {}, "config")
    config: Json = deep_merge(_stored(of("job_config_id"), stored), without_nulls(given))
    trainer = object_of(of("trainer") or {}, "trainer")
    config = _with(config, "training", {key: trainer[key] for key in TRAINER_KEYS if trainer.get(key) is not None})
    config = _with(config, "compute", object_of(of("compute") or {}, "compute"))
    if (url := of("endpoint_base_url")) is not None:
        config = _with(config, "services", {"task_url": url})
    for name in ("base_model", "model"):
        if (model := of(name)) is not None:
            config = _with_model(config, name, model)
    if tags := object_of(outer.get("tags") or {}, "tags"):
        config = {**config, "tags": deep_merge(tags, object_of(config.get("tags") or {}, "config.tags"))}
    metadata = dict(object_of(outer.get("metadata") or {}, "metadata"))
    if isinstance(of("trainer_id"), str):
        metadata.setdefault("trainer_id", of("trainer_id"))
    for name, value in (("tags", config.get("tags")), ("metadata", metadata)):
        if value is not None and len(encode(value)) > MAX_NOTES:
            why = f"{name} are too large: at most {MAX_NOTES:,} bytes as JSON, since they come with every answer"
            raise Refused(422, "too_large", why)
    return Asked(dict(given), config, metadata, of("allow_unknown") is True)


def _stored(name: Any, stored: Callable[[str], Json | None]) -> Json:
    if name is None:
        return {}
    found = stored(name) if isinstance(name, str) else None
    if found is None:
        raise Refused(422, "unknown_job_config", f"job_config_id {_told(name)} is no config that this server has")
    return found


def _with_model(config: Json, name: str, model: Any) -> Json:
    """`model` where the config has none. One that differs from the config's is refused with both."""
    if not isinstance(model, str) or not model:
        raise Refused(422, "model", f"{name} is {_told(model)}; it wants the name of a model")
    known = [found for section, key in MODEL_KEYS if (found := _inside(config, section, key)) is not None]
    if not known:
        return _with(config, "policy", {"source" if model.startswith(CHECKPOINT_PREFIXES) else "model_name": model})
    if model not in known:
        both = f"{name} is {_told(model)} and the config's model is {_told(known[0])}"
        raise Refused(422, "model", f"{both}; leave one out, or make them equal")
    return config


def _with(config: Json, section: str, values: Mapping[str, Any]) -> Json:
    if not values:
        return config
    merged: Json = deep_merge(config, {section: values})
    return merged


def _inside(config: Json, section: str, key: str) -> Any:
    part = config.get(section)
    return part.get(key) if isinstance(part, Mapping) else None


def _told(value: Any) -> str:
    return ascii(value)[:120]
