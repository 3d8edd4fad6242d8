"""`rltui scan [--port-range 8000:8100]`: the task apps that listen on this host."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict

from rltui.cli.output import OK, add_data_options, add_examples, emit, say, words
from trainer.taskapp.scan import scan


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port-range", type=ports, default=range(8000, 8101), metavar="A:B", help="which ports (default: 8000:8100)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where (default: this host)")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui scan",
        "rltui scan --port-range 9000:9010 --json",
    )


def ports(text: str) -> range:
    """`A:B` with both ends, or `A`."""
    first, _, last = text.partition(":")
    try:
        low, high = int(first), int(last or first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!a} is not A:B, such as 8000:8100") from None
    if not 1 <= low <= high <= 65535:
        raise argparse.ArgumentTypeError(f"{text!a}: ports are 1 to 65535, the lower first")
    return range(low, high + 1)


def run(args: argparse.Namespace) -> int:
    found = asyncio.run(scan(args.port_range, args.host))
    low, high = args.port_range[0], args.port_range[-1]
    for app in found:
        say(f"{app.url}  {app.service}{'  (asks for a key)' if app.needs_key else ''}", words(args))
    if not found:
        say(f"no task app on {args.host}, ports {low} to {high}", words(args))
    data = {"host": args.host, "ports": [low, high], "apps": [asdict(app) for app in found]}
    emit(data, as_json=args.json, out=args.out)
    return OK
