"""`rltui attach RUN`: opens the interface on one run, wherever it was started, or on the jobs of a server."""

from __future__ import annotations

import argparse
from pathlib import Path

from rltui.cli.app import add_app_options, open_app
from rltui.cli.common import RUN_HELP, chosen_run
from rltui.cli.output import CliError, add_examples
from rltui.launch.runs import is_address, server_name
from rltui.sources.find import NoSuchRun, default_runs_dir, find_run
from rltui.text import clean


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=f"{RUN_HELP}; or the address of a server: its jobs are listed")
    add_app_options(parser)
    add_examples(
        parser,
        "rltui attach demo",
        "rltui attach demo --readonly",
        "rltui attach ssh://me@gpubox",
    )


def run(args: argparse.Namespace) -> int:
    if is_address(args.run) and (server := _server(args.run)) is not None:
        return open_app(args, None, server=server)
    return open_app(args, chosen_run(args).place if is_address(args.run) else str(_folder(args)))


def _folder(args: argparse.Namespace) -> Path:
    """Found without a reader: what that imports would hold up the first paint."""
    try:
        return find_run(args.run, args.runs_dir or default_runs_dir())
    except NoSuchRun as error:
        raise CliError(clean(error, 1000)) from error


def _server(address: str) -> str | None:
    """The name of a server; None: the address goes on to a job."""
    from rltui.launch.runs import split

    try:
        split(address)
    except NoSuchRun:
        try:
            return server_name(address)
        except NoSuchRun as error:
            raise CliError(str(error)) from error
    return None
