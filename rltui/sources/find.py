"""Which run is meant: a path, a folder's name, or a job id, each also by a unique beginning."""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path

RUNS_DIR_VARIABLE = "RLTUI__LOGGING__RUNS_DIR"  # the config's logging.runs_dir, as the environment spells it
_SIGNS = ("status.json", "events.jsonl", "resolved.json")
_NAMED_AS_RUN = re.compile(r".*-rl_[0-9a-f]{16}")  # one that was just made has none of these files yet


class NoSuchRun(LookupError):
    """Says what was looked for, where, and what is there."""


class NoAnswer(NoSuchRun):
    """Where it should be nobody answers now."""


def default_runs_dir() -> Path:
    return Path(os.environ.get(RUNS_DIR_VARIABLE) or "runs")


def is_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return any((folder / sign).exists() for sign in _SIGNS) or bool(_NAMED_AS_RUN.fullmatch(folder.name))


def runs_in(folder: Path) -> list[Path]:
    """Every run directly in `folder`, by name. OSError: it cannot be listed."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and is_run(path))


def job_id_of(folder: Path) -> str:
    """The job id: in the folder's name `<label>-<job id>`, else (a folder of --run-dir) in its status."""
    _, found, tail = folder.name.rpartition("-rl_")
    if found:
        return f"rl_{tail}"
    from trainer.rundir.layout import RunPaths

    try:
        return str(json.loads(RunPaths(folder).read("status.json"))["job_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def find_run(run: str, runs_dir: Path) -> Path:
    """The folder of the run that `run` names. NoSuchRun: there is none, or there are several."""
    here = Path(run).expanduser()
    if is_run(here):
        return here.resolve()
    if os.sep in run or run in ("", ".", ".."):
        raise NoSuchRun(f"{run} is not a run directory: none of {', '.join(_SIGNS)} is in it")
    try:
        known = runs_in(runs_dir)
    except OSError as error:
        raise NoSuchRun(
            f"no run {run!r}: {runs_dir} cannot be read ({error.strerror}). "
            f"Give the run's path, or --runs-dir, or set {RUNS_DIR_VARIABLE}."
        ) from error
    matches = [path for path in known if run in (path.name, job_id_of(path))]
    if not matches:
        matches = [path for path in known if path.name.startswith(run) or job_id_of(path).startswith(run)]
    if len(matches) == 1:
        return matches[0].resolve()
    if matches:
        names = ", ".join(path.name for path in matches[:5]) + (", …" if len(matches) > 5 else "")
        raise NoSuchRun(f"{run!r} fits {len(matches)} runs in {runs_dir}: {names}. Give more of the name.")
    labels = {path.name.rpartition("-rl_")[0] or path.name: path for path in known}
    near = difflib.get_close_matches(run, [*labels, *(path.name for path in known)], n=1)
    hint = f"did you mean {near[0]}?" if near else "`rltui runs` lists them."
    raise NoSuchRun(f"no run {run!r} among the {len(known)} in {runs_dir}; {hint}")
