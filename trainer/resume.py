"""Where a resumed attempt goes on: what the state.json of a checkpoint says of the coordinator (WIRE 5.9)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainer.recorder import Recorder
from trainer.rundir.attempts import Earlier
from trainer.rundir.checkpoints import Checkpoint, read_checkpoint
from trainer.rundir.resumable import NotResumable
from trainer.rundir.resume import Resumed

STATE = "state.json"


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator as it was when the checkpoint was written. The learner reads its own part itself."""

    checkpoint: Path
    attempt: int  # of the one that begins
    from_attempt: int  # of the one that wrote the checkpoint
    step: int
    iteration: int
    weight_version: int  # to be served before anything is played
    weight_updates: int
    cursor: dict[str, Any]  # {seed, group, wraps, ...}: after the last closed batch
    accepted: int
    excluded: dict[str, int]  # by code
    groups_dropped: int
    sampled_tokens: int
    evaluations: dict[int, float]  # mean reward by iteration
    last_reward: float | None
    best: dict[str, Any] | None
    live: dict[str, Any]  # keys that were set while the run was going
    canary: Any
    judged: list[tuple[float, float]] = []  # (judge, environment) of the last episodes
    empty: int = 0  # iterations in a row without gradient
    next_n: int
    next_seq: int


def read_restored(checkpoint: Checkpoint, earlier: Earlier) -> Restored:
    """Raises NotResumable: state.json cannot be read, or lacks what a resume needs."""
    try:
        state = msgspec.json.decode((checkpoint.path / STATE).read_bytes(), type=dict[str, Any])
        served = state["weight_updates"] == state["step"]
        return msgspec.convert(
            {
                **state,
                "checkpoint": checkpoint.path,
                "attempt": earlier.attempt + 1,
                "from_attempt": state["attempt"],
                # Steps that no sync had brought to the engine yet reach it now, under a version of their own.
                "weight_version": state["weight_version"] + (0 if served else 1),
                "weight_updates": state["step"],
                "evaluations": {int(iteration): mean for iteration, mean in state["evaluations"].items()},
            },
            Restored,
            dec_hook=lambda _, value: value,  # the path
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise NotResumable(
            f"{checkpoint.path / STATE} {what}",
            "it was written by another version of this program: start a new run from its weights",
        ) from None


def state_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The coordinator's part of state.json, from what a `Restored` will need."""
    return {**facts, "evaluations": {str(iteration): mean for iteration, mean in facts["evaluations"].items()}}


def begin_anew(recorder: Recorder, overrides: Mapping[str, Any]) -> None:
    """Another attempt of a run that has no checkpoint: what earlier ones did counts no more."""
    attempt = recorder.writer.attempt
    recorder.event(
        "rl.resumed",
        f"attempt {attempt} begins anew: there was no checkpoint yet",
        attempt=attempt,
        from_step=0,
        from_iteration=0,
        overrides=dict(overrides),
    )
    recorder.status(step=0, iteration=0, epoch=0, weight_version=0, weight_updates=0, episodes=recorder.counts())


def take_up(recorder: Recorder, restored: Restored, overrides: Mapping[str, Any]) -> None:
    """The coordinator's numbers as they were; readers learn from the event what no longer counts."""
    recorder.step, recorder.iteration = restored.step, restored.iteration
    recorder.weight_version, recorder.weight_updates = restored.weight_version, restored.weight_updates
    recorder.accepted, recorder.excluded = restored.accepted, dict(restored.excluded)
    recorder.dropped_groups, recorder.sampled_tokens = restored.groups_dropped, restored.sampled_tokens
    recorder.event(
        "rl.resumed",
        f"attempt {restored.attempt} goes on from step {restored.step}",
        attempt=restored.attempt,
        from_step=restored.step,
        from_iteration=restored.iteration,
        overrides=dict(overrides),
    )
    recorder.status(
        step=restored.step,
        iteration=restored.iteration,
        epoch=recorder.epoch(restored.iteration),
        weight_version=restored.weight_version,
        weight_updates=restored.weight_updates,
        episodes=recorder.counts(),
        best=restored.best,
    )


def with_this(earlier: Earlier, restored: Restored | None) -> list[Resumed]:
    """The resumes of the run, that of the attempt which begins among them."""
    return [*earlier.resumes, Resumed(earlier.attempt + 1, restored.step if restored else 0)]


def fingerprint(model: Path) -> str:
    """sha256 over the config and the weights of a model folder, file by file."""
    total = hashlib.sha256()
    for path in sorted({model / "config.json", *model.glob("*.safetensors"), *model.glob("*.bin")}):
        if path.is_file():
            with path.open("rb") as file:
                total.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def another_world(checkpoint: Path, ranks: int) -> str | None:
    """A sentence if another number of learner ranks wrote the checkpoint. It holds whole tensors, so any can go on."""
    found = read_checkpoint(checkpoint)
    before = found.manifest.get("world_size") if found else None
    if before in (None, ranks):
        return None
    return (
        f"the checkpoint was written by a learner of {before} rank(s), and {ranks} go on: sums are made in another "
        "order, so the run is not bit for bit the one that was interrupted"
    )


def another_model(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """A sentence if the checkpoint was trained from another model than the one that is there now."""
    before, now = old.get("sha256"), new.get("sha256")
    if before is None or before == now:
        return None
    name = new.get("name")
    return f"{name} is another model than the run began with: its files had sha256 {before[:12]}, now {str(now)[:12]}"
