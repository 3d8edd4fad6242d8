"""Following a run that was just started in the interface instead of by lines of text."""

from __future__ import annotations

import argparse
import os
import sys

from rltui.cli.app import add_app_options, open_app
from rltui.cli.follow import ending
from rltui.cli.output import FAILED, OK, say, words
from rltui.cli.start import Plan, exit_code
from rltui.launch.base import Started
from rltui.sources.base import TERMINAL, Json, RunSource


def on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def watch(plan: Plan, source: RunSource, started: Started, args: argparse.Namespace) -> tuple[Json, int]:
    """Show the run until the person leaves; then, if it has ended, say how. Its last status and the exit code."""
    defaults = argparse.ArgumentParser()
    add_app_options(defaults)
    options = defaults.parse_args([])
    options.runs_dir = plan.job.run_dir.parent
    code = open_app(options, plan.job.run_dir)
    status = source.status() or {}
    state = status.get("state")
    if code != OK or state not in TERMINAL:  # what became of a run that goes on has been said
        return status, code
    for line in ending(status):
        say(line, words(args))
    return status, exit_code(status, OK if state == "succeeded" else FAILED, started)
