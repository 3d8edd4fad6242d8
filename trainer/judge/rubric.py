"""Rubrics: what is scored, and how one score is made of many. Read from files, task apps and the config."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from trainer.config.rules.rewards import AGGREGATIONS, SCALES
from trainer.judge.errors import JudgeMisconfigured
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import finite

Json = dict[str, Any]
KINDS = ("event", "outcome")
NO_TRACK = "default"  # of criteria whose id has no dot


class RubricError(ValueError):
    """A rubric that cannot be used. The text says which part, and why."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is scored from 0 to 1. Its track is what its id has before the first dot."""

    id: str
    description: str = ""
    weight: float = 1.0
    scale: str = "bounded"  # binary: 0 or 1; bounded: anything from 0 to 1
    rule: Json | None = None

    @property
    def track(self) -> str:
        first, dot, _ = self.id.partition(".")
        return first if dot else NO_TRACK


class RubricPart(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn (event) or an episode (outcome) is scored."""

    goal_text: str = ""
    aggregation: str = "weighted_sum"
    criteria: tuple[Criterion, ...] = ()


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    """Either part may be missing. `weights`: of its tracks; empty: equal."""

    id: str | None = None
    event: RubricPart | None = None
    outcome: RubricPart | None = None
    weights: dict[str, float] = {}

    @property
    def hash(self) -> str:
        """Names its content: 16 hex digits."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]

    def part(self, kind: str) -> RubricPart | None:
        return self.event if kind == "event" else self.outcome


def read_rubric(data: Any, name: str | None = None) -> Rubric:
    """A rubric from plain data: parts named `event` (or `events`) and `outcome`; or the fields of one part, which then
    scores turns and episodes alike. Raises RubricError."""
    if not isinstance(data, dict):
        raise RubricError("it is not a table")
    id = data.get("id", name)
    event = data.get("event", data.get("events"))
    outcome = data.get("outcome")
    if event is None and outcome is None:
        event = outcome = data
    if not (id is None or isinstance(id, str)):
        raise RubricError("its id is not a string")
    return Rubric(id=id, event=read_part(event, "event"), outcome=read_part(outcome, "outcome"))


def read_part(data: Any, kind: str, base: RubricPart | None = None) -> RubricPart | None:
    """One part; what it leaves out is taken from `base`. Raises RubricError."""
    if data is None:
        return base
    if not isinstance(data, dict):
        raise RubricError(f"{kind}: it is not a table")
    base = base or RubricPart()
    aggregation = data.get("aggregation") or base.aggregation
    if aggregation not in AGGREGATIONS:
        raise RubricError(f"{kind}: aggregation {clean(repr(aggregation), 40)} is not {' or '.join(AGGREGATIONS)}")
    criteria = base.criteria
    if data.get("criteria") is not None:
        if not isinstance(data["criteria"], list):
            raise RubricError(f"{kind}: criteria is not a list")
        criteria = tuple(_criterion(item, f"{kind}: criterion {i}") for i, item in enumerate(data["criteria"], 1))
    ids = [criterion.id for criterion in criteria]
    if twice := next((id for id in ids if ids.count(id) > 1), None):
        raise RubricError(f"{kind}: two criteria have the id {clean(twice, 60)}")
    return RubricPart(
        goal_text=base.goal_text if data.get("goal_text") is None else str(data["goal_text"]),
        aggregation=aggregation,
        criteria=criteria,
    )


def _criterion(data: Any, where: str) -> Criterion:
    id = data.get("id", data.get("key")) if isinstance(data, dict) else None
    if not isinstance(id, str) or not id.strip():
        raise RubricError(f"{where} has no id")
    weight = 1.0 if data.get("weight") is None else finite(data["weight"])
    if weight is None or weight < 0:
        raise RubricError(f"{where} ({clean(id, 60)}): its weight is not a number >= 0")
    scale = data.get("scale") or "bounded"
    if scale not in SCALES:
        raise RubricError(f"{where} ({clean(id, 60)}): scale {clean(repr(scale), 40)} is not {' or '.join(SCALES)}")
    rule = data.get("rule")
    if not (rule is None or isinstance(rule, dict)):
        raise RubricError(f"{where} ({clean(id, 60)}): its rule is not a table")
    return Criterion(
        id=id.strip(), description=str(data.get("description") or ""), weight=weight, scale=scale, rule=rule
    )


def read_rubric_file(path: Path) -> Rubric:
    """A rubric from a .toml or .json file; its id is the name of the file unless it says another.

    Raises:
        JudgeMisconfigured: no such file, not readable, or not a rubric.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return read_rubric(tomllib.loads(text) if path.suffix == ".toml" else json.loads(text), path.stem)
    except OSError as error:
        why, to_do = error.strerror or "it cannot be read", "Give the path of a rubric, a .toml or .json file"
    except (ValueError, RecursionError) as error:  # RubricError, of TOML, of JSON, of UTF-8
        why, to_do = clean(str(error)), "Correct that file"
    raise JudgeMisconfigured("judge_rubric", f"the rubric {path} cannot be used: {why}", to_do)
