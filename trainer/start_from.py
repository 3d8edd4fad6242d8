"""What a run begins with: a model, or a checkpoint of an earlier run (CONFIG, policy.source). Reads files, no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.config import RunConfig
from trainer.rundir.checkpoints import Checkpoint, list_checkpoints, read_checkpoint, verify_checkpoint
from trainer.rundir.reader import RunReader

ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
FAMILIES = ("ft:", "fft:", "qft:")  # three spellings of one thing: the checkpoint itself tells what it holds
MOST = 12  # known ids in a message


class CannotStart(ValueError):
    """policy.source names nothing that a run could start from. The text says why; `hint` what to give instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Start:
    """`model` is a name for `resolve_model`. `adapter` is the folder of one that continues, trained on `base`."""

    model: str
    adapter: Path | None = None
    base: Mapping[str, Any] = field(default_factory=dict)  # {name, revision, sha256} of the adapter's own base


def start_of(config: RunConfig) -> Start:
    """Raises CannotStart."""
    source = config.policy.source
    if source is None:
        return Start(config.policy.model_name or "")
    checkpoint = _find(source, Path(config.logging.runs_dir).expanduser())
    if wrong := verify_checkpoint(checkpoint.path, optimizer=False):
        raise CannotStart("; ".join(wrong[:3]), "choose another checkpoint")
    if not (checkpoint.path / ADAPTER).is_file():
        return Start(str(checkpoint.path))
    _check_adapter(checkpoint.path, config)
    base = checkpoint.manifest.get("base_model") or {}
    if not base.get("name"):
        raise CannotStart(f"{checkpoint.path} does not say what model its adapter is for", "choose another checkpoint")
    return Start(str(base["name"]), checkpoint.path, base)


def _check_adapter(folder: Path, config: RunConfig) -> None:
    if config.policy.trainer_mode == "full":
        why = f"{folder} holds an adapter, which goes on as an adapter; policy.trainer_mode is full"
        raise CannotStart(why, 'trainer_mode = "lora"')
    if not config.training.weight_sync.enable or not config.training.weight_sync.targets:
        why = f"the engine gets the adapter in {folder} by a weight sync, and training.weight_sync is off"
        raise CannotStart(why, "enable = true")
    try:
        stored = json.loads((folder / ADAPTER_CONFIG).read_text())
        own = {"r": int(stored["r"]), "alpha": stored["lora_alpha"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotStart(f"{folder / ADAPTER_CONFIG} cannot be read: {error}", "choose another checkpoint") from None
    lora = config.training.lora
    wrong = {name: value for name, value in own.items() if getattr(lora, name) != value}
    if wrong:
        told = " and ".join(f"training.lora.{name} is {getattr(lora, name)}, not {own[name]}" for name in wrong)
        fix = " ".join(f"--set training.lora.{name}={value:g}" for name, value in wrong.items())
        raise CannotStart(f"the adapter in {folder} is another than the config's: {told}", fix)


def _find(source: str, runs_dir: Path) -> Checkpoint:
    family = next((family for family in (*FAMILIES, "rl:") if source.startswith(family)), "")
    if not family:
        return _in_folder(Path(source).expanduser(), runs_dir)
    job, _, at = source.removeprefix(family).rpartition("@")
    job, at = (job, at) if job else (at, "")
    base, _, job = job.rpartition(":")
    if at and not at.isdecimal():
        hint = f"{family}{job}@STEP, or without @ for the last"
        raise CannotStart(f"policy.source {source!r}: {at!r} is no step", hint)
    run = _run(job, source, runs_dir)
    checkpoint = _of_run(run, int(at) if at else None)
    name = (checkpoint.manifest.get("base_model") or {}).get("name")
    if family == "rl:" and base != name:
        raise CannotStart(f"policy.source {source!r}: the run {job} began with {name}", f'source = "rl:{name}:{job}"')
    return checkpoint


def _in_folder(folder: Path, runs_dir: Path) -> Checkpoint:
    if (checkpoint := read_checkpoint(folder.absolute())) is not None:
        return checkpoint
    if (folder / "checkpoints").is_dir():
        return _of_run(folder.absolute(), None)
    what = "is no finished checkpoint" if folder.is_dir() else "does not exist"
    plain = (folder / "config.json").is_file()
    hint = "policy.model_name takes the folder of a plain model" if plain else _known(runs_dir)
    raise CannotStart(f"policy.source: the folder {folder} {what}", hint)


def _of_run(run: Path, step: int | None) -> Checkpoint:
    """The newest one, or that of `step`, among those that no resume left behind."""
    found = RunReader(run).checkpoints()
    chosen = [checkpoint for checkpoint in found if step in (None, checkpoint.step)]
    if not chosen:
        what = "no finished checkpoint" if step is None else f"no checkpoint of step {step}"
        steps = ", ".join(str(checkpoint.step) for checkpoint in found) or "none"
        raise CannotStart(f"policy.source: the run {run.name} has {what}", f"there are: {steps}")
    return chosen[-1]


def _run(job: str, source: str, runs_dir: Path) -> Path:
    """By job id, folder name, or a label that one run alone has."""
    runs = _runs(runs_dir)
    exact = [run for run in runs if job in (run.name, _job_id(run))]
    matches = exact or [run for run in runs if run.name.rpartition("-rl_")[0] == job]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(_job_id(run) for run in matches[:MOST])
        raise CannotStart(f"policy.source {source!r}: {len(matches)} runs have that label", f"choose one of {names}")
    raise CannotStart(f"policy.source {source!r}: there is no run {job!r} in {runs_dir}", _known(runs_dir))


def _runs(runs_dir: Path) -> list[Path]:
    try:
        return sorted(Path(entry) for entry in os.scandir(runs_dir) if (Path(entry) / "checkpoints").is_dir())
    except OSError:
        return []


def _job_id(run: Path) -> str:
    """In the folder's name `<label>-<job id>`, else (a folder of --run-dir) in its status."""
    _, found, tail = run.name.rpartition("-rl_")
    return f"rl_{tail}" if found else str((RunReader(run).status() or {}).get("job_id") or "")


def _known(runs_dir: Path) -> str:
    """The runs that could be started from, as they are written in policy.source."""
    known = [f"ft:{_job_id(run)} ({run.name})" for run in _runs(runs_dir) if list_checkpoints(run / "checkpoints")]
    if not known:
        return f"no run in {runs_dir} has a checkpoint; logging.runs_dir says where runs are looked for"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"known in {runs_dir}: {', '.join(known[-MOST:])}{more}"
