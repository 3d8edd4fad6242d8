"""`rltui train CONFIG`: checks the config, starts the run in its own session, and follows it.

`rltui train --resume RUN` goes on with a run that has ended, from its newest checkpoint.

The run outlives this command: a closed terminal leaves it running. Ctrl-C stops it, cleanly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rltui.cli.configs import amount
from rltui.cli.follow import ending
from rltui.cli.output import OK, CliError, Json, add_data_options, emit, say, words
from rltui.cli.progress import Printer
from rltui.cli.resuming import await_attempt, prepare_resume
from rltui.cli.show import next_commands, weights
from rltui.cli.start import (
    Plan,
    add_start_options,
    exit_code,
    follow,
    follower_of,
    key_value,
    launch,
    model_set,
    prepare,
    tell_warnings,
)
from rltui.cli.watch import on_a_terminal, watch
from rltui.launch.base import Started
from rltui.sources.base import TERMINAL
from rltui.sources.local import LocalRunSource
from trainer.rundir.lock import SILENT_S

DRY_RUN = """checked: the config, and that a task app which is built in or a file is there
not checked: that the task app answers, that the model can be loaded, and that memory suffices"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help="the run's TOML file")
    parser.add_argument("--config", dest="config_option", type=Path, metavar="CONFIG", help="the same")
    parser.add_argument("--type", default="rl", help="the kind of job; there is one: rl")
    parser.add_argument("--task-url", metavar="URL", help="services.task_url: where the task app is")
    parser.add_argument("--model", help="policy.model_name; policy.source for ft:… and rl:…")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that has ended: its path, name or job id")
    parser.add_argument(
        "--from", type=int, metavar="STEP", dest="from_step", help="with --resume: that checkpoint, not the newest"
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
    parser.add_argument("--tui", action="store_true", help="follow it in the interface")
    add_start_options(parser)
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.tui and not on_a_terminal():
        raise CliError("--tui needs a terminal; without it the run is followed by lines of text")
    plan = _plan(args)
    tell_warnings(plan)
    if args.dry_run:
        return _dry_run(plan, args)
    stream = words(args)
    source, started = launch(plan)
    say(f"run {plan.job.run_dir}", stream)
    if plan.job.take_over:
        say(f"watching the run of the other host for {SILENT_S:.0f} s", stream)
    if plan.job.resume:
        await_attempt(plan, source, started)
        say(f"attempt {plan.attempt} goes on from step {plan.from_step}", stream)
    if args.detach or not args.poll:
        return _detach(plan, source, started, args)
    status, code = (watch if args.tui else follow)(plan, source, started, args)
    if not args.quiet:
        for line in [*weights(source), "next", *(f"  {item}" for item in next_commands(plan.job.run_dir, status))]:
            say(line, stream)
    emit(_result(plan, status), as_json=args.json, out=args.out)
    return code


def _plan(args: argparse.Namespace) -> Plan:
    if args.type != "rl":
        raise CliError(f"--type {args.type!a} is not trained here; the one kind is rl")
    sets = list(args.sets)
    if args.task_url:
        sets.append(key_value("services.task_url", args.task_url))
    if args.model:
        sets.append(model_set(args.model))
    config = _config(args)
    if args.resume is not None:
        return prepare_resume(args, sets)
    if args.from_step is not None or args.runs_dir is not None or args.take_over:
        raise CliError("--from, --take-over and --runs-dir belong to --resume RUN")
    if config is None:
        raise CliError("no config: rltui train CONFIG (sample_configs/ has some; `rltui demo` needs none)")
    return prepare(config, sets, run_dir=args.run_dir, allow_unknown=args.allow_unknown)


def _config(args: argparse.Namespace) -> Path | None:
    if args.config and args.config_option and args.config != args.config_option:
        raise CliError(f"two configs: {args.config} and --config {args.config_option}; give one")
    return args.config or args.config_option


def _dry_run(plan: Plan, args: argparse.Namespace) -> int:
    import shlex

    description = plan.describe()
    if not args.json:
        say(amount(plan.derived), words(args))
        doing = f"go on from step {plan.from_step} in" if plan.job.resume else "make"
        say(f"would {doing} {plan.job.run_dir}", words(args))
        say(f"would run  {shlex.join(description['command'])}", words(args))
        say(DRY_RUN, words(args))
    emit({"dry_run": True, **description}, as_json=args.json, out=args.out)
    return OK


def _detach(plan: Plan, source: LocalRunSource, started: Started, args: argparse.Namespace) -> int:
    printer = Printer(words(args), quiet=args.quiet)
    follower = follower_of(plan, source, started, printer)
    status, code = follower.run(until=lambda now: now.get("state") not in (None, "queued", "starting"))
    if status.get("state") in TERMINAL:
        for line in ending(status):
            say(line, words(args))
    else:
        say(f"{status.get('state')}: pid {started.pid}; it goes on without this terminal\nnext", words(args))
        for command in next_commands(plan.job.run_dir, status):
            say(f"  {command}", words(args))
    emit({"pid": started.pid, **_result(plan, status)}, as_json=args.json, out=args.out)
    return exit_code(status, code, started)


def _result(plan: Plan, status: Json) -> Json:
    names = ("job_id", "state", "end_reason", "step", "iteration", "error", "results")
    return {"run_dir": str(plan.job.run_dir), **{name: status.get(name) for name in names}}
