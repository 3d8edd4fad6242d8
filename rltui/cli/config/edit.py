"""`rltui config edit FILE`: the interface, on its config editor."""

from __future__ import annotations

import argparse
from pathlib import Path

from rltui.cli.app import add_app_options, open_app
from rltui.cli.configs import refuse_json
from rltui.cli.output import CliError, add_examples


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the config; a run's config is edited as a copy")
    add_app_options(parser)
    add_examples(parser, "rltui config edit my.toml")


def run(args: argparse.Namespace) -> int:
    path = args.file.expanduser()
    refuse_json(path)
    if not path.is_file():
        raise CliError(f"no file {path}; `rltui config new` makes one")
    return open_app(args, None, config=path)
