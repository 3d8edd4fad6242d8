"""Asking Slurm's commands: sbatch, squeue, scontrol, sacct, scancel, sinfo."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping

from rltui.launch.base import LaunchError
from rltui.launch.slurm_states import SACCT_FORMAT, SQUEUE_FORMAT, JobState, of_sacct, of_scontrol, of_squeue
from rltui.text import clean

ANSWER_S = 15.0
FORGOTTEN = JobState("FORGOTTEN")  # by a controller that keeps no accounts
ENVIRONMENT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS")  # the rest of SLURM_* is of a job that we are in
_FAILURE = re.compile(r"error|failure|unrecognized|invalid", re.IGNORECASE)
NO_ANSWER = "start the run where sbatch works, or choose another target"
HINT = "options of sbatch are in compute.launcher_options; compute.nodes and compute.gpu_count ask for machines"

Answer = tuple[int, str, str]


def submitted(environ: Mapping[str, str]) -> dict[str, str]:
    """What the job gets: all but what is of a batch job that we are in ourselves."""
    return {key: value for key, value in environ.items() if not key.startswith("SLURM_") or key in ENVIRONMENT}


def command(*argv: str, environ: Mapping[str, str] | None = None, given: str = "") -> Answer:
    """(exit code, stdout, stderr); a command that is not there, or gives no answer, has ended with 127."""
    try:
        done = subprocess.run(
            argv, input=given, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, env=environ
        )
        return done.returncode, done.stdout, done.stderr
    except FileNotFoundError:
        return 127, "", f"{argv[0]} is not installed on this machine"
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", f"{argv[0]}: {error}"


def said(error: str) -> str:
    """The first line that tells of a failure, else the last one, without the name of the program in front."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    text = next((line for line in lines if _FAILURE.search(line)), lines[-1] if lines else "it said nothing")
    return clean(re.sub(r"^(\w+: )?((error|allocation failure): )?", "", text), 300)


def sbatch(option: str, script: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(stdout, what it says) of `sbatch OPTION` with that script on its stdin. Raises LaunchError."""
    code, out, error = command("sbatch", option, environ=submitted(environ), given=script)
    if code and (why := no_answer()):
        raise LaunchError(why, NO_ANSWER)
    if code:
        raise LaunchError(f"Slurm does not take the job: {said(error)}", HINT, refused=True)
    return out, said(error)


def no_answer() -> str:
    """Why no job can be refused or taken: in words, that its controller cannot be reached; "" where it can."""
    code, _, error = command("sinfo", "--noheader")
    return f"Slurm gives no answer: {said(error)}" if code else ""


def job_state(number: str, ask: Callable[..., Answer] = command) -> JobState | None:
    """From the controller, or from the accounts of a job that it has forgotten. None: there is no answer."""
    code, out, error = ask("squeue", "--noheader", "--states=all", f"--jobs={number}", f"--format={SQUEUE_FORMAT}")
    if code and "Invalid job id" not in error:
        return None
    found = of_squeue(out) if not code else None
    if found is not None and not found.over:
        return found
    if found is not None:
        code, out, _ = ask("scontrol", "show", "job", number, "--oneliner")
        return (of_scontrol(out) if not code else None) or found
    words = ("--parsable2", "--noheader", "--allocations", f"--format={SACCT_FORMAT}")
    code, out, _ = ask("sacct", f"--jobs={number}", *words)
    return (of_sacct(out.splitlines()[-1]) if not code and out.strip() else None) or FORGOTTEN
