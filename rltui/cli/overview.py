"""`rltui overview RUN`: what the first tab of the interface shows, once as text or as data, or as it changes."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from rltui.cli.common import LOOK_S, add_run_argument, chosen_run, summary
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.doctor import mutes
from rltui.doctor.checkup import Checkup
from rltui.launch.runs import RunAt
from rltui.model.overview_view import document
from rltui.model.run import RunModel
from rltui.sources.base import Unreadable
from rltui.state import Memory, state_file

if TYPE_CHECKING:
    from rltui.look import Look


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="print it once as text, which is what happens anyway")
    how.add_argument("--follow", action="store_true", help="print an object a line at each change, until it ends")
    parser.add_argument("--at", type=int, metavar="STEP", help="as it was when this step was done")
    add_data_options(parser)
    add_examples(
        parser,
        "watch -n 5 rltui overview RUN",
        "rltui overview RUN --json",
        "rltui overview RUN --at 40",
        "rltui overview RUN --follow | jq .charts[0]",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    model = RunModel(chosen.source) if args.at is None else _past(chosen, args.at)
    checkup = Checkup()
    checkup.mute(mutes.muted(Memory(state_file(), readonly=True), _key(chosen, model)))
    _read(model, checkup)
    if args.follow:
        return _follow(chosen, model, checkup)
    if model.error and model.status is None:
        raise CliError(f"{chosen}: {model.error}", code=FAILED, details={"run": summary(chosen, None)})
    emit(_document(chosen, model, checkup), as_json=args.json, out=args.out)
    if not args.json:
        from rltui.model.overview_text import text

        columns = shutil.get_terminal_size((100, 24)).columns
        for line in text(model, checkup.findings, look_here(), columns, model.now()):
            say(line, sys.stdout)
    return OK


def _past(chosen: RunAt, step: int) -> RunModel:
    """The run as it was. CliError: it has no such step."""
    from rltui.model.past import PastModel
    from rltui.sources.past import PastSource

    source = PastSource(chosen.source)
    try:
        source.tape.extend()
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    steps = source.tape.steps
    if step not in steps:
        there = f"it has done {steps[0]} to {steps[-1]}" if steps else "it has done none yet"
        raise CliError(f"{chosen.name} has no step {step}: {there}")
    return PastModel(source, lambda: source.tape.times[steps.index(step)])


def _key(chosen: RunAt, model: RunModel) -> str:
    """What the memory of the interface knows the run by."""
    model.refresh(0)
    return str((model.status or {}).get("job_id") or chosen)


def _read(model: RunModel, checkup: Checkup) -> bool:
    """Read all there is. True: something has changed."""
    change = model.refresh(0.5)
    changed = bool(change)
    while change.more:
        change = model.refresh(0.5)
    return checkup.look(model) or changed


def _document(chosen: RunAt, model: RunModel, checkup: Checkup) -> Json:
    status = model.status
    if status is not None and not status.get("latest"):  # the past has no such summary: the numbers are in the metrics
        status = {**status, "latest": dict(model.metrics.latest)}
    return {**summary(chosen, status, model.error), "status": status, **document(model, checkup.findings)}


def _follow(chosen: RunAt, model: RunModel, checkup: Checkup) -> int:
    emit(_document(chosen, model, checkup), as_json=True)
    while model.live:
        time.sleep(LOOK_S)
        if _read(model, checkup):
            emit(_document(chosen, model, checkup), as_json=True)
    return OK


def look_here() -> Look:
    """Signs that this output can show; no colours."""
    from rltui.look import Look, ThemeFiles
    from rltui.terminal.capabilities import ColorMode, detect

    terminal = detect(os.environ, encoding=sys.stdout.encoding, background=lambda: None)
    return Look(ThemeFiles().load("dark"), ColorMode.NONE, terminal.ascii)
