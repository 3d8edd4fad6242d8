"""`rltui attach RUN`: opens the interface on one run, wherever it was started."""

from __future__ import annotations

import argparse

from rltui.cli.app import add_app_options, open_app
from rltui.cli.common import chosen_run


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="its path, folder name or job id, or a beginning")
    add_app_options(parser)


def run(args: argparse.Namespace) -> int:
    return open_app(args, chosen_run(args))
