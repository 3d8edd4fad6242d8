"""From a config to a running coordinator: what `train` and `demo` share."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rltui.cli.configs import refusal, told
from rltui.cli.follow import Follower, ending
from rltui.cli.output import FAILED, USAGE, CliError, Json, say, words
from rltui.cli.progress import Printer
from rltui.cli.task_apps import start_problems
from rltui.launch.base import Job, Launcher, Started
from rltui.launch.local import LocalLauncher
from rltui.sources.local import LocalRunSource
from trainer.config import ConfigError, Loaded, load
from trainer.rundir.layout import new_job_id, run_folder_name

SETTLE_S = 5.0  # how long a coordinator may take to end after its last status
CHECKPOINT_PREFIXES = ("ft:", "fft:", "qft:", "rl:")


@dataclass(frozen=True)
class Plan:
    """A run that could start: its valid config, its folder, and what starts it."""

    loaded: Loaded
    job: Job
    launcher: Launcher
    attempt: int = 1
    from_step: int | None = None  # of a resumed run: of the checkpoint that it goes on from

    @property
    def log_interval(self) -> int:
        return self.loaded.config.training.log_interval

    @property
    def derived(self) -> Json:
        """E, U, m, groups, iterations, steps."""
        return self.loaded.resolved()["derived"]

    def describe(self) -> Json:
        return {
            "config": str(self.job.config),
            "run_dir": str(self.job.run_dir),
            "label": self.loaded.config.policy.label,
            "command": self.launcher.command(self.job),
            "derived": self.derived,
            "warnings": [problem.as_dict() for problem in self.loaded.warnings],
        }


def add_start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="KEY=VALUE",
        help="change a key",
    )
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="folder of the run (default: runs/LABEL-ID)")
    parser.add_argument("--quiet", action="store_true", help="no progress, only how it ended")


def prepare(
    config: Path,
    sets: list[str],
    *,
    run_dir: Path | None = None,
    allow_unknown: bool = False,
) -> Plan:
    """Load and check the config, and name the run's folder. CliError: what is wrong with it, all at once."""
    try:
        loaded = load(config, sets=sets, environ=os.environ, allow_unknown=allow_unknown)
        if problems := start_problems(loaded):
            raise ConfigError(problems)
    except ConfigError as error:
        raise refusal(error, "nothing was started") from error
    return plan_of(loaded, config, sets, run_dir=run_dir, allow_unknown=allow_unknown)


def plan_of(
    loaded: Loaded,
    config: Path,
    sets: Sequence[str] = (),
    *,
    run_dir: Path | None = None,
    allow_unknown: bool = False,
) -> Plan:
    """Name the folder of a new run. CliError: it holds one already."""
    job_id = new_job_id()
    if run_dir is None:
        name = run_folder_name(loaded.config.policy.label, job_id)
        run_dir = Path(loaded.config.logging.runs_dir).expanduser() / name
    run_dir = run_dir.expanduser().absolute()
    if (run_dir / "events.jsonl").exists():
        raise CliError(f"{run_dir} already holds a run; give another --run-dir")
    job = Job(config.absolute(), run_dir, job_id, tuple(sets), allow_unknown=allow_unknown)
    return Plan(loaded, job, LocalLauncher())


def tell_warnings(plan: Plan) -> None:
    if plan.loaded.warnings:
        say(told(plan.loaded.warnings))


def launch(plan: Plan) -> tuple[LocalRunSource, Started]:
    """Start the coordinator. CliError: its folder cannot be made, or it cannot be started."""
    try:
        started = plan.launcher.start(plan.job)
    except OSError as error:
        raise CliError(
            f"cannot start the run in {plan.job.run_dir}: {error.strerror or error}; give another --run-dir"
        ) from error
    return LocalRunSource(plan.job.run_dir), started


def follow(plan: Plan, source: LocalRunSource, started: Started, args: argparse.Namespace) -> tuple[Json, int]:
    """Print progress until the run has ended, and then how. Gives its last status and the exit code."""
    stream = words(args)
    printer = Printer(stream, quiet=args.quiet)
    follower = follower_of(plan, source, started, printer)
    status, code = follower.run()
    for line in ending(status):
        say(line, stream)
    return status, exit_code(status, code, started)


def follower_of(plan: Plan, source: LocalRunSource, started: Started, printer: Printer) -> Follower:
    told = {problem.code for problem in plan.loaded.warnings}
    follower = Follower(source, printer, started=started, steers=True, log_interval=plan.log_interval, told=told)
    if plan.job.resume:
        follower.skip_history()
    return follower


def exit_code(status: Json, code: int, started: Started) -> int:
    """What the coordinator ended with tells a config or environment problem (2) from a failed run (3).

    Its status stands a moment before it has ended, so it is given that moment.
    """
    if code != FAILED or status.get("state") != "failed":
        return code
    deadline = time.monotonic() + SETTLE_S
    while started.exit_code() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return USAGE if started.exit_code() == USAGE else code


def key_value(key: str, value: str) -> str:
    """`key=value` for --set, with the value as a TOML string."""
    return f"{key}={json.dumps(value)}"


def model_set(model: str) -> str:
    return key_value("policy.source" if model.startswith(CHECKPOINT_PREFIXES) else "policy.model_name", model)
