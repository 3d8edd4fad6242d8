"""A config file becomes a `RunConfig` of which every value knows where it came from (CONFIG section 1)."""

import dataclasses
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config.check import (
    missing_keys,
    missing_problem,
    nest,
    secret_problems,
    type_problems,
    unknown_problems,
)
from trainer.config.derive import arithmetic, derive, effective_blend
from trainer.config.errors import ConfigError, Place, Problem, shown
from trainer.config.facts import Device, Facts
from trainer.config.keys import all_keys
from trainer.config.machine import count_gpus
from trainer.config.migrate import Entry, Origin, deep_merge, migrate
from trainer.config.positions import Positions
from trainer.config.rules import RULES
from trainer.config.schema import RunConfig
from trainer.config.sources import Given, from_environment, from_file, from_json, from_overrides, from_sets

SCHEMA = 1
TEMPLATE_HOSTS = ("YOUR-", "your-", "placeholder")


@dataclass(frozen=True)
class Loaded:
    """A config that is valid, with everything that is known about it.

    Attributes:
        config: all values, defaults and derived ones filled in.
        values: the same as nested plain data.
        origins: where each value came from, by key path. Keys of free tables share their table's.
        warnings: warnings and notes, in the order of the file.
        derived: E, U, m, groups, iterations, steps (CONFIG section 3).
        blend: effective weights env, event, outcome.
        text: the file as it was given; None for a job body.
    """

    config: RunConfig
    values: dict[str, Any]
    origins: dict[str, Origin]
    warnings: list[Problem]
    derived: dict[str, int]
    blend: dict[str, float]
    config_hash: str
    text: str | None
    _facts: Facts
    _early: list[Problem]

    def resolved(self) -> dict[str, Any]:
        """`resolved.json` (WIRE 5.3)."""
        return {
            "schema": SCHEMA,
            "config_hash": self.config_hash,
            "values": _with_origins(self.values, self.origins),
            "warnings": [
                {"code": item.code, "key": item.key, "text": item.why, "at": str(item.place)} for item in self.warnings
            ],
            "derived": dict(self.derived),
            "effective_blend": dict(self.blend),
        }

    def for_model(self, limit: int) -> "Loaded":
        """The same config once the model's context limit (tokens) is known: context keys derived and checked.

        Raises:
            ConfigError: the config asks for more than the model has.
        """
        return _finish(dataclasses.replace(self._facts, model_limit=limit, derived={}), self._early, self.text)

    def launch_problems(self) -> list[Problem]:
        """Errors that stop a launch, though not the loading of a file: the host of a template."""
        url = self.config.services.task_url
        if "://" in url and any(part in url for part in TEMPLATE_HOSTS):
            why = "this is the address of a template, not of a task app"
            fix = "--set services.task_url=URL, or the variable TASK_APP_URL"
            return [self._facts.problem("services.task_url", why, fix=fix, code="template_host")]
        return []


def load(
    path: Path | str,
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    allow_unknown: bool = False,
    device: Device | None = None,
) -> Loaded:
    """Loads a TOML file.

    Args:
        path: the file. Problems name it as it is given here.
        sets: `--set` texts, `section.key=value`; they win over everything.
        overrides: nested mapping or dotted keys; they win over environment and file.
        environ: the environment; default: this process's.
        allow_unknown: unknown keys are warnings.
        device: what derived defaults are for; default: cuda if a GPU is visible.

    Raises:
        ConfigError: all that is wrong, at once. A missing or unreadable file is a ConfigError, too.
    """
    name = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text (byte {error.start})"
        raise ConfigError([Problem(Place(name), "", why, fix="save the file as UTF-8", code="encoding")]) from None
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "no such file" if missing else f"cannot be read: {error.strerror or error}"
        fix = "check the path" if missing else "give the path of a TOML file that you may read"
        raise ConfigError([Problem(Place(name), "", why, fix=fix, code="file")]) from None
    return load_text(
        text,
        name,
        sets=sets,
        overrides=overrides,
        environ=environ,
        allow_unknown=allow_unknown,
        device=device,
    )


def load_text(
    text: str,
    name: str,
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    allow_unknown: bool = False,
    device: Device | None = None,
) -> Loaded:
    """`load` for text that is already read; `name` stands in its problems."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_problem(error, text, name)]) from None
    except RecursionError:
        raise ConfigError([Problem(Place(name), "", "nested too deeply", code="syntax")]) from None
    given = from_file(data, Positions(text), name)
    evaluates = isinstance(data.get("evaluation"), dict)
    return _load(given, name, text, evaluates, sets, overrides, environ, allow_unknown, device)


def load_mapping(
    data: Mapping[str, Any],
    name: str = "body",
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    allow_unknown: bool = False,
    device: Device | None = None,
) -> Loaded:
    """`load` for a JSON config: positions are JSON pointers."""
    evaluates = isinstance(data.get("evaluation"), Mapping)
    given = from_json(data, name)
    return _load(given, name, None, evaluates, sets, overrides, environ, allow_unknown, device)


def _load(
    given: list[Given],
    name: str,
    text: str | None,
    evaluates: bool,
    sets: Sequence[str],
    overrides: Mapping[str, Any] | None,
    environ: Mapping[str, str] | None,
    allow_unknown: bool,
    device: Device | None,
) -> Loaded:
    environ = os.environ if environ is None else environ
    from_env, problems = from_environment(environ)
    from_set, set_problems = from_sets(sets)
    layers = [given, from_env, from_overrides(overrides or {}), from_set]
    problems += set_problems
    problems += [problem for layer in layers for problem in secret_problems(layer)]
    secret = {(problem.place, problem.key) for problem in problems if problem.code == "secret"}
    migrated: list[list[Entry]] = []
    for layer in layers:
        entries, found = migrate([item for item in layer if (item.place, item.key) not in secret])
        migrated.append(entries)
        problems += found
    entries, found = _merge(migrated)
    problems += found

    found, unknown, meant = unknown_problems(entries.values(), allow=allow_unknown)
    problems += found
    entries = {key: entry for key, entry in entries.items() if key not in unknown}
    found, broken = type_problems(entries)
    problems += found

    gpus = count_gpus(environ)
    evaluates = evaluates or any(key.startswith("evaluation.") for key in entries)
    facts = Facts(
        file=name,
        entries=entries,
        broken=broken,
        evaluates=evaluates,
        device=device or ("cuda" if gpus else "cpu"),
        gpus=gpus,
    )
    derive(facts)
    refused = {key for _, key in secret}
    if missing := missing_keys({*entries, *meant, *refused}, facts.derived, evaluates=evaluates):
        problems.append(missing_problem(name, missing))
    facts.broken |= {key for key in all_keys() if all_keys()[key].required and key not in {*entries, *facts.derived}}
    return _finish(dataclasses.replace(facts, derived={}), problems, text)


def _finish(facts: Facts, early: list[Problem], text: str | None) -> Loaded:
    """Derivations, rules over several keys, and the typed config."""
    derived_origins = derive(facts)
    problems = early + facts.collect(RULES)
    if errors := [problem for problem in problems if problem.level == "error"]:
        raise ConfigError(errors)
    given = {key: entry.value for key, entry in facts.entries.items()}
    config = RunConfig.model_validate(nest(given | facts.derived))
    values = config.model_dump()
    if values["evaluation"] is None:
        del values["evaluation"]
    origins = {key: Origin("default") for key in all_keys() if facts.evaluates or not key.startswith("evaluation.")}
    origins |= {key: entry.origin for key, entry in facts.entries.items()} | derived_origins
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Loaded(
        config=config,
        values=values,
        origins=origins,
        warnings=sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0)),
        derived=arithmetic(facts),
        blend=effective_blend(facts),
        config_hash=hashlib.sha256(canonical.encode()).hexdigest(),
        text=text,
        _facts=facts,
        _early=early,
    )


def _merge(layers: Sequence[Sequence[Entry]]) -> tuple[dict[str, Entry], list[Problem]]:
    """Layers from weak to strong. None unsets; a beaten value is reported once, with both places."""
    merged: dict[str, Entry] = {}
    beaten: dict[str, list[Entry]] = {}
    for layer in layers:
        for entry in layer:
            below = merged.get(entry.key)
            if below is not None and isinstance(below.value, dict) and isinstance(entry.value, dict):
                entry = dataclasses.replace(entry, value=deep_merge(below.value, entry.value))
            elif below is not None and below.value != entry.value:
                beaten.setdefault(entry.key, []).append(below)
            merged[entry.key] = entry
    problems = []
    for key, losers in beaten.items():
        winner = merged[key]
        for loser in losers[-1:]:
            now = "unset" if winner.value is None else shown(winner.value)
            why = f"beaten by {winner.place}: {now}"
            problems.append(Problem(loser.place, key, why, shown(loser.value), level="note", code="beaten"))
    return {key: entry for key, entry in merged.items() if entry.value is not None}, problems


def _syntax_problem(error: tomllib.TOMLDecodeError, text: str, name: str) -> Problem:
    """tomllib says where in words: `Invalid value (at line 3, column 5)`."""
    what, _, where = str(error).partition(" (at ")
    numbers = [int(part) for part in where.replace(",", " ").replace(")", " ").split() if part.isdecimal()]
    if len(numbers) == 2:
        place = Place(name, *numbers)
    else:  # the end of the document
        lines = text.splitlines() or [""]
        place = Place(name, len(lines), len(lines[-1]) + 1)
    what = what[:1].lower() + what[1:]
    return Problem(place, "", f"not TOML: {what}", fix="see https://toml.io for the syntax", code="syntax")


def _with_origins(values: Mapping[str, Any], origins: Mapping[str, Origin], prefix: str = "") -> dict[str, Any]:
    known = all_keys()
    result: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and (key == "tags" or key not in known):
            result[name] = _with_origins(value, origins, f"{key}.")
            continue
        origin = origins.get(key, Origin("default"))
        leaf = {
            "value": value,
            "origin": origin.kind,
            "at": origin.at,
            "was": origin.was,
            "note": origin.note,
        }
        result[name] = {part: item for part, item in leaf.items() if part in ("value", "origin") or item is not None}
    return result
