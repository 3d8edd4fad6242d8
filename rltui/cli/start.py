"""From a config to a running coordinator: what `train` and `demo` share."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rltui.cli.configs import refusal, told
from rltui.cli.follow import LOOK_S, Follower, Interrupts, ending
from rltui.cli.live_chart import printer_of
from rltui.cli.output import FAILED, USAGE, CliError, Json, program, say, words
from rltui.cli.task_apps import start_problems
from rltui.launch.base import Job, Launcher, LaunchError, Started
from rltui.launch.local import LocalLauncher
from rltui.launch.runs import RunAt
from rltui.text import clean
from trainer.config import ConfigError, Loaded, load
from trainer.config.machine import ELSEWHERE
from trainer.config.sources import CHECKPOINT_PREFIXES
from trainer.rundir.layout import new_job_id, run_folder_name

ELSEWHERE_LOOK_S, ELSEWHERE_LIMIT_S = 5.0, 3600.0  # WIRE 4.5: of following a job that goes on without us
SETTLE_S = 20.0  # how long a coordinator may take to end after its last status


@dataclass(frozen=True)
class Plan:
    """A run that could start: its valid config, its folder, and what starts it."""

    loaded: Loaded | None  # None: a run of a job server that goes on; its config is there
    job: Job
    launcher: Launcher
    attempt: int = 1
    from_step: int | None = None  # of a resumed run: of the checkpoint that it goes on from

    @property
    def log_interval(self) -> int:
        return self.loaded.config.training.log_interval if self.loaded else 1

    @property
    def derived(self) -> Json:
        """E, U, m, groups, iterations, steps."""
        return self.loaded.resolved()["derived"] if self.loaded else {}

    def describe(self) -> Json:
        return {
            "config": str(self.job.config) if self.loaded else None,
            "target": self.launcher.name,
            "run_dir": str(self.job.run_dir) if self.job.run_dir else None,
            "label": self.loaded.config.policy.label if self.loaded else None,
            "command": self.launcher.shown(self.job),
            "derived": self.derived,
            "warnings": [problem.as_dict() for problem in self.loaded.warnings] if self.loaded else [],
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
    launcher: Launcher | None = None,
    key: str = "",
) -> Plan:
    """Load and check the config, and name the run's folder. CliError: what is wrong with it, all at once.

    What a machine elsewhere lacks is for that one to say. `launcher`: default: this machine. `key`: of the start.
    """
    launcher = launcher or LocalLauncher()
    try:
        loaded, sets = load_for(launcher, config, sets, allow_unknown=allow_unknown)
        if launcher.shares_disk and (problems := start_problems(loaded)):
            raise ConfigError(problems)
    except ConfigError as error:
        raise refusal(error, "nothing was started") from error
    return plan_of(loaded, config, sets, run_dir=run_dir, allow_unknown=allow_unknown, launcher=launcher, key=key)


def load_for(
    launcher: Launcher,
    config: Path,
    sets: Sequence[str],
    *,
    environ: Mapping[str, str] = os.environ,
    allow_unknown: bool = False,
) -> tuple[Loaded, list[str]]:
    """The config with what the target sets where nothing else does, and the assignments that make it so. Of GPUs only
    a target that sees our disk is judged by this machine's. Raises ConfigError."""
    machine = None if launcher.shares_disk else ELSEWHERE
    loaded = load(config, sets=sets, environ=environ, allow_unknown=allow_unknown, machine=machine)
    more = [item for item in launcher.sets if loaded.origins[item.partition("=")[0]].kind in ("default", "derived")]
    sets = [*more, *sets]
    return load(config, sets=sets, environ=environ, allow_unknown=allow_unknown) if more else loaded, sets


def plan_of(
    loaded: Loaded,
    config: Path,
    sets: Sequence[str] = (),
    *,
    run_dir: Path | None = None,
    allow_unknown: bool = False,
    launcher: Launcher | None = None,
    key: str = "",
) -> Plan:
    """Name the folder of a new run. CliError: it holds one already, or the target has folders of its own."""
    launcher = launcher or LocalLauncher()
    job_id = new_job_id()
    if not launcher.shares_disk and run_dir is not None:
        raise CliError(f"--run-dir is a folder of this machine; {launcher.name} names its runs itself")
    if launcher.shares_disk:
        name = run_folder_name(loaded.config.policy.label, job_id)
        run_dir = (run_dir or Path(loaded.config.logging.runs_dir) / name).expanduser().absolute()
        if (run_dir / "events.jsonl").exists():
            raise CliError(f"{run_dir} already holds a run; give another --run-dir")
    job = Job(config.absolute(), run_dir, job_id, tuple(sets), allow_unknown=allow_unknown, key=key)
    return Plan(loaded, job, launcher)


def tell_warnings(plan: Plan) -> None:
    if plan.loaded and plan.loaded.warnings:
        say(told(plan.loaded.warnings))


@contextmanager
def hearing(plan: Plan) -> Iterator[Interrupts]:
    """Around a start and what follows it: a Ctrl-C that is to stop the run is not lost between the two."""
    heard = Interrupts()
    if not plan.launcher.outlives:
        heard.begin()
    try:
        yield heard
    finally:
        heard.end()


def launch(plan: Plan) -> Started:
    """Start the coordinator. CliError: it could not be, and why."""
    try:
        return plan.launcher.start(plan.job)
    except LaunchError as error:
        lines = [clean(line, 1000) for text in (str(error), error.hint) for line in text.splitlines()]
        raise CliError("\n".join(lines), code=USAGE if error.refused else FAILED) from error


def run_of(plan: Plan, started: Started) -> RunAt:
    place = started.source.place
    return RunAt(place.rstrip("/").rpartition("/")[2], place, started.source, plan.job.run_dir)


def follow(plan: Plan, started: Started, args: argparse.Namespace, heard: Interrupts) -> tuple[Json, int]:
    """Print progress until the run has ended, and then how. Gives its last status and the exit code."""
    stream = words(args)
    follower = follower_of(plan, started, args, heard)
    status, code = follower.run()
    if status:
        for line in ending(status):
            say(line, stream)
    if follower.timed_out or (follower.interrupts and plan.launcher.outlives):
        say(f"{started.where} goes on; `{program()} show {started.source.place} --follow` follows it again", stream)
    return status, exit_code(status, code, started)


def follower_of(plan: Plan, started: Started, args: argparse.Namespace, heard: Interrupts) -> Follower:
    """Options of polling (WIRE 4.5) that are not given: a run of this machine is looked at often, and to its end."""
    elsewhere = plan.launcher.outlives
    look_s, limit_s = getattr(args, "poll_interval", None), getattr(args, "poll_timeout", None)
    printer = printer_of(getattr(args, "stream_format", "cli"), words(args), quiet=args.quiet)
    follower = Follower(
        started.source,
        printer,
        started=started,
        steers=not elsewhere,
        log_interval=plan.log_interval,
        told={problem.code for problem in plan.loaded.warnings} if plan.loaded else (),
        look_s=look_s or (ELSEWHERE_LOOK_S if elsewhere else LOOK_S),
        timeout_s=limit_s or (ELSEWHERE_LIMIT_S if elsewhere else None),
        heard=heard,
    )
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
