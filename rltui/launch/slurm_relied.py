"""What of its batch script rltui relies on, and what is lost where an edited one lacks it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

MARK = "#SBATCH "


@dataclass(frozen=True)
class Missing:
    """`needed`: without it no run starts, or none that is found again."""

    text: str
    fix: str
    needed: bool = False


# Of a directive: how it begins, and what is lost. One that the config itself leaves out is not looked for.
_DIRECTIVES = (
    ("--output=", "what Slurm and the script say is not found in logs/slurm.log"),
    ("--open-mode=append", "a job that is put back overwrites what it had said"),
    ("--export=ALL", "the keys and tokens of your environment do not reach the run"),
    ("--requeue", "a preempted job is not put back into the queue"),
    ("--signal=B:TERM@", "the run gets no notice before a time limit, so that it cannot save a checkpoint"),
)
# Of a line of the script: likewise. These options are those of a later start.
_LINES = (
    ("run=", "its run= is not the folder of this run", True),
    ('trap \'[ "$pid" ] && kill -TERM', "a notice is not passed on to the run, so that it cannot save", False),
    ("    options=(", "a job that is put back begins anew and does not go on", False),
    ('exit "$code"', "how the run ended is not what the job ends with", False),
)


def missing(ours: str, edited: str) -> list[Missing]:
    """What `edited` lacks of our script, the needed first."""
    found: list[Missing] = []
    if not edited.startswith("#!"):
        found.append(Missing("its first line is no #!", "begin it with #!/bin/bash", needed=True))
    here = {line.strip() for line in edited.splitlines()}
    for begin, lost, needed in _LINES:
        line = next((line for line in ours.splitlines() if line.startswith(begin)), "")
        if line and line.strip() not in here:
            found.append(Missing(lost, f"it needs the line {line.strip()[:300]}", needed))
    first = next(line for line in ours.splitlines() if line.startswith("options=("))
    if _run_dir(first) not in [_run_dir(line) for line in here if line.startswith("options=(")]:
        found.append(Missing("no options=(…) has the folder of this run", f"it needs {first[:300]}", needed=True))
    command = next(line for line in ours.splitlines() if '"${options[@]}"' in line)
    if not any('"${options[@]}"' in line and "trainer" in line and not line.startswith("#") for line in here):
        found.append(Missing("nothing in it starts the trainer", f"it needs the line {command[:300]}", needed=True))
    given = _directives(edited)
    for begin, lost in _DIRECTIVES:
        line = next((line for line in _directives(ours) if line.startswith(begin)), "")
        if line and not any(one.startswith(begin) for one in given):
            found.append(Missing(f"without {begin} {lost}", f"it needs the line {MARK}{line[:200]}"))
    return sorted(found, key=lambda item: not item.needed)


def _run_dir(line: str) -> str | None:
    """What `--run-dir` is in a line `options=(…)`, to which others may have been added."""
    try:
        words = shlex.split(line.strip().removeprefix("options=(").removesuffix(")"))
        return words[words.index("--run-dir") + 1]
    except (ValueError, IndexError):
        return None


def _directives(text: str) -> list[str]:
    """Those that sbatch reads: it stops at the first command."""
    found: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            break
        if line.startswith(MARK):
            found.append(line.removeprefix(MARK).strip())
    return found
