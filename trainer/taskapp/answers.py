"""From what a rollout handler returns to what goes over the wire: plain JSON, checked, with its defaults."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from trainer.taskapp.contracts import RolloutRequest
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import parse_rollout
from trainer.taskapp.reading import Json, listing, mapping

CIRCULAR = "<circular>"
# What an app may honestly report about a failed episode; every other code is a mistake of its handler.
_HONEST_FAILURES = ("aborted", "app_error")


class InvalidAnswer(ValueError):
    """A handler returned something that is not a rollout answer. fields: `[{path, message}]`."""

    def __init__(self, fields: list[Json]) -> None:
        super().__init__("; ".join(f"{field['path']}: {field['message']}" for field in fields))
        self.fields = fields


def to_json(value: object, path: str = "", parents: tuple[int, ...] = ()) -> Any:
    """Plain JSON of models, dataclasses, enums, arrays and paths.

    Only a true cycle (a value inside itself) is cut; an object that occurs twice is written twice. Raises
    `InvalidAnswer` with the path of a number that JSON cannot write or of an unknown type.
    """
    if value is None or isinstance(value, (str, bool)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return to_json(value.value, path, parents)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidAnswer([{"path": path or "(answer)", "message": f"{value} is not a JSON number"}])
        return float(value)
    if isinstance(value, Path):
        return str(value)
    if id(value) in parents:
        return CIRCULAR
    inside = (*parents, id(value))
    dotted = f"{path}." if path else ""
    if isinstance(value, Mapping):
        return {str(k): to_json(v, f"{dotted}{k}", inside) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(v, f"{path}[{i}]", inside) for i, v in enumerate(value)]
    if hasattr(value, "model_dump"):
        return to_json(dict(value), path, inside)  # type: ignore[call-overload]  # pydantic's
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return to_json(fields, path, inside)
    if hasattr(value, "tolist"):  # numpy scalars and arrays, tensors
        return to_json(value.tolist(), path, inside)
    message = f"a {type(value).__name__} is not JSON"
    raise InvalidAnswer([{"path": path or "(answer)", "message": message}])


def finish_answer(result: object, request: RolloutRequest) -> Json:
    """The answer to `request`: plain JSON with echoes and counts filled in, checked by our own parser."""
    body = to_json(result)
    if not isinstance(body, dict):
        message = f"expected an object, got {type(result).__name__}"
        raise InvalidAnswer([{"path": "(answer)", "message": message}])
    _fill(body, request)
    try:
        parse_rollout(body, cid=request.trace_correlation_id, raw="")
    except RolloutFailure as failure:
        if failure.code not in _HONEST_FAILURES:
            path = str(failure.detail.get("path", "(answer)"))
            raise InvalidAnswer([{"path": path, "message": str(failure)}]) from None
    return body


def _fill(body: Json, request: RolloutRequest) -> None:
    cid = request.trace_correlation_id
    url = request.policy.config.get("inference_url")
    trajectories = [t for t in listing(body.get("trajectories")) if isinstance(t, dict)]
    steps = [s for t in trajectories for s in listing(t.get("steps")) if isinstance(s, dict)]
    pipeline = body["pipeline_metadata"] = mapping(body.get("pipeline_metadata"))
    _default(body, "run_id", request.run_id)
    for holder in (body, pipeline, *trajectories):
        _default(holder, "trace_correlation_id", cid)
        if url is not None:
            _default(holder, "inference_url", url)
    for trajectory in trajectories:
        _default(trajectory, "length", len(listing(trajectory.get("steps"))))
    for step in steps:
        info = step["info"] = mapping(step.get("info"))
        meta = info["meta"] = mapping(info.get("meta"))
        if url is not None:
            _default(meta, "inference_url", url)
    if steps and isinstance(body.get("metrics"), dict):
        _default(body["metrics"], "num_steps", len(steps))
    _default(body, "aborted", False)


def _default(holder: Json, name: str, value: object) -> None:
    if holder.get(name) is None:
        holder[name] = value
