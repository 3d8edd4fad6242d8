"""The weights of a run that lives on a job server: fetched, file by file, each checked against its sum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from rltui.export.weights import NoWeights
from rltui.launch.runs import RunAt
from rltui.sources.base import Json
from rltui.text import clean
from rltui.words import size
from trainer.rundir.checkpoints import OPTIMIZER, Checkpoint


def checkpoint(run: RunAt, wanted: str, folder: Path, told: Callable[[str], Any]) -> Checkpoint:
    """The checkpoint of that name, in a folder of `folder`, without what only a resume needs. Files that lie there
    already are not fetched again.

    `wanted`: best (else the newest), latest, or a step. NoWeights: there is none, or it could not be fetched.
    """
    from rltui.backend import BackendError

    assert run.backend is not None
    row = _chosen(run.source.checkpoints(), wanted)
    step = int(row["step"])
    into = folder / f"step_{step}"
    try:
        found = run.backend.get(f"/rl/jobs/{run.name}/artifacts").get("artifacts") or []
        files = [one for one in found if one.get("step") == step and _plain(one) is not None]
        if not files:
            raise NoWeights(f"the server has no files of step {step} any more")
        told(f"fetching {len(files)} files of step {step}, {size(sum(int(one['bytes']) for one in files))}")
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
        for one in files:
            _fetch(run, one, into)
    except BackendError as error:
        raise NoWeights(f"step {step} could not be fetched: {error.detail}; call it again to go on") from error
    return Checkpoint(
        path=into,
        step=step,
        iteration=int(row.get("iteration") or 0),
        attempt=0,
        created_at="",
        bytes=sum(int(one["bytes"]) for one in files),
        reward=row.get("reward"),
        eval_reward=None,
        is_best=bool(row.get("is_best")),
        resumable=False,
        manifest={"base_model": {"name": _base(run)}},
    )


def _chosen(rows: list[Json], wanted: str) -> Json:
    if not rows:
        raise NoWeights("it has no checkpoint yet")
    best = [row for row in rows if row.get("is_best")] if wanted == "best" else []
    if wanted in ("best", "latest"):
        return best[-1] if best else rows[-1]
    for row in rows:
        if wanted in (str(row["step"]), f"step_{row['step']}"):
            return row
    steps = ", ".join(str(row["step"]) for row in rows)
    raise NoWeights(f"it has no checkpoint {wanted!a}; there are those of steps {steps}")


def _plain(file: Json) -> str | None:
    """The name of a file that stands in the checkpoint's folder itself; None: it is not wanted, or no such name."""
    path = PurePosixPath(str(file.get("name")))
    inner = path.parts[2:]
    return inner[0] if len(inner) == 1 and inner[0] not in ("", "..", OPTIMIZER) else None


def _fetch(run: RunAt, file: Json, into: Path) -> None:
    name = _plain(file)
    assert name is not None and run.backend is not None
    to = into / name
    if to.is_file() and to.stat().st_size == file["bytes"]:  # it got its name once its sum was right
        return
    run.backend.download(clean(file["url"], 2000), to, sha256=file.get("sha256"))


def _base(run: RunAt) -> str | None:
    """The model that the adapter is for."""
    value: Any = (run.source.document("environment.json") or {}).get("model")
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None
