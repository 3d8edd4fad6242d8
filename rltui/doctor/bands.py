"""The one table of bands: from where on a rule speaks. A person's own values go into doctor.toml.

    [D01]
    watch = 0.4

in `$XDG_CONFIG_HOME/rltui/doctor.toml`. A line that says nothing usable is named and left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

from rltui.places import config_folder
from rltui.text import clean

MAX_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Band:
    """One number. `what`: of what, and where it is the limit. `least`, `most`: what it may be."""

    rule: str
    name: str
    value: float
    what: str
    least: float = 0.0
    most: float = 1e9


def _window(rule: str, value: int, what: str = "steps") -> Band:
    return Band(rule, "window", value, f"{what} that are looked at", 1, 1_000)


BANDS: tuple[Band, ...] = (
    _window("D01", 20, "iterations"),
    Band("D01", "watch", 0.30, "share of groups whose rewards are all equal", most=1),
    Band("D01", "act", 0.80, "the same", most=1),
    _window("D02", 50),
    Band("D02", "errors", 2.0, "the reward rises by fewer standard errors of its slope"),
    Band("D02", "solved", 0.50, "share of groups with full reward from which on nothing is left to rise", most=1),
    _window("D03", 30, "iterations"),
    Band("D03", "watch", 0.25, "drop below the best, as a share of it"),
    Band("D03", "act", 0.50, "the same"),
    Band("D04", "watch", 2.0, "training reward above evaluation, in standard errors of the evaluation"),
    Band("D04", "act", 6.0, "the same"),
    Band("D05", "share", 0.50, "standard error of an evaluation, as a share of the change it shows"),
    _window("D06", 20, "iterations"),
    Band("D06", "watch", 0.20, "rank correlation of judge and environment, below", -1, 1),
    Band("D06", "act", -0.10, "the same", -1, 1),
    _window("D07", 20, "iterations"),
    _window("D08", 20),
    Band("D08", "low", 0.20, "entropy against the first steps, below"),
    Band("D08", "high", 2.0, "the same, above"),
    Band("D08", "act_low", 0.05, "the same, below"),
    Band("D08", "act_high", 5.0, "the same, above"),
    Band("D08", "still", 3, "steps in a row whose gradient is exactly 0", 1, 20),
    _window("D09", 20, "iterations"),
    Band("D09", "low", 0.50, "length against the first iterations, below, while the reward is flat"),
    Band("D09", "high", 1.50, "the same, above"),
    _window("D10", 20, "iterations"),
    Band("D10", "watch", 0.05, "share of episodes that were cut", most=1),
    Band("D10", "act", 0.50, "the same, while the reward is flat", most=1),
    Band("D10", "solved", 0.50, "share of groups with full reward from which on cuts do no harm", most=1),
    _window("D11", 20),
    Band("D11", "floor", 0.10, "share that noise alone would clip", most=1),
    Band("D11", "observed", 0.20, "share clipped that is never too much", most=1),
    Band("D11", "near", 2.0, "share clipped, as a multiple of the noise floor"),
    Band("D11", "act", 0.35, "share clipped", most=1),
    _window("D12", 20),
    Band("D12", "spread", 1e-6, "spread of the ratio, at least"),
    _window("D13", 10, "steps at lag 0"),
    Band("D13", "watch", 1.5, "gap of log-probabilities against version 0"),
    Band("D13", "act", 3.0, "the same"),
    Band("D13", "ignore", 1e-4, "gap that is nothing but rounding"),
    _window("D14", 10),
    Band("D14", "watch", 3.0, "mismatch KL against 50 steps before"),
    Band("D14", "act", 10.0, "the same"),
    Band("D14", "ignore", 1e-4, "mismatch KL that is nothing but rounding"),
    _window("D15", 20),
    Band("D15", "ess", 0.80, "effective sample size over sequences, below", most=1),
    Band("D15", "ess_act", 0.40, "the same", most=1),
    Band("D15", "outside", 0.05, "share of ratios outside their band", most=1),
    Band("D15", "outside_act", 0.30, "the same", most=1),
    _window("D16", 20, "iterations"),
    Band("D16", "dropped", 0.01, "share of episodes that were too old", most=1),
    Band("D16", "dropped_act", 0.20, "the same", most=1),
    _window("D17", 20),
    Band("D17", "watch", 0.50, "share of episodes that carry gradient, below", most=1),
    Band("D17", "act", 0.10, "the same", most=1),
    Band("D18", "low", 0.70, "slope of the canary, below"),
    Band("D18", "high", 1.30, "the same, above"),
    Band("D18", "residual", 3.0, "residual of the canary, against the noise of a right sync"),
    Band("D18", "undecided", 5.0, "checks in a row that could not tell"),
    _window("D19", 20),
    Band("D19", "share", 0.10, "weight sync as a share of the step", most=1),
    Band("D19", "seconds", 1.0, "a sync that takes less is short, whatever its share"),
    Band("D19", "intervals", 3.0, "sync intervals since the last one"),
    Band("D19", "intervals_act", 10.0, "the same"),
    _window("D20", 20),
    Band("D20", "watch", -2.0, "log10 of update over weights", -20, 5),
    Band("D20", "act", -1.0, "the same", -20, 5),
    Band("D20", "lora_skip", 20, "first steps of lora that do not count: its B starts at 0"),
    _window("D21", 20),
    Band("D21", "watch", -4.0, "log10 of update over weights, below, while the reward is flat", -20, 5),
    _window("D22", 50),
    Band("D22", "spike", 10.0, "largest gradient norm over the median"),
    Band("D22", "clipped", 0.20, "share of steps whose gradient was clipped", most=1),
    Band("D22", "even", 5.0, "largest gradient norm over the median, up to which clipping does no harm"),
    Band("D22", "act", 1000.0, "largest gradient norm over the median"),
    _window("D23", 50),
    Band("D23", "act", 3, "skipped steps, at least"),
    _window("D25", 20, "iterations"),
    _window("D26", 20, "iterations"),
    Band("D26", "fork", 0.01, "share of calls that do not continue the recorded tokens", most=1),
    Band("D26", "act", 0.20, "the same", most=1),
    Band("D26", "drift", 0.05, "share of calls that were realigned or drifted", most=1),
    _window("D27", 20, "iterations"),
    Band("D27", "watch", 0.01, "share of episodes that the task app failed", most=1),
    Band("D27", "act", 0.20, "the same", most=1),
    Band("D27", "slower", 3.0, "95th percentile of the episode time against the first episodes"),
    _window("D28", 20, "iterations"),
    Band("D28", "failed", 0.01, "share of episodes without a score", most=1),
    Band("D28", "act", 0.20, "the same", most=1),
    Band("D28", "calls", 0.05, "share of tries at the judge that failed", most=1),
    Band("D28", "calls_act", 0.50, "the same", most=1),
    Band("D28", "latency", 0.50, "latency as a share of judge.timeout_s", most=1),
    Band("D28", "wait", 0.10, "waiting for the judge as a share of the step", most=1),
    _window("D29", 20),
    Band("D29", "batch", 0.30, "waiting for episodes as a share of the step", most=1),
    Band("D29", "other", 0.10, "waiting for one episode, or an evaluation, as a share of the step", most=1),
    _window("D30", 20),
    Band("D30", "held", 0.30, "generation held back as a share of the step", most=1),
    Band("D30", "idle", 0.50, "share of the time in which nothing generates", most=1),
    Band("D31", "util", 0.20, "use of a GPU, below", most=1),
    Band("D31", "seconds", 120, "for so long"),
    Band("D32", "headroom", 0.05, "free share of the GPU's memory, below", most=1),
    Band("D32", "act", 0.01, "the same", most=1),
    Band("D33", "checkpoints", 2.0, "checkpoints for which there must be room"),
    Band("D33", "hours", 1.0, "hours of writing for which there must be room"),
    Band("D33", "act", 0.5, "free space as a share of what is needed, below", most=1),
    Band("D34", "steps", 5.0, "median steps without progress"),
    Band("D34", "seconds", 120, "and at least so many seconds"),
)  # fmt: skip

_BY_NAME = {(band.rule, band.name): band for band in BANDS}
Values = Mapping[str, Mapping[str, float]]  # by rule, by name


@dataclass(frozen=True, slots=True)
class Table:
    """The bands that are in force, what a person changed of them, and what is wrong with the file."""

    values: Values
    changed: frozenset[tuple[str, str]] = frozenset()
    problems: tuple[str, ...] = field(default=())

    def of(self, rule: str) -> Mapping[str, float]:
        return self.values.get(rule, {})


def defaults() -> dict[str, dict[str, float]]:
    """A copy of the table's values."""
    values: dict[str, dict[str, float]] = {}
    for band in BANDS:
        values.setdefault(band.rule, {})[band.name] = band.value
    return values


def bands_file(env: Mapping[str, str] = os.environ) -> Path:
    """Where a person's bands are."""
    return config_folder(env) / "doctor.toml"


def load(path: Path) -> Table:
    """The table with what the file changes. Never raises: what is wrong is in the result."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Table(defaults())
    except OSError as error:
        return Table(defaults(), problems=(f"{path}: cannot be read: {error.strerror}",))
    import tomllib

    try:
        if len(raw) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES >> 10} KiB")
        text = raw.decode("utf-8-sig")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return Table(defaults(), problems=(clean(f"{path}: no valid TOML: {error}", 500),))
    return changed(document, str(path), text)


def changed(document: Mapping[str, Any], where: str, text: str = "") -> Table:
    """The table with what a parsed file changes; `text` is the file, for the numbers of its lines."""
    values, names, problems = defaults(), set[tuple[str, str]](), []
    for rule, name, given in _flat(document):
        try:
            values[rule][name] = _checked(rule, name, given)
            names.add((rule, name))
        except ValueError as error:
            line = _line(text, rule, name)
            problems.append(clean(f"{where}{f':{line}' if line else ''}: {error}", 500))
    return Table(values, frozenset(names), tuple(problems))


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for rule, part in document.items():
        if isinstance(part, dict):
            yield from ((rule, name, given) for name, given in part.items())
        else:
            yield rule, "", part


def _checked(rule: str, name: str, given: Any) -> float:
    band = _BY_NAME.get((rule, name))
    if band is None:
        known = [name for own, name in _BY_NAME if own == rule]
        if not known:
            rules = ", ".join(dict.fromkeys(own for own, _ in _BY_NAME))
            raise ValueError(f"no rule {clean(rule, 40)!a} with bands; those are {rules}")
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
        raise ValueError(f"{rule} has no {clean(name, 40)!a}; {hint}")
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        raise ValueError(f"{rule}.{name} = {clean(given, 40)} is no number; it is {band.what} (default {band.value:g})")
    if not band.least <= given <= band.most:
        raise ValueError(f"{rule}.{name} = {given:g} must be between {band.least:g} and {band.most:g}: {band.what}")
    return float(given)


def _line(text: str, rule: str, name: str) -> int | None:
    """The line that sets it; None: not found."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*[\"']?([^\]\"']*?)[\"']?\s*\]", line):
            inside = header[1] == rule
            if inside and not name:
                return number
        elif re.match(rf"\s*[\"']?{re.escape(name or rule)}[\"']?\s*=", line) and (inside or not name):
            return number
        elif re.match(rf"\s*{re.escape(rule)}\.{re.escape(name)}\s*=", line):
            return number
    return None
