"""What an attempt begins with: a config that may be launched, and for a resumed run the place to go on from."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainer.config import ConfigError, Loaded, load, load_text
from trainer.config.differ import Difference, differences, forbidden, resume_keys
from trainer.config.toml_values import format_value
from trainer.resume import Restored, read_restored
from trainer.rundir.attempts import Earlier, leaves, waits
from trainer.rundir.checkpoints import list_checkpoints
from trainer.rundir.layout import RunPaths
from trainer.rundir.resumable import NotResumable, choose, damaged, repoint, tidy


class OtherRun(ValueError):
    """The config is not that of the run that is to go on. The text shows both values of each key."""

    hint = f"leave it as it was; these may differ: {', '.join(resume_keys())}"

    def __init__(self, found: list[Difference]) -> None:
        super().__init__("; ".join(map(str, found)))


@dataclass(frozen=True)
class Source:
    """What a config was loaded from, so that it can be loaded again with other values."""

    text: str
    name: str
    sets: tuple[str, ...]
    allow_unknown: bool
    model_limit: int | None = None  # context of the model, once it is known

    def load(self, values: Mapping[str, Any] | None = None) -> Loaded:
        """With `values` by key, which win over everything. Raises ConfigError."""
        sets = [*self.sets, *as_sets(values or {})]
        loaded = load_text(self.text, self.name, sets=sets, allow_unknown=self.allow_unknown)
        return loaded if self.model_limit is None else loaded.for_model(self.model_limit)


@dataclass(frozen=True)
class Opening:
    """`restored` and `earlier` are those of a resumed run. Without `restored` it begins anew."""

    loaded: Loaded
    source: Source
    config_name: str  # where the config lay when the run was first started
    earlier: Earlier | None = None
    restored: Restored | None = None
    base_model: Mapping[str, Any] | None = None  # of the checkpoint
    overrides: Mapping[str, Any] | None = None  # what differs from the earlier attempt, by key

    def with_model(self, limit: int) -> Opening:
        """Once the model's context limit is known. Raises ConfigError, OtherRun."""
        source = replace(self.source, model_limit=limit)
        loaded = self.loaded.for_model(limit)
        if self.earlier is not None and (found := forbidden(self.earlier.values, values_of(loaded))):
            raise OtherRun(found)
        return replace(self, source=source, loaded=loaded)


def fresh(arguments: argparse.Namespace) -> Opening:
    """Raises ConfigError. A run that waited in a queue has the config that it was submitted with."""
    if waits(arguments.run_dir):
        text = RunPaths(arguments.run_dir).read("config.toml").decode("utf-8-sig")
        loaded = load_text(text, str(arguments.config), sets=arguments.sets, allow_unknown=arguments.allow_unknown)
    else:
        loaded = load(arguments.config, sets=arguments.sets, allow_unknown=arguments.allow_unknown)
    _check_launch(loaded)
    source = Source(loaded.text or "", str(arguments.config), tuple(arguments.sets), arguments.allow_unknown)
    return Opening(loaded, source, str(arguments.config.absolute()))


def resumed(arguments: argparse.Namespace, earlier: Earlier) -> Opening:
    """Under the run's lock. Raises ConfigError, NotResumable, OtherRun.

    Values given on the command line of earlier attempts, and those set while they were going, hold on.
    """
    folder = earlier.paths.checkpoints
    tidy(folder)
    anew = arguments.or_anew and not list_checkpoints(folder) and not damaged(folder)
    checkpoint = None if anew else choose(folder, earlier.resumes, arguments.from_step)
    restored = None if checkpoint is None else read_restored(checkpoint, earlier)
    own = (
        arguments.config.exists() and earlier.paths.config.exists() and arguments.config.samefile(earlier.paths.config)
    )
    text, name = (earlier.config_text, earlier.config_name) if own else (None, str(arguments.config))
    sets = (*as_sets(earlier.sets), *as_sets(restored.live if restored else {}), *arguments.sets)
    allow_unknown = arguments.allow_unknown or earlier.allow_unknown
    if text is None:
        text = load(arguments.config, sets=sets, allow_unknown=allow_unknown).text or ""
    source = Source(text, name, sets, allow_unknown)
    loaded = source.load()
    _check_launch(loaded)
    values = values_of(loaded)
    if found := forbidden(earlier.values, values, given_only=True):
        raise OtherRun(found)
    iterations = loaded.derived["iterations"]
    given = {item.key: item.new for item in differences(earlier.values, values) if _is_given(values, item.key)}
    if checkpoint is None or restored is None:
        return Opening(loaded, source, earlier.config_name, earlier, overrides=given)
    # A run that ended between its last checkpoint and its end still has that end before it.
    if restored.iteration > iterations or (restored.iteration == iterations and earlier.state == "succeeded"):
        raise NotResumable(
            f"{restored.iteration} of {iterations} iterations are done: there is nothing left to train",
            "raise training.num_epochs or training.iterations_per_epoch with --set",
        )
    best = restored.best
    repoint(folder, checkpoint, best["step"] if best else None)
    return Opening(loaded, source, earlier.config_name, earlier, restored, checkpoint.manifest.get("base_model"), given)


def values_of(loaded: Loaded) -> dict[str, Any]:
    """Leaves {value, origin} by key, as they are read back from resolved.json."""
    return leaves(json.loads(json.dumps(loaded.resolved()["values"])))


def as_sets(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={format_value(value)}" for key, value in values.items()]


def go_to(cwd: str | None) -> None:
    """Relative paths of a config are relative to where its run was first started."""
    if cwd is not None and Path(cwd).is_dir():
        os.chdir(cwd)


def _check_launch(loaded: Loaded) -> None:
    if problems := loaded.launch_problems():
        raise ConfigError(problems)


def _is_given(values: Mapping[str, Any], key: str) -> bool:
    return values.get(key, {}).get("origin") not in (None, "default", "derived")
