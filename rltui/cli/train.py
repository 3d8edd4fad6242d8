"""`rltui train CONFIG`: checks the config, starts the run here or at a target, and follows it.

`rltui train --resume RUN` goes on with a run that has ended, from its newest checkpoint.

The run outlives this command: a closed terminal leaves it running. Ctrl-C stops a run of this machine, cleanly; one
at a target goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

from rltui.cli.common import launcher_of
from rltui.cli.configs import amount
from rltui.cli.follow import Interrupts, ending
from rltui.cli.live_chart import FORMATS
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.cli.resuming import await_attempt, prepare_elsewhere, prepare_resume
from rltui.cli.show import next_commands, weights
from rltui.cli.start import (
    Plan,
    add_start_options,
    exit_code,
    follow,
    follower_of,
    hearing,
    key_value,
    launch,
    model_set,
    prepare,
    run_of,
    tell_warnings,
)
from rltui.cli.watch import on_a_terminal, watch
from rltui.launch.base import Launcher, Started
from rltui.launch.runs import is_address
from rltui.launch.targets import KNOWN
from rltui.sources.base import TERMINAL, Unreachable, Unreadable
from rltui.text import clean, plain
from trainer.rundir.lock import SILENT_S

DRY_RUN_ELSEWHERE = "checked: the config; what the target has and lacks is told by `rltui preflight CONFIG --target T`"
SENT = ("ENVIRONMENT_API_KEY", "RLTUI_API_KEY", "SYNTH_API_KEY", "TASK_APP_URL")  # with a job, or in it
KEYS_SENT = f"of the run's keys a job server is sent {SENT[0]} alone"
DRY_RUN = """checked: the config, and that a task app which is built in or a file is there
not checked: that the task app answers, that the model can be loaded, and that memory suffices"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help="the run's TOML file")
    parser.add_argument("--config", dest="config_option", type=Path, metavar="CONFIG", help="the same")
    parser.add_argument("--type", default="rl", help="the kind of job; there is one: rl")
    parser.add_argument("--task-url", metavar="URL", help="services.task_url: where the task app is")
    parser.add_argument("--target", metavar="T", help=f"where it runs: {', '.join(name for name, _ in KNOWN)}")
    parser.add_argument("--backend", metavar="URL", help="a job server as the target, such as http://127.0.0.1:8787")
    parser.add_argument(
        "--env", type=Path, metavar="FILE", help=f"variables for the run, NAME=value a line; {KEYS_SENT}"
    )
    parser.add_argument(
        "--idempotency", metavar="K", default="", help="of a job server: asked again with the same K, it starts one job"
    )
    parser.add_argument("--model", help="what it starts from: policy.model_name, or policy.source for ft:… and rl:…")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that has ended: its path, name or job id")
    parser.add_argument(
        "--from",
        type=int,
        metavar="STEP",
        dest="from_step",
        help="with --resume: that checkpoint, which must have optimizer state; as a rule the newest alone has it",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="with --resume: a run of another host, once it has given no sign of life for a minute",
    )
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="with --resume: where runs are (default: runs)")
    parser.add_argument("--dry-run", action="store_true", help="check the config and show what would start")
    parser.add_argument("--detach", action="store_true", help="return as soon as the run trains")
    parser.add_argument(
        "--poll", action=argparse.BooleanOptionalAction, default=True, help="follow the run until it ends"
    )
    parser.add_argument(
        "--poll-timeout",
        type=_seconds,
        metavar="S",
        help="follow at most so long; the run goes on (default: 3600 at a target, else until it ends)",
    )
    parser.add_argument(
        "--poll-interval", type=_seconds, metavar="S", help="between two looks (default: 5 at a target, else 0.25)"
    )
    parser.add_argument(
        "--stream-format", choices=FORMATS, default="cli", help="lines of text (cli), or the rewards as a chart"
    )
    parser.add_argument("--tui", action="store_true", help="follow it in the interface")
    add_start_options(parser)
    add_data_options(parser)
    add_examples(
        parser,
        "rltui train my.toml",
        "rltui train my.toml --set training.seed=3 --detach",
        "rltui train my.toml --target ssh://me@gpubox",
        "rltui train --resume demo",
    )


def run(args: argparse.Namespace) -> int:
    if args.tui and not on_a_terminal():
        raise CliError("--tui needs a terminal; without it the run is followed by lines of text")
    kept = [] if args.env is None else _take_variables(args.env)
    plan = _plan(args)
    tell_warnings(plan)
    if kept and not plan.launcher.shares_disk:
        say(f"{clean(', '.join(kept), 300)} of {args.env} stay here: set them where the server runs; {KEYS_SENT}")
    if args.dry_run:
        return _dry_run(plan, args)
    with hearing(plan) as heard:
        return _start(plan, args, heard)


def _start(plan: Plan, args: argparse.Namespace, heard: Interrupts) -> int:
    stream = words(args)
    started = launch(plan)
    say(f"run {started.source.place}", stream)
    if plan.job.take_over:
        say(f"watching the run of the other host for {SILENT_S:.0f} s", stream)
    detach = args.detach or not args.poll
    if plan.job.resume and plan.loaded is not None and not (detach and plan.launcher.outlives):
        if plan.launcher.outlives:
            say(f"{started.where}: waiting for attempt {plan.attempt}; Ctrl-C leaves it there", stream)
        await_attempt(plan, started, heard)
        say(f"attempt {plan.attempt} goes on from step {plan.from_step}", stream)
    if detach:
        return _detach(plan, started, args, heard)
    status, code = (watch if args.tui else follow)(plan, started, args, heard)
    if not args.quiet and status.get("state") in TERMINAL:
        chosen = run_of(plan, started)
        with contextlib.suppress(Unreachable):  # its end was told
            next_ = next_commands(chosen, status)
            here = weights(chosen.source) if chosen.folder is not None else []  # else it is a path of another machine
            for line in [*here, *(["next"] if next_ else []), *(f"  {item}" for item in next_)]:
                say(line, stream)
    emit(_result(plan, started, status), as_json=args.json, out=args.out)
    return code


def _plan(args: argparse.Namespace) -> Plan:
    if args.type != "rl":
        raise CliError(f"--type {args.type!a} is not trained here; the one kind is rl")
    launcher = _launcher(args)
    if args.idempotency and launcher.shares_disk:
        raise CliError("--idempotency is for a job server; --backend URL or --target URL names one")
    sets = list(args.sets)
    if args.task_url:
        sets.append(key_value("services.task_url", args.task_url))
    if args.model:
        sets.append(model_set(args.model))
    config = _config(args)
    if args.resume is not None and is_address(args.resume):
        if args.target or args.backend:
            raise CliError("--resume of an address goes on where the job is; leave --target and --backend out")
        return prepare_elsewhere(args, sets)
    if args.resume is not None and not launcher.shares_disk:
        raise CliError(f"{launcher.name} goes on with jobs of its own: --resume {launcher.name}/…/ID, without --target")
    if args.resume is not None:
        return prepare_resume(args, sets, launcher)
    if args.from_step is not None or args.runs_dir is not None or args.take_over:
        raise CliError("--from, --take-over and --runs-dir belong to --resume RUN")
    if config is None:
        raise CliError("no config: rltui train CONFIG (sample_configs/ has some; `rltui demo` needs none)")
    return prepare(
        config,
        sets,
        run_dir=args.run_dir,
        allow_unknown=args.allow_unknown,
        launcher=launcher,
        key=args.idempotency,
    )


def _launcher(args: argparse.Namespace) -> Launcher:
    if args.target and args.backend:
        raise CliError("--backend is a job server as the target; give it or --target")
    if not args.backend:
        return launcher_of(args.target or "local")
    from rltui.backend import backend_url

    try:
        return launcher_of(backend_url(args.backend))
    except ValueError as error:
        raise CliError(clean(error, 600)) from error


def _take_variables(path: Path) -> list[str]:
    """Into our own environment, which a run of this machine gets; what is set there already wins. Gives the names of
    those that a job server does not get."""
    from trainer.config import ConfigError, Place
    from trainer.config.env_file import read_env_file
    from trainer.config.sources import ENV_PREFIX, Given

    place = Place("--env")
    try:
        found = read_env_file(Given("env", str(path), "set", place, place), Path.cwd())
    except ConfigError as error:
        why = error.problems[0].why.partition("; the path is relative")[0]
        raise CliError(f"--env: {clean(why, 600)}; give a file of NAME=value lines") from error
    for name, value in found.items():
        os.environ.setdefault(name, value)
    return sorted(name for name in found if name not in SENT and not name.startswith(ENV_PREFIX))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!a} is no number of seconds above 0")
    return value


def _config(args: argparse.Namespace) -> Path | None:
    if args.config and args.config_option and args.config != args.config_option:
        raise CliError(f"two configs: {args.config} and --config {args.config_option}; give one")
    config: Path | None = args.config or args.config_option
    return config


def _dry_run(plan: Plan, args: argparse.Namespace) -> int:
    description = plan.describe()
    if not args.json:
        if plan.derived:
            say(amount(plan.derived), words(args))
        where = plan.job.run_dir or f"a job of {plan.launcher.name}"
        doing = f"go on from step {plan.from_step or '(the newest)'} in" if plan.job.resume else "make"
        say(f"would {doing} {where}", words(args))
        say(plain(f"would run  {description['command']}"), words(args))
        say(DRY_RUN if plan.launcher.shares_disk else DRY_RUN_ELSEWHERE, words(args))
    emit({"dry_run": True, **description}, as_json=args.json, out=args.out)
    return OK


def _detach(plan: Plan, started: Started, args: argparse.Namespace, heard: Interrupts) -> int:
    """Of a run of this machine, once it trains: until then it can fail. A job elsewhere may have to wait its turn."""
    status: Json = {}
    code = OK
    if not plan.launcher.outlives:
        follower = follower_of(plan, started, args, heard)
        status, code = follower.run(until=lambda now: now.get("state") not in (None, "queued", "starting"))
    else:
        status = {"state": "queued"}
        if not plan.job.resume:  # else it may still tell of the attempt before
            with contextlib.suppress(Unreadable):
                status = started.source.status() or status
        code = FAILED if status.get("state") in ("failed", "cancelled") else OK
    if status.get("state") in TERMINAL:
        for line in ending(status):
            say(line, words(args))
    else:
        state = f"{status['state']}: " if status.get("state") else ""
        say(f"{state}{started.where}; it goes on without this terminal\nnext", words(args))
        for command in next_commands(run_of(plan, started), status):
            say(f"  {command}", words(args))
    emit({"pid": started.pid, **_result(plan, started, status)}, as_json=args.json, out=args.out)
    return exit_code(status, code, started)


def _result(plan: Plan, started: Started, status: Json) -> Json:
    names = ("state", "end_reason", "step", "iteration", "error", "results")
    run = run_of(plan, started)
    return {
        "run": run.place,
        "run_dir": str(run.folder) if run.folder else None,
        "job_id": status.get("job_id") or (plan.job.job_id if run.folder else run.name),
        **{name: status.get(name) for name in names},
    }
