"""Following a run that was just started in the interface instead of by lines of text."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from rltui.cli.app import default_options, open_app
from rltui.cli.follow import Interrupts, ending
from rltui.cli.output import FAILED, OK, say, words
from rltui.cli.start import Plan, exit_code, follow
from rltui.launch.base import Started
from rltui.sources.base import TERMINAL, Json, Unreadable

BEGIN_S = 20.0  # that a coordinator is given to write its first status


def on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def watch(plan: Plan, started: Started, args: argparse.Namespace, heard: Interrupts) -> tuple[Json, int]:
    """Show the run until the person leaves; then, if it has ended, say how. Its last status and the exit code."""
    if not _began(plan, started, heard):
        return follow(plan, started, args, heard)  # it says why there is nothing to show
    heard.end()  # the interface has its own
    options = default_options()
    if plan.job.run_dir is not None:
        options.runs_dir = plan.job.run_dir.parent
    code = open_app(options, started.source.place)
    status: Json = {}
    with contextlib.suppress(Unreadable):  # of a server that is gone
        status = started.source.status() or {}
    state = status.get("state")
    if code != OK or state not in TERMINAL:  # what became of a run that goes on has been said
        return status, code
    for line in ending(status):
        say(line, words(args))
    return status, exit_code(status, OK if state == "succeeded" else FAILED, started)


def _began(plan: Plan, started: Started, heard: Interrupts) -> bool:
    """Wait for the first status. False: the coordinator has ended without one, or Ctrl-C came before."""
    if plan.job.run_dir is None:
        return True  # its server has it
    written, deadline = plan.job.folder / "status.json", time.monotonic() + BEGIN_S
    while not written.exists() and time.monotonic() < deadline and not heard.count:
        if started.exit_code() is not None:
            return written.exists()
        heard.wait(0.05)
    return not heard.count
