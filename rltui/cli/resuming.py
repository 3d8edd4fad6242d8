"""`rltui train --resume RUN`: what can be known before the run is started again, and what is started."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import msgspec

from rltui.cli.configs import refusal
from rltui.cli.follow import Interrupts
from rltui.cli.output import FAILED, CliError, Json
from rltui.cli.start import SETTLE_S, Plan
from rltui.launch.base import Job, Launcher, Started
from rltui.launch.runs import split
from rltui.sources.base import TERMINAL, RunSource, Unreadable
from rltui.sources.find import NoSuchRun, default_runs_dir, find_run
from rltui.sources.local import LocalRunSource
from rltui.text import clean
from trainer.config import ConfigError, Loaded, load, load_text
from trainer.config.differ import forbidden, resume_keys
from trainer.config.toml_values import format_value
from trainer.rundir.attempts import Earlier, NoEarlierAttempt, leaves, read_earlier
from trainer.rundir.layout import RunPaths
from trainer.rundir.process import ProcessId
from trainer.rundir.resumable import NotResumable, choose

LOOK_S = 0.1


def prepare_resume(args: argparse.Namespace, sets: list[str], launcher: Launcher) -> Plan:
    """CliError: no such run, it runs, nothing to go on from, or a config that makes it another run."""
    folder = _folder(args)
    take_over = _check_ended(folder, take_over=args.take_over)
    try:
        earlier = read_earlier(folder)
        checkpoint = choose(earlier.paths.checkpoints, earlier.resumes, args.from_step, verify=False)
    except NoEarlierAttempt as error:
        raise CliError(f"{clean(error, 600)}; start it with its config, without --resume") from error
    except NotResumable as error:
        raise CliError(f"{clean(error, 600)}\n{clean(error.hint, 600)}") from error
    config = args.config or args.config_option
    try:
        loaded = _loaded(earlier, config, sets, args.allow_unknown)
        if problems := loaded.launch_problems():
            raise ConfigError(problems)
    except ConfigError as error:
        raise refusal(error, "nothing was started") from error
    values = leaves(json.loads(json.dumps(loaded.resolved()["values"])))  # as they are read back from the run
    if found := forbidden(earlier.values, values, given_only=True):
        lines = [clean(item, 300) for item in found]
        raise CliError(
            "\n".join([f"it would be another run than {folder.name}:", *lines])
            + f"\nThese may differ on --resume: {', '.join(resume_keys())}"
        )
    job = Job(
        config.absolute() if config else earlier.paths.config,
        folder,
        earlier.job_id,
        tuple(sets),
        allow_unknown=args.allow_unknown or earlier.allow_unknown,
        resume=True,
        from_step=args.from_step,
        take_over=take_over,
    )
    return Plan(loaded, job, launcher, attempt=earlier.attempt + 1, from_step=checkpoint.step)


def prepare_elsewhere(args: argparse.Namespace, sets: list[str]) -> Plan:
    """Of a run that RUN is the address of: its server knows the rest. CliError: it is no address of a job."""
    from rltui.launch.targets import NoSuchTarget, target

    if args.config or args.config_option or args.run_dir or args.take_over:
        raise CliError("a job of a server goes on with the config and the folder that it has; --set changes live keys")
    try:
        server, job_id = split(args.resume)
        launcher = target(server)
    except (NoSuchRun, NoSuchTarget) as error:
        raise CliError(clean(error, 600)) from error
    job = Job(Path(), None, job_id, tuple(sets), resume=True, from_step=args.from_step)
    return Plan(None, job, launcher, from_step=args.from_step)


def await_attempt(plan: Plan, started: Started, heard: Interrupts) -> None:
    """Until the status is of the new attempt: that of the ended one still lies there. CliError: it did not begin.

    A Ctrl-C ends one that is too young to be followed. KeyboardInterrupt: it did, before it began.
    """
    source, answered = started.source, 0
    while not _begun(source, plan.attempt):
        if heard.count > answered:
            answered = heard.count
            end = started.stop if answered == 1 else started.kill
            end()
        if started.exit_code() is not None and not _begun(source, plan.attempt):
            if heard.count:
                raise KeyboardInterrupt
            message, hint = started.last_words()
            raise CliError(
                f"{clean(message, 600)}\n{clean(hint or '', 600)}".rstrip(), code=started.exit_code() or FAILED
            )
        heard.wait(LOOK_S)


def _begun(source: RunSource, attempt: int) -> bool:
    try:
        status: Json | None = source.status()
    except Unreadable:
        return False
    return status is not None and (status.get("attempt") or 0) >= attempt


def _folder(args: argparse.Namespace) -> Path:
    if args.run_dir is not None:
        raise CliError("--run-dir is for a new run; --resume RUN names the folder that goes on")
    try:
        return find_run(args.resume, args.runs_dir or default_runs_dir())
    except NoSuchRun as error:
        raise CliError(clean(error, 1000)) from error


def _check_ended(folder: Path, *, take_over: bool) -> bool:
    """Whether the run of another host is to be taken over; its coordinator looks whether that one is silent."""
    try:
        status = LocalRunSource(folder).status()
    except Unreadable as error:
        raise CliError(f"{folder}: {error}", code=FAILED) from error
    if status is None:
        return take_over
    if status.get("state") in TERMINAL:
        _let_go(folder, status)
        return take_over
    alive = _is_alive(status)
    if alive is False:
        return False
    if alive is None and take_over:
        return True
    where = f"pid {status.get('pid')} on {clean(status.get('host'), 100)}"
    else_ = " If that host is gone, add --take-over." if alive is None else ""
    raise CliError(
        f"{folder.name} is not over: it is {clean(status.get('state'), 20)} ({where}). Stop it first.{else_}"
    )


def _let_go(folder: Path, status: Json) -> None:
    """A run tells its end a moment before its coordinator gives its folder up, and the next one would be refused."""
    deadline = time.monotonic() + SETTLE_S
    while RunPaths(folder).lock.exists() and _is_alive(status) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _is_alive(status: Json) -> bool | None:
    """Its process, by the list of processes; viewers would wait for some beats. None: that is on another host."""
    try:
        identity = msgspec.convert(status, ProcessId)
    except msgspec.ValidationError:
        return None
    return identity.alive()


def _loaded(earlier: Earlier, config: Path | None, sets: list[str], allow_unknown: bool) -> Loaded:
    """As the coordinator will load it, but for what was set while the run was going: the checkpoint has that."""
    given = [*(f"{key}={format_value(value)}" for key, value in earlier.sets.items()), *sets]
    unknown = allow_unknown or earlier.allow_unknown
    if config is not None:
        return load(config, sets=given, environ=os.environ, allow_unknown=unknown)
    return load_text(earlier.config_text, earlier.config_name, sets=given, environ=os.environ, allow_unknown=unknown)
