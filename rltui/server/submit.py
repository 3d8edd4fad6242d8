"""From a request to a run that could start: a checked config, or a refusal that says all that is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.server.answers import Refused
from rltui.server.bodies import Asked
from rltui.server.checks import client_problems
from trainer.config import ConfigError, Loaded, load_mapping, load_text
from trainer.config.differ import forbidden, live_keys, resume_keys
from trainer.config.sources import flatten
from trainer.config.toml_values import format_value
from trainer.rundir.attempts import Earlier, NoEarlierAttempt, leaves, read_earlier
from trainer.rundir.jsonl import Json
from trainer.rundir.resumable import NotResumable, choose


@dataclass(frozen=True)
class House:
    """What the server is for its jobs."""

    runs_dir: Path
    allow_code: bool
    environ: Mapping[str, str]  # of `job_environment`
    trusted: frozenset[str] = frozenset()  # origins to which keys of this machine may go (keys.py)

    @property
    def sets(self) -> tuple[str, ...]:
        """Keys that follow from where a job runs: checkpoints of earlier jobs are found among this server's runs."""
        return (f"logging.runs_dir={format_value(str(self.runs_dir))}",)


def loaded_of(asked: Asked, house: House) -> Loaded:
    """Raises Refused, with every problem of the config."""
    try:
        loaded = load_mapping(
            asked.config, "config", sets=house.sets, environ=house.environ, allow_unknown=asked.allow_unknown
        )
        _check(loaded, house)
    except ConfigError as error:
        raise invalid(error) from None
    return loaded


def _check(loaded: Loaded, house: House) -> None:
    problems = client_problems(loaded, allow_code=house.allow_code, trusted=house.trusted)
    if problems := [*problems, *loaded.launch_problems()]:
        raise ConfigError(problems)


def invalid(error: ConfigError) -> Refused:
    """422. Code that is not allowed has a word of its own."""
    first, more = error.problems[0], len(error.problems) - 1
    codes = {problem.code for problem in error.problems}
    code = "code_not_allowed" if "code_not_allowed" in codes else "invalid_config"
    rest = f" And {more} more {'problems' if more > 1 else 'problem'}." if more else ""
    return Refused(422, code, first.sentence() + rest, [problem.as_dict() for problem in error.problems])


def wants(loaded: Loaded) -> tuple[int, bool]:
    """GPUs that a run takes of this machine, and whether it takes a place of it at all."""
    placed = loaded.config.compute.launcher == "local"
    return (loaded.config.compute.gpu_count or 0) if placed else 0, placed


@dataclass(frozen=True)
class Further:
    """A further attempt that could start."""

    loaded: Loaded
    sets: list[str]
    attempt: int
    from_step: int | None
    allow_unknown: bool


def further(folder: Path, from_step: int | None, overrides: Json, house: House) -> Further:
    """A resume of a run that has ended. Raises Refused: 409 nothing to go on from, 422 another run or a wrong value."""
    try:
        earlier = read_earlier(folder)
        choose(earlier.paths.checkpoints, earlier.resumes, from_step, verify=False)
    except NoEarlierAttempt as error:
        raise Refused(409, "not_resumable", f"{error}; post it as a new job") from None
    except NotResumable as error:
        raise Refused(409, "not_resumable", f"{error}; {error.hint}") from None
    allowed = [key for key in resume_keys() if key != "logging.runs_dir"]  # of clients: it is this server's
    sets = overrides_as_sets(overrides, allowed, "differ when a run goes on")
    try:
        loaded = _again(earlier, [*_sets_of(earlier), *sets], house)
        _check(loaded, house)
    except ConfigError as error:
        raise invalid(error) from None
    values = leaves(json.loads(json.dumps(loaded.resolved()["values"])))  # as they are read back from the run
    if found := forbidden(earlier.values, values, given_only=True):
        told = "; ".join(map(str, found[:5]))
        raise Refused(422, "other_run", f"it would be another run: {told}", [{"key": item.key} for item in found])
    return Further(loaded, sets, earlier.attempt + 1, from_step, earlier.allow_unknown)


def _again(earlier: Earlier, sets: Sequence[str], house: House) -> Loaded:
    return load_text(
        earlier.config_text,
        earlier.config_name,
        sets=sets,
        environ=house.environ,
        allow_unknown=earlier.allow_unknown,
        follow_env_file=False,
    )


def _sets_of(earlier: Earlier) -> list[str]:
    return [f"{key}={format_value(value)}" for key, value in earlier.sets.items()]


def overrides_as_sets(overrides: Json, allowed: Sequence[str], what: str) -> list[str]:
    """Dotted keys or nested tables as KEY=VALUE. Refused: one that may not change; those that may are listed."""
    given = {key: value for _, key, value in flatten(_nested(overrides))}
    if wrong := sorted(given.keys() - set(allowed)):
        errors = [{"key": key, "code": "not_allowed", "why": f"it may not {what}"} for key in wrong]
        message = f"{', '.join(wrong)[:300]} may not {what}; these may: {', '.join(allowed)}"
        raise Refused(422, "key_not_allowed", message, errors)
    return [f"{key}={format_value(value)}" for key, value in given.items()]


def check_live(args: Json) -> None:
    """The arguments of `set`. Refused: none, or a key that cannot change while the run is going."""
    if not args:
        raise Refused(422, "invalid", "set needs args {key: value}")
    overrides_as_sets(args, live_keys(), "change while a run is going")


def _nested(overrides: Json) -> Json:
    nested: Json = {}
    for name, value in overrides.items():
        node = nested
        *above, last = str(name).split(".")
        for part in above:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise Refused(422, "invalid", f"the overrides hold {part} and something inside it")
        node[last] = value
    return nested
