"""`rltui runs [DIR]`: one line a run, newest first. An unreadable run stays a line with its reason."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rltui.cli.common import age_s, not_found, summary
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, program, say, words
from rltui.cli.progress import number
from rltui.cli.table import table
from rltui.launch.runs import in_folder, is_address, runs_at
from rltui.sources.base import Unreadable
from rltui.sources.find import NoSuchRun, default_runs_dir, runs_in
from rltui.text import clean, fit, width
from rltui.words import duration


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dir",
        nargs="?",
        metavar="DIR",
        help="folder of runs (default: runs); or a job server, http://HOST:PORT or ssh://USER@HOST",
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui runs",
        "rltui runs ~/experiments --json",
        "rltui runs ssh://me@gpubox",
    )


def run(args: argparse.Namespace) -> int:
    elsewhere = args.dir is not None and is_address(args.dir)
    folder = args.dir if elsewhere else Path(args.dir or default_runs_dir())
    rows = _jobs(args.dir) if elsewhere else [_row(path) for path in _listed(folder, args.dir is not None)]
    rows.sort(key=lambda row: (row["created_at"] or "", row["name"]), reverse=True)
    emit({"dir": str(folder), "runs": rows}, as_json=args.json, out=args.out)
    if args.json:
        return OK
    if not rows:
        say(f"No runs under {folder}. `rltui demo` makes one; `rltui train CONFIG` starts yours.")
        return OK
    columns = shutil.get_terminal_size((160, 24)).columns
    lines = _table(rows)
    for line in lines:
        say(fit(line, max(columns, 20)), words(args))
    if any(width(line) > columns for line in lines):
        say(f"cut to {columns} columns; `{program()} show NAME` has all of a run, --json all of this")
    return OK


def _jobs(server: str) -> list[Json]:
    try:
        return [summary(run, status) for run, status in runs_at(server)]
    except NoSuchRun as error:
        raise not_found(error) from error


def _listed(folder: Path, given: bool) -> list[Path]:
    try:
        return runs_in(folder)
    except FileNotFoundError:
        if given:
            raise CliError(f"no folder {folder}: give the folder that holds the runs") from None
        return []
    except NotADirectoryError:
        raise CliError(f"{folder} is not a folder: give the folder that holds the runs") from None
    except OSError as error:
        raise CliError(f"{folder} cannot be read: {error.strerror}") from error


def _row(path: Path) -> Json:
    run = in_folder(path)
    try:
        return summary(run, run.source.status())
    except Unreadable as error:
        return summary(run, None, problem=str(error))


def _named(row: Json) -> str:
    """The folder's name, which holds the label; of a job its id and its label."""
    job = row["name"] == row["job_id"] and row["label"]
    return clean(f"{row['name']}  {row['label']}" if job else row["name"], 60)


def _table(rows: list[Json]) -> list[str]:
    cells = [("STATE", "NAME", "STEP", "REWARD", "EVAL", "AGE", "WHY")]
    for row in rows:
        error = row["error"] or {}
        steps = f"{number(row['step'], '{}')}/{number(row['steps'], '{}')}"
        cells.append(
            (
                clean(row["state"], 12),
                _named(row),
                steps,
                number(row["reward"]),
                number(row["eval_reward"]),
                duration(age_s(row["updated_at"] or row["created_at"])),
                clean(row["problem"] or error.get("message") or "", 160),
            )
        )
    return table(cells)
