"""The job object: a run as clients of the job API see it (WIRE 3.4), from the job's row and the run's status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltui.server.damage import DAMAGED, unreadable
from rltui.server.files import named_files
from rltui.server.record import parsed_status, read_status
from rltui.server.slots import in_queue
from rltui.server.table import OVER, JobRow
from rltui.server.urls import without_user
from rltui.sources.base import TERMINAL
from rltui.sources.early import early_end
from trainer.rundir.checkpoints import Checkpoint
from trainer.rundir.jsonl import Json, iso
from trainer.rundir.layout import RunPaths
from trainer.rundir.reader import RunReader

PREFIX = "/api/rl/jobs"


def present(row: JobRow, folder: Path) -> Json:
    """The status of the job's newest attempt; {} while that has none. What an earlier attempt left is not its."""
    return _newest(row, read_status(folder) or early_end(RunPaths(folder)) or {})


def seen(row: JobRow, folder: Path) -> Json:
    """As `present`. OSError, ValueError: there is a status that cannot be read."""
    return _newest(row, parsed_status(folder) or early_end(RunPaths(folder)) or {})


def _newest(row: JobRow, status: Json) -> Json:
    return status if (status.get("attempt") or row.attempt) >= row.attempt else {}


def word(row: JobRow, status: Json) -> str:
    """The one of five words that clients know. It never goes back, but by a resume."""
    state = status.get("state")
    if state in TERMINAL:
        return str(state)
    if state is None:
        return row.status
    return "queued" if state == "queued" else "running"


def phase(row: JobRow, status: Json) -> str:
    state, said = status.get("state"), word(row, status)
    if said == "queued":
        return "queued"
    if said in TERMINAL:
        return "done"
    return str(state) if state in ("paused", "stopping") else str(status.get("phase") or "starting")


def progress(status: Json) -> Json:
    totals, episodes = status.get("totals") or {}, status.get("episodes") or {}
    done, total = status.get("iteration") or 0, totals.get("iterations") or 0
    return {
        "completed": done,
        "total": total,
        "unit": "iterations",
        "updates": status.get("step") or 0,
        "total_updates": totals.get("steps") or 0,
        "episodes": episodes.get("accepted") or 0,
        "fraction": done / total if total else 0.0,
        "eta_s": status.get("eta_s"),
    }


def short(row: JobRow, status: Json, place: int | None = None) -> Json:
    """What pollers ask for all the time. `run` is status.json (WIRE 5.4), `place` the position in the queue."""
    said = word(row, status)
    return {
        "job_id": row.job_id,
        "status": said,
        "state": said,
        "phase": phase(row, status),
        "queue_position": place,
        "progress": progress(status),
        "updated_at": _updated(row, status),
        "run": in_queue(status, place) if status else None,
    }


def listed(row: JobRow, folder: Path, place: int | None = None) -> Json:
    """The object as it stands in lists: without what its client noted."""
    return {name: value for name, value in document(row, folder, place).items() if name != "metadata"}


class Listing:
    """`listed` for lists, which viewers ask for every few seconds: of a job that is over the object is made again only
    when its record is another."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[object, ...], Json]] = {}

    def of(self, row: JobRow, folder: Path, place: int | None = None) -> Json:
        if row.stage != OVER:
            return listed(row, folder, place)
        stamp = (row.attempt, *(_stamp(folder / name) for name in ("status.json", "events.jsonl", "checkpoints")))
        kept = self._kept.get(row.job_id)
        if kept is None or kept[0] != stamp:
            kept = self._kept[row.job_id] = stamp, listed(row, folder)
        return kept[1]


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        about = path.lstat()
    except OSError:
        return 0, 0, 0
    return about.st_ino, about.st_mtime_ns, about.st_size


def document(row: JobRow, folder: Path, place: int | None = None) -> Json:
    """The whole object. Of a run whose record cannot be read it says so, as its error, beside what the row knows.
    `place`: its position in the queue."""
    status: Json = {}
    checkpoints: list[Json] = []
    last_seq, fault = 0, None
    try:
        status, reader = seen(row, folder), RunReader(folder)
        last_seq = reader.last_seq()
        checkpoints = [_reached(found) for found in reader.checkpoints()]
    except DAMAGED as error:
        fault = unreadable(error)
    said = word(row, status)
    results = _results(said, status, checkpoints) if said in TERMINAL else {}
    model_id = results.get("model_id") if said == "succeeded" else None
    return {
        "job_id": row.job_id,
        "id": row.job_id,
        "job_type": "rl",
        "status": said,
        "state": said,
        "phase": phase(row, status),
        "queue_position": place,
        "waiting": in_queue(status, place).get("waiting"),
        "paused": status.get("paused"),
        "label": row.label,
        "model": row.model,
        "base_model": row.model,
        "task_app_url": None if row.task_app_url is None else without_user(row.task_app_url),
        "created_at": iso(row.created_at),
        "updated_at": _updated(row, status),
        "started_at": status.get("started_at"),
        "finished_at": status.get("finished_at"),
        "progress": progress(status),
        "attempt": row.attempt,
        "end_reason": status.get("end_reason"),
        "metrics": status.get("latest") or {},
        "best_reward": _best(status),
        "final_reward": results.get("final_reward"),
        "model_id": model_id,
        "fine_tuned_model": model_id,
        "checkpoints": checkpoints,
        "results": results or None,
        "error": fault or _error(status),
        "warnings": status.get("warnings") or [],
        "tags": row.tags,
        "metadata": row.metadata,
        "config_hash": row.config_hash,
        "last_seq": last_seq,
        "linked_job_id": None,
        "run_dir": str(folder),
    }


def artifacts(row: JobRow, folder: Path) -> Iterator[Json]:
    """Every file of every finished checkpoint, oldest first. `url` honours Range."""
    for found in RunReader(folder).checkpoints():
        for path, digest in named_files(RunPaths(folder), found):
            try:
                size = (found.path / path).lstat().st_size
            except OSError:  # an older checkpoint lost its optimizer state just now
                continue
            name = f"checkpoints/{found.path.name}/{path}"
            yield {
                "name": name,
                "kind": _kind(path),
                "bytes": size,
                "sha256": digest,
                "step": found.step,
                "job_id": row.job_id,
                "url": f"{PREFIX}/{row.job_id}/artifacts/{name}",
            }


def models(row: JobRow, folder: Path) -> Iterator[Json]:
    """A model for every checkpoint; the last one of a job that succeeded has the job's own name as well."""
    found, said = RunReader(folder).checkpoints(), word(row, present(row, folder))
    for checkpoint in found:
        yield _model(row, said, checkpoint, f"ft:{row.job_id}@{checkpoint.step}")
    if found and said == "succeeded":
        yield _model(row, said, found[-1], f"rl:{_base(found[-1]) or row.model}:{row.job_id}")


def _model(row: JobRow, said: str, checkpoint: Checkpoint, name: str) -> Json:
    return {
        "id": name,
        "base_model": _base(checkpoint) or row.model,
        "job_id": row.job_id,
        "step": checkpoint.step,
        "reward": checkpoint.reward,
        "created_at": checkpoint.created_at,
        "status": said,
    }


def _base(checkpoint: Checkpoint) -> Any:
    return (checkpoint.manifest.get("base_model") or {}).get("name")


def _kind(path: str) -> str:
    if path.startswith("optimizer/"):
        return "optimizer"
    if path.startswith("adapter_"):
        return "adapter"
    return "model" if path.endswith(".safetensors") or path in ("config.json", "generation_config.json") else "other"


def _results(said: str, status: Json, checkpoints: list[Json]) -> Json:
    """What the run wrote at its end; where it could not, what is known without it."""
    episodes, best = status.get("episodes") or {}, status.get("best") or {}
    known = {
        "status": said,
        "final_reward": None,
        "best_reward": best.get("reward"),
        "best_step": best.get("step"),
        "model_id": None,
        "evaluation": {"first": None, "last": None, "best": None},
        "episodes": episodes.get("accepted") or 0,
        "excluded": {},
        "wall_s": status.get("elapsed_s"),
        "tokens": None,
    }
    return {**known, **(status.get("results") or {}), "checkpoints": checkpoints}  # the run writes paths in its folder


def _reached(found: Checkpoint) -> Json:
    return {"step": found.step, "iteration": found.iteration, "path": str(found.path)}


def _best(status: Json) -> Any:
    best = status.get("best") or {}
    return best.get("reward") if best else (status.get("results") or {}).get("best_reward")


def _error(status: Json) -> Json | None:
    error = status.get("error")
    return {name: error.get(name) for name in ("code", "message", "hint")} if isinstance(error, dict) else None


def _updated(row: JobRow, status: Json) -> str:
    return str(status.get("updated_at") or iso(row.queued_at))
