"""The batch script of a run: what `sbatch` is given (its pages: sbatch(1), srun(1), scancel(1)). Pure.

The coordinator is a process of the script itself, so that the TERM which Slurm sends to the script alone, before a
time limit, can be passed on to it. One that Slurm sends to the steps of a job, as `scancel --signal` and preemptions
with a grace time do, reaches it through a step that does nothing else. Either way it writes a checkpoint and ends
`preempted`; the script then puts the job back into the queue, and its next start goes on from the checkpoint.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import rltui
from rltui.launch.base import Job, LaunchError
from rltui.launch.local import trainer_argv
from rltui.sources.early import LOG, PROTOCOL

SCRIPT, OUTPUT = "slurm.sbatch", "logs/slurm.log"
NOTICE_S = 120
NO_FOLDER = 73  # the script's exit code: the node does not see the run's folder
SETUP = "setup"  # the launcher option that is no option of sbatch: lines of shell before the start
GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gres")  # given, they say all about GPUs
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Request:
    """What the config asks of the batch system. `options`: of sbatch, by their long names."""

    nodes: int = 1
    gpus: int = 0  # of all nodes together
    gpu_type: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)


def script(job: Job, request: Request, *, attempt: int = 1, folder: Path | None = None) -> str:
    """The text of the script. LaunchError: an option that cannot be written.

    Args:
        attempt: the number that the run's next attempt has.
        folder: what relative paths are relative to; default: where we are.
    """
    run = shlex.quote(str(job.folder))
    again = [shlex.quote(str(job.config)) if job.resume else '"$run/config.toml"']
    again += ['--run-dir "$run" --resume --or-anew --take-over']
    trainer, first = _split(trainer_argv(job))
    return _TEXT.format(
        options="\n".join(f"#SBATCH {line}" for line in _lines(job, request)),
        run=run,
        folder=shlex.quote(str(folder or Path.cwd())),
        home=shlex.quote(str(Path(rltui.__file__).resolve().parent.parent)),
        setup="".join(f"{line}\n" for line in str(request.options.get(SETUP, "")).splitlines()),
        trainer=shlex.join(trainer),
        first=shlex.join(first),
        again=" ".join(again),
        attempt=attempt,
        protocol=PROTOCOL,
        log=LOG,
        script=SCRIPT,
        no_folder=NO_FOLDER,
    )


def _lines(job: Job, request: Request) -> list[str]:
    """The options, ours first; one that is given takes the place of ours."""
    given = {name.replace("_", "-"): value for name, value in request.options.items() if name != SETUP}
    ours: dict[str, str | int | float | bool] = {
        "job-name": job.folder.name,
        "nodes": request.nodes,
        "ntasks-per-node": 1,
        "output": str(job.folder / OUTPUT).replace("%", "%%"),
        "open-mode": "append",
        "export": "ALL",
        "requeue": True,
        "signal": f"B:TERM@{NOTICE_S}",
    }
    if request.gpus and not any(name in given for name in GPUS):
        count = -(-request.gpus // request.nodes)
        ours["gpus-per-node"] = f"{request.gpu_type.lower()}:{count}" if request.gpu_type else count
    return [_line(name, value) for name, value in (ours | given).items() if value is not False]


def _line(name: str, value: str | int | float | bool) -> str:
    if not _NAME.fullmatch(name):
        raise LaunchError(
            f"compute.launcher_options: {name!a} is no option of sbatch",
            "options have their long names, as partition, account, time, qos",
            refused=True,
        )
    if value is True:
        return f"--{name}"
    if any(not char.isprintable() for char in str(value)):
        raise LaunchError(f"compute.launcher_options.{name} has to be one line of text", refused=True)
    return f"--{name}={shlex.quote(str(value))}"


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """(the program, the rest) of the coordinator's command."""
    end = argv.index("run") + 1
    return argv[:end], argv[end:]


_TEXT = """#!/bin/bash
{options}

# Keys and tokens come with the environment of whoever submits this (--export=ALL). None is written here.
umask 077
set -m  # what is started has a process group of its own, and hears an interrupt
run={run}
if ! [ -r "$run/{script}" ]; then
    echo "$(hostname) does not see $run: it has to be on a file system that all nodes share" >&2
    exit {no_folder}
fi
cd {folder} || exit {no_folder}
export PYTHONPATH={home}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONSAFEPATH=1
{setup}
# The first start of this job begins attempt {attempt} of the run. Every later one goes on with the run.
options=({first})
begun=$(grep -v '"state":"queued"' "$run/status.json" 2>/dev/null | grep -o '"attempt":[0-9]*' | head -n 1)
if [ "${{begun#*:}}" ] && [ "${{begun#*:}}" -ge {attempt} ]; then
    options=({again})
fi
echo "$(date +%FT%T%z) Slurm job $SLURM_JOB_ID, restart ${{SLURM_RESTART_COUNT:-0}}, on $(hostname)"

pid=
trap '[ "$pid" ] && kill -TERM "$pid"' TERM
trap '[ "$pid" ] && kill -INT "$pid"' INT
{trainer} "${{options[@]}}" </dev/null >>"$run/{protocol}" 2>>"$run/{log}" &
pid=$!
# A TERM for the steps of this job is passed on by one that waits for the end of the run alone.
srun --quiet --overlap --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" bash -c \\
    'trap "kill -TERM $0" TERM; tail --pid="$0" -f /dev/null & wait' "$pid" &

while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done  # a signal ends the wait, not the run
wait "$pid"
code=$?

# 130: the run has ended by a stop. 143: the notice came before it could hear one.
if [ "$code" = 143 ] || {{ [ "$code" = 130 ] && grep -q '"end_reason":"preempted"' "$run/status.json"; }}; then
    state=$(squeue --noheader --job "$SLURM_JOB_ID" --format=%T)
    [ "$state" = RUNNING ] && scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""
