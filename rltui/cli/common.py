"""What the verbs that look at runs share: finding the run that is meant, and summing it up."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rltui.cli.output import CliError, Json
from rltui.sources.base import TERMINAL, RunSource, Slice
from rltui.sources.find import NoSuchRun, default_runs_dir, find_run, job_id_of
from rltui.text import clean


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="its path, folder name or job id, or a beginning")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")


def chosen_run(args: argparse.Namespace) -> Path:
    """The folder that RUN names. CliError: none, or several."""
    try:
        return find_run(args.run, args.runs_dir or default_runs_dir())
    except NoSuchRun as error:
        raise CliError(clean(error, 1000)) from error


def summary(folder: Path, status: Json | None, problem: str | None = None) -> Json:
    """One run in one line's worth of data; what is not known is null. `problem`: why it cannot be read."""
    status = status or {}
    totals, latest = status.get("totals") or {}, status.get("latest") or {}
    error = status.get("error") or {}
    return {
        "name": folder.name,
        "path": str(folder),
        "job_id": status.get("job_id") or job_id_of(folder),
        "label": status.get("label"),
        "state": "unreadable" if problem else status.get("state") or "starting",
        "phase": status.get("phase"),
        "end_reason": status.get("end_reason"),
        "step": status.get("step"),
        "steps": totals.get("steps"),
        "iteration": status.get("iteration"),
        "iterations": totals.get("iterations"),
        "reward": latest.get("reward/mean"),
        "eval_reward": latest.get("eval/reward_mean"),
        "attempt": status.get("attempt"),
        "created_at": status.get("created_at"),
        "updated_at": status.get("updated_at"),
        "eta_s": status.get("eta_s"),
        "error": {"code": error.get("code"), "message": error.get("message"), "hint": error.get("hint")}
        if error
        else None,
        "problem": problem,
    }


LOOK_S = 0.5  # between two looks at a run that is followed


def watched(source: RunSource) -> Iterator[Json | None]:
    """The status of a run again and again until it has ended, and once more then: what it wrote last is there."""
    while True:
        status = source.status()
        yield status
        if status is not None and status.get("state") in TERMINAL:
            return
        time.sleep(LOOK_S)


def drained(read: Callable[[Any], Slice], cursor: Any) -> tuple[list[Json], Any]:
    """All rows after the cursor, and the cursor behind them."""
    rows: list[Json] = []
    while True:
        part = read(cursor)
        rows += part.rows
        cursor = part.cursor
        if not part.more:
            return rows, cursor


def age_s(iso: Any) -> float | None:
    """Seconds since an ISO 8601 time; None for what is no time."""
    try:
        moment = datetime.fromisoformat(iso)
    except (TypeError, ValueError):
        return None
    return max(0.0, time.time() - (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
