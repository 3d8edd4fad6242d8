"""A config file becomes a `RunConfig` of which every value knows where it came from (CONFIG section 1)."""

import dataclasses
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.config.characters import broken_texts, has_broken_text
from trainer.config.check import (
    missing_keys,
    missing_problem,
    nest,
    secret_problems,
    type_problems,
)
from trainer.config.derive import arithmetic, derive, effective_blend
from trainer.config.env_file import variables
from trainer.config.errors import ConfigError, Place, Problem, by_position
from trainer.config.facts import Device, Facts
from trainer.config.file import first_bytes
from trainer.config.fitting import fitted
from trainer.config.keys import all_keys, all_sections
from trainer.config.launch import launch_problems
from trainer.config.layers import merge, with_one_start, without_injected
from trainer.config.machine import ELSEWHERE, Machine, inspect
from trainer.config.migrate import Entry, Origin, by_given_key, migrate
from trainer.config.migrations import SECTION_MOVES
from trainer.config.positions import Positions
from trainer.config.rules import RULES
from trainer.config.schema import RunConfig
from trainer.config.secrets import is_secret
from trainer.config.sources import Given, from_environment, from_file, from_json, from_overrides, from_sets
from trainer.config.toml_values import TOO_MANY_DIGITS
from trainer.config.unknown import find_unknown

SCHEMA = 1
MOST_BYTES = 16_000_000  # of a file; a config of a thousand lines has 50 000

_LONG_KEY = re.compile(r"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){500}")  # linear in the text's length


class _TooManyDigits(Exception):
    pass


@dataclass(frozen=True)
class Loaded:
    """A config that is valid, with everything that is known about it.

    Attributes:
        config: all values, defaults and derived ones filled in.
        values: the same as nested plain data.
        origins: where each value came from, by key path. A free table has one, whose note names the parts that come
            from weaker sources.
        warnings: warnings and notes, in the order of the file.
        derived: E, U, m, groups, iterations, steps (CONFIG section 3).
        blend: effective weights env, event, outcome.
        text: the file as it was given; None for a job body.
        env_file: the variables of env_file_path, secrets among them: for the environment of a run and its
            children (`export`), and for nothing that is written down or shown.
    """

    config: RunConfig
    values: dict[str, Any]
    origins: dict[str, Origin]
    warnings: list[Problem]
    derived: dict[str, int]
    blend: dict[str, float]
    config_hash: str
    text: str | None
    _facts: Facts = field(repr=False)
    _early: list[Problem] = field(repr=False)
    env_file: Mapping[str, str] = field(default_factory=dict, repr=False)

    def export(self, environ: MutableMapping[str, str]) -> None:
        """Puts the variables of env_file_path into `environ`; what is set there already wins."""
        for name, value in self.env_file.items():
            environ.setdefault(name, value)

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
            ConfigError: the config asks for more than the model has; told in sentences, since a run ends with it.
        """
        facts = dataclasses.replace(self._facts, model_limit=limit, derived={})
        try:
            return _finish(facts, self._early, self.text, self.env_file)
        except ConfigError as error:
            raise ConfigError([*error.problems, *error.warnings], in_sentences=True) from None

    def launch_problems(self) -> list[Problem]:
        """Errors that stop a launch, though not the loading of a file: what this machine and environment lack."""
        return _fitted(launch_problems(self._facts), self._facts, self.text)


def load(
    path: Path | str,
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    allow_unknown: bool = False,
    device: Device | None = None,
    machine: Machine | None = None,
    follow_env_file: bool = True,
) -> Loaded:
    """Loads a TOML file.

    Args:
        path: the file. Problems name it as it is given here.
        sets: `--set` texts, `section.key=value`; they win over everything.
        overrides: nested mapping or dotted keys; they win over environment and file.
        environ: the environment; default: this process's.
        allow_unknown: unknown keys are warnings.
        device: what derived defaults are for; default: cuda if a GPU is visible and the config wants any.
        machine: the GPUs of where the run will be; default: this machine's.
        follow_env_file: False for a copy of a config, as in a run's folder: what env_file_path is relative to
            is not there, and is not needed to show it.

    Raises:
        ConfigError: all that is wrong, at once. A missing or unreadable file is a ConfigError, too.
    """
    name = str(path)
    try:
        raw = first_bytes(path, MOST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text (byte {error.start})"
        raise ConfigError([Problem(Place(name), "", why, fix="save the file as UTF-8", code="encoding")]) from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        missing = isinstance(error, FileNotFoundError)
        reason = getattr(error, "strerror", None) or error
        why = "no such file" if missing else f"cannot be read: {reason}"
        fix = "check the path" if missing else "give the path of a TOML file that you may read"
        raise ConfigError([Problem(Place(name), "", why, fix=fix, code="file")]) from None
    if len(raw) > MOST_BYTES:
        why = f"larger than {MOST_BYTES // 1_000_000} MB, so hardly a config"
        fix = "give the path of a TOML file; keep long lists with the task app"
        raise ConfigError([Problem(Place(name), "", why, fix=fix, code="file")])
    return load_text(
        text,
        name,
        sets=sets,
        overrides=overrides,
        environ=environ,
        allow_unknown=allow_unknown,
        device=device,
        machine=machine,
        follow_env_file=follow_env_file,
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
    machine: Machine | None = None,
    follow_env_file: bool = True,
) -> Loaded:
    """`load` for text that is already read; `name` stands in its problems, and its folder is the config's."""
    try:
        if _LONG_KEY.search(text):  # parsing takes the square of its length
            raise RecursionError
        data = _parsed(text)
        given = from_file(data, Positions(text), name)
        folder = Path(name).parent if follow_env_file else None
        options = _Options(sets, overrides, environ, allow_unknown, device, machine, folder)
        return _load(given, name, text, _sections(data), options)
    except tomllib.TOMLDecodeError as error:
        from trainer.config.syntax import syntax_problem  # here: most files are TOML

        raise ConfigError([syntax_problem(error, text, name)]) from None
    except _TooManyDigits:
        raise ConfigError([Problem(Place(name), "", TOO_MANY_DIGITS, fix="delete it", code="syntax")]) from None
    except RecursionError:
        raise ConfigError([Problem(Place(name), "", "nested too deeply", code="syntax")]) from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit for integers in decimal
        raise _TooManyDigits from None


def load_mapping(
    data: Mapping[str, Any],
    name: str = "body",
    *,
    sets: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    allow_unknown: bool = False,
    device: Device | None = None,
    machine: Machine | None = None,
) -> Loaded:
    """`load` for a JSON config: positions are JSON pointers. env_file_path is not followed: it names a file of
    the machine that the body came from.
    """
    if not isinstance(data, Mapping):
        why = "not a config: a table (in JSON an object) is wanted"
        fix = 'give {"algorithm": {...}, ...}'
        raise ConfigError([Problem(Place(name), "", why, fix=fix, code="type")])
    try:
        given = without_injected(from_json(data, name))
        options = _Options(sets, overrides, environ, allow_unknown, device, machine)
        return _load(given, name, None, _sections(data), options)
    except RecursionError:
        raise ConfigError([Problem(Place(name), "", "nested too deeply", code="syntax")]) from None


@dataclass(frozen=True)
class _Options:
    """`folder`: what env_file_path is relative to; None: it is not followed."""

    sets: Sequence[str]
    overrides: Mapping[str, Any] | None
    environ: Mapping[str, str] | None
    allow_unknown: bool
    device: Device | None
    machine: Machine | None
    folder: Path | None = None


def _load(given: list[Given], name: str, text: str | None, sections: frozenset[str], options: _Options) -> Loaded:
    from_over = from_overrides(options.overrides or {})
    if unset := {item.key for item in from_over if item.value is None and item.key in all_sections()}:
        given = [item for item in given if _section_of(item.key) not in unset]
        from_over = [item for item in from_over if item.key not in unset]
        sections -= unset
    from_set, problems = from_sets(options.sets)
    own = os.environ if options.environ is None else options.environ
    env_file, found = variables([*given, *from_over, *from_set], options.folder, own)
    problems += found
    environ = {**env_file.values, **own}
    from_env, found = from_environment(environ, {name: env_file.path for name in env_file.values if name not in own})
    from_env = [item for item in from_env if _section_of(item.key) not in unset]
    problems += found
    layers = [given, from_env, from_over, from_set]
    all_given = [item for layer in layers for item in layer]
    problems += secret_problems(all_given) + broken_texts(item for item in all_given if not _is_secret(item))
    refused = {item.key for item in all_given if _is_refused(item)}
    layers = [[item for item in layer if not _is_refused(item)] for layer in layers]
    context = by_given_key(item for layer in layers for item in layer)
    migrated: list[list[Entry]] = []
    for layer in layers:
        entries, found = migrate(layer, context)
        migrated.append(entries)
        problems += found
    *weaker, strongest = migrated
    merged, found = merge([*weaker, with_one_start(strongest)])
    problems += found

    unknown = find_unknown(merged, allow=options.allow_unknown)
    problems += unknown.problems
    merged = {key: entry for key, entry in merged.items() if key not in unknown.keys}
    found, broken = type_problems(merged)
    problems += found

    if any(key.startswith("evaluation.") for key in merged):
        sections |= {"evaluation"}
    facts = Facts(
        file=name,
        entries=merged,
        broken=broken,
        evaluates="evaluation" in sections,
        variables=frozenset(name for name, value in environ.items() if value.strip()),
        **_surroundings(merged, environ, options),
    )
    derive(facts)
    if missing := missing_keys({*merged, *unknown.meant, *refused}, facts.derived, sections):
        problems.append(missing_problem(name, missing, sections))
    if not options.allow_unknown:  # what was meant to be given: rules do not speak of the default in its place
        facts.broken |= unknown.meant - merged.keys()
    facts.broken |= {key for key in all_keys() if all_keys()[key].required and key not in {*merged, *facts.derived}}
    return _finish(dataclasses.replace(facts, derived={}), problems, text, env_file.values)


def _sections(data: Mapping[str, Any]) -> frozenset[str]:
    """Tables that are there, empty or not. [compute.topology] alone does not make a [compute]."""
    return frozenset(
        name
        for name, value in data.items()
        if isinstance(value, Mapping) and not (name == "compute" and set(value) == {"topology"})
    )


def _section_of(key: str) -> str:
    """The first part of a key, as it is called now."""
    first = key.partition(".")[0]
    return SECTION_MOVES.get(first, first)


def _is_secret(item: Given) -> bool:
    return is_secret(item.key, item.value)


def _is_refused(item: Given) -> bool:
    """What cannot be shown, and so is looked at no further."""
    return _is_secret(item) or has_broken_text(item)


def _surroundings(entries: Mapping[str, Entry], environ: Mapping[str, str], options: _Options) -> dict[str, Any]:
    """The device that values are derived for, and the machine. One that is not this one has GPUs of unknown number."""

    def value(key: str, default: Any) -> Any:
        return entries[key].value if key in entries else default

    machine = options.machine or inspect(environ)
    elsewhere = value("compute.launcher", "local") != "local" or (options.device == "cuda" and not machine.gpus)
    if elsewhere and options.machine is None:
        machine = ELSEWHERE
    wants_none = value("compute.gpu_count", None) == 0 or value("compute.topology.type", None) == "cpu"
    asks = any(key == "compute.topology.type" or (key.startswith("compute.") and "gpu" in key) for key in entries)
    if (value("compute.launcher", "local") != "local" or machine.gpus is None) and not asks:
        # Such a model needs no GPU, and a request for one may wait for ever.
        wants_none = str(value("policy.model_name", "")).startswith("builtin:")
    found: Device = "cpu" if wants_none or machine.gpus == 0 else "cuda"
    return {"device": options.device or found, "machine": machine}


def _finish(facts: Facts, early: list[Problem], text: str | None, env_file: Mapping[str, str]) -> Loaded:
    """Derivations, rules over several keys, and the typed config."""
    derived_origins = derive(facts)
    problems = _fitted(early + facts.collect(RULES), facts, text)
    if any(problem.level == "error" for problem in problems):
        raise ConfigError(problems, derived=facts.derived)
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
        warnings=sorted(problems, key=by_position),
        derived=arithmetic(facts),
        blend=effective_blend(facts),
        config_hash=hashlib.sha256(canonical.encode()).hexdigest(),
        text=text,
        _facts=facts,
        _early=early,
        env_file=env_file,
    )


def _fitted(problems: list[Problem], facts: Facts, text: str | None) -> list[Problem]:
    lines = text.split("\n") if text else ()
    return [fitted(problem, facts.entries.get(problem.key), lines) for problem in problems]


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
