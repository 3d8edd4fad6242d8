"""Which checkpoint a resume goes on from, and what earlier attempts left beside it (WIRE 5.2, 5.9)."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from trainer.rundir.checkpoints import (
    MANIFEST,
    OPTIMIZER,
    STABLE,
    Checkpoint,
    checkpoint_name,
    counting,
    list_checkpoints,
    point,
    read_checkpoint,
    verify_checkpoint,
)
from trainer.rundir.disk import remove_half_written
from trainer.rundir.resume import Resumed

_ASIDE = re.compile(r"\.(step_\d+)\.(tmp|old)\Z")


class NotResumable(ValueError):
    """No checkpoint to go on from. The text says why; `hint` what can be done instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def choose(
    folder: Path, resumes: Sequence[Resumed], from_step: int | None = None, *, verify: bool = True
) -> Checkpoint:
    """The newest checkpoint with optimizer state, or that of `from_step`; its sums are checked (`verify`).

    NotResumable: there is none, or its files are damaged; then the next older one whose sums are right is offered.
    """
    found = counting(list_checkpoints(folder), resumes)
    resumable = [checkpoint for checkpoint in found if checkpoint.resumable]
    newest_whole = resumable[-1].step if resumable else -1
    if from_step is None and (newer := [path for path in damaged(folder) if _step_of(path) > newest_whole]):
        what = f"{newer[-1]} is damaged: the checksum of its {MANIFEST} is not the one in {STABLE}"
        raise NotResumable(what, _other_way(found, resumable))
    if from_step is not None:
        chosen = next((checkpoint for checkpoint in found if checkpoint.step == from_step), None)
        if chosen is None:
            steps = ", ".join(str(checkpoint.step) for checkpoint in found) or "none"
            raise NotResumable(f"there is no checkpoint of step {from_step} in {folder}", f"there are: {steps}")
        if not chosen.resumable:
            raise NotResumable(
                f"{chosen.path} has no optimizer state: a run goes on from its newest checkpoint alone",
                _other_way([chosen], resumable),
            )
    elif not resumable:
        newest = found[-1:]
        what = "no checkpoint with optimizer state" if newest else "no finished checkpoint"
        raise NotResumable(
            f"{what} in {folder}: the run cannot go on from there",
            _other_way(newest, []) if newest else "start it anew: rltui train with its config.toml",
        )
    else:
        chosen = resumable[-1]
    if verify and (wrong := verify_checkpoint(chosen.path)):
        results = [each for each in found if each.step <= chosen.step]  # its own weights may be whole
        older = [each for each in resumable if each.step < chosen.step]
        raise NotResumable("; ".join(wrong[:3]), _other_way(results, older))
    return chosen


def damaged(folder: Path) -> list[Path]:
    """Finished checkpoints that no reader takes for one any more, by step: their manifest or STABLE has changed."""
    finished = [path.parent for path in folder.glob(f"step_*/{STABLE}") if _is_checkpoint_name(path.parent.name)]
    return sorted((path for path in finished if read_checkpoint(path) is None), key=_step_of)


def _other_way(results: Sequence[Checkpoint], resumable: Sequence[Checkpoint]) -> str:
    """The newest of `resumable` to go on from, else of `results` to begin with; none is offered that is damaged."""
    if (whole := _newest_whole(resumable)) is not None:
        return f"go on from step {whole.step}, the next one that can be resumed: --resume RUN --from {whole.step}"
    if (whole := _newest_whole(results, optimizer=False)) is not None:
        words = ["rltui", "train", str(whole.path.parents[1] / "config.toml"), "--set", f"policy.source={whole.path}"]
        return f"the weights of step {whole.step} are whole: start a new run from them, {shlex.join(words)}"
    return "no other checkpoint is whole: start the run anew"


def _newest_whole(checkpoints: Sequence[Checkpoint], *, optimizer: bool = True) -> Checkpoint | None:
    whole = (each for each in reversed(checkpoints) if not verify_checkpoint(each.path, optimizer=optimizer))
    return next(whole, None)


def tidy(folder: Path) -> None:
    """Removes what a crash left half built; a checkpoint that was put aside to be replaced is put back."""
    if not folder.is_dir():
        return
    remove_half_written(folder)
    for path in sorted(folder.iterdir()):
        aside = _ASIDE.match(path.name)
        if aside and aside[2] == "old" and read_checkpoint(folder / aside[1]) is None and (path / STABLE).is_file():
            shutil.rmtree(folder / aside[1], ignore_errors=True)
            path.rename(folder / aside[1])
        elif aside or (_is_checkpoint_name(path.name) and not (path / STABLE).exists()):
            shutil.rmtree(path, ignore_errors=True)
        elif _is_checkpoint_name(path.name) and not (path / OPTIMIZER / MANIFEST).exists():
            shutil.rmtree(path / OPTIMIZER, ignore_errors=True)  # its removal was cut short


def repoint(folder: Path, latest: Checkpoint, best_step: int | None) -> None:
    """latest.json and best.json as they were when `latest` was written."""
    point(folder, "latest", latest)
    best = None if best_step is None else read_checkpoint(folder / checkpoint_name(best_step))
    if best is not None:
        point(folder, "best", best)
    else:
        (folder / "best.json").unlink(missing_ok=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step_"))


def _is_checkpoint_name(name: str) -> bool:
    return re.fullmatch(r"step_\d+", name) is not None
