"""What the verbs that look at runs share: finding the run that is meant, and summing it up."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.output import FAILED, USAGE, CliError, Json, program, say
from rltui.launch.runs import RunAt, in_folder, is_address, run_at, with_job
from rltui.sources.base import TERMINAL, RunSource, Slice, Unreadable
from rltui.sources.find import NoAnswer, NoSuchRun, default_runs_dir, find_run, job_id_of
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.launch.base import Launcher

RUN_HELP = "its path, folder name or job id, or a beginning; or http://…/api/rl/jobs/ID, ssh://USER@HOST/ID"


def count(text: str) -> int:
    """An option's number of rows: 0 (all) or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is no number of rows: 0 for all, or more")
    return number


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")


def chosen_run(args: argparse.Namespace) -> RunAt:
    """The run that RUN names, here or elsewhere. CliError: none, or several, or no answer from there."""
    return named_run(args.run, args.runs_dir)


def named_run(text: str, runs_dir: Path | None) -> RunAt:
    """Likewise, of one of several."""
    try:
        return run_at(text) if is_address(text) else with_job(in_folder(find_run(text, runs_dir or default_runs_dir())))
    except NoSuchRun as error:
        raise not_found(error) from error


def not_found(error: NoSuchRun) -> CliError:
    """What to do stands in a line of its own; who gives no answer has failed, who is not there was named wrongly."""
    text = "\n".join(clean(line, 1000) for line in str(error).splitlines())
    return CliError(text, code=FAILED if isinstance(error, NoAnswer) else USAGE)


def launcher_of(target: str) -> Launcher:
    """CliError: there is no such target."""
    from rltui.launch import targets

    try:
        return targets.target(target)
    except targets.NoSuchTarget as error:
        raise CliError(clean(error, 600)) from error


def folder_of(run: RunAt, what: str) -> Path:
    """Its folder. CliError: it lives elsewhere, and `what` needs the folder itself."""
    if run.folder is None:
        raise CliError(f"{what} works in the folder of a run, and {run} is elsewhere: use it on that machine")
    return run.folder


def ask(run: RunAt, verb: str, args: Json | None = None) -> str:
    """Ask a run for something and give the request's id. CliError: it could not be asked, or will not hear of it."""
    try:
        return run.source.request(verb, args)
    except ValueError as error:
        raise CliError(f"{run.name} refuses to {verb}: {clean(error, 600)}", code=FAILED) from error
    except OSError as error:
        why = clean(error.strerror, 600)
        if run.folder is None:
            raise CliError(f"{run.name} could not be asked to {verb}: {why}", code=FAILED) from error
        raise CliError(f"the request to {verb} could not be written in {run}/control: {why}", code=FAILED) from error


def unanswered(run: RunAt) -> str:
    """What became of a request without an answer, and where to look."""
    if run.folder is None:
        return f"{run.name} has not answered. The request waits for it; look at `{program()} logs {run}`"
    return f"{run.name} has not answered. The request stays in its control folder; look at {run}/logs"


def summary(run: RunAt, status: Json | None, problem: str | None = None) -> Json:
    """One run in one line's worth of data; what is not known is null. `problem`: why it cannot be read."""
    status = status or {}
    totals, latest = status.get("totals") or {}, status.get("latest") or {}
    error = status.get("error") or {}
    return {
        "name": run.name,
        "path": run.place,
        "job_id": status.get("job_id") or (job_id_of(run.folder) if run.folder else run.name),
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
        "eta_s": None if status.get("state") in TERMINAL else status.get("eta_s"),
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


def present(source: RunSource, *, follow: bool) -> Iterator[Json | None]:
    """As `watched`; without `follow` one look, for which a status that cannot be read is none."""
    if follow:
        yield from watched(source)
    else:
        yield known_status(source)


def known_status(source: RunSource) -> Json | None:
    """The status; None, and a word about it, where it cannot be read: what else was recorded can be."""
    try:
        return source.status()
    except Unreadable as error:
        say(f"note: {error}; what else was recorded is read")
        return {"state": "unreadable"}


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
