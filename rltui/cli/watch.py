"""Following a run that was just started in the interface instead of by lines of text."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rltui.cli.app import default_options, open_app
from rltui.cli.follow import ending
from rltui.cli.output import FAILED, OK, say, words
from rltui.cli.start import Plan, exit_code, follow
from rltui.launch.base import Started
from rltui.sources.base import TERMINAL, Json

BEGIN_S = 20.0  # that a coordinator is given to write its first status


def on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def watch(plan: Plan, started: Started, args: argparse.Namespace) -> tuple[Json, int]:
    """Show the run until the person leaves; then, if it has ended, say how. Its last status and the exit code."""
    if not _began(plan, started):
        return follow(plan, started, args)  # it says why there is nothing to show
    options = default_options()
    if plan.job.run_dir is not None:
        options.runs_dir = plan.job.run_dir.parent
    code = open_app(options, started.source.place)
    status = started.source.status() or {}
    state = status.get("state")
    if code != OK or state not in TERMINAL:  # what became of a run that goes on has been said
        return status, code
    for line in ending(status):
        say(line, words(args))
    return status, exit_code(status, OK if state == "succeeded" else FAILED, started)


def _began(plan: Plan, started: Started) -> bool:
    """Wait for the first status. False: the coordinator has ended without one."""
    if plan.job.run_dir is None:
        return True  # its server has it
    written, deadline = plan.job.folder / "status.json", time.monotonic() + BEGIN_S
    while not written.exists() and time.monotonic() < deadline:
        if started.exit_code() is not None:
            return written.exists()
        time.sleep(0.05)
    return True
