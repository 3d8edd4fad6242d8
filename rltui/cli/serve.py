"""`rltui serve`: a job server on this machine, for clients here, through a tunnel, or on other machines."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rltui.cli.output import FAILED, OK, USAGE, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.sources.find import default_runs_dir
from rltui.text import clean

PORT = 8787


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="bind address (default: 127.0.0.1); others need a token")
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="folder of its runs (default: runs)")
    parser.add_argument(
        "--allow-code", action="store_true", help="run what clients send as code: .py task apps, python judge rules"
    )
    parser.add_argument(
        "--cpu-jobs", type=int, default=1, metavar="N", help="jobs without a GPU at a time (default: 1)"
    )
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="a name by which other machines call this one"
    )
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="URL",
        help="a task app, judge or engine that is sent keys of this machine when a client names it, as TASK_APP_URL "
        "is; others are sent only the key that comes with a job",
    )
    parser.add_argument("--new-token", action="store_true", help="make a token, in place of the last one")
    parser.add_argument("--ensure", action="store_true", help="start one in the background, unless there is one")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui serve",
        "rltui serve --ensure",
        "rltui serve --host 0.0.0.0 --name gpubox --trust http://10.0.0.7:8001",
    )


def run(args: argparse.Namespace) -> int:
    from rltui.server.serve import CannotServe, Options, ensure, serve

    if not 0 <= args.port <= 65_535 or args.cpu_jobs < 1:
        raise CliError("--port is 0 to 65535, --cpu-jobs at least 1")
    if args.ensure and args.port == 0:
        raise CliError("--ensure finds a server by its port: give --port")
    runs_dir = (args.runs_dir or default_runs_dir()).expanduser().absolute()
    names, trust = tuple(args.name), tuple(args.trust)
    options = Options(args.host, args.port, runs_dir, args.allow_code, args.cpu_jobs, names, args.new_token, trust)
    try:
        if args.ensure:
            found = ensure(options)
            _tell(found, args)
            return OK
        serve(options, lambda told, made: _announce(told, made, args))
    except CannotServe as error:
        raise CliError(clean(error, 1000), code=USAGE if error.usage else FAILED) from error
    return OK


def _announce(told: Json, made: str | None, args: argparse.Namespace) -> None:
    stream = words(args)
    place = f"pid {os.getpid()}, runs in {clean(told['runs_dir'])}"
    say(f"job server at {told['url']}, {place}; Ctrl-C ends it, runs go on", stream)
    if made is not None:
        say("its token, shown this once; clients take it from RLTUI_API_KEY:", stream)
        say(f"  export RLTUI_API_KEY={made}", stream)
    elif told["needs_token"] and not os.environ.get("RLTUI_API_KEY"):
        say("its token is the one that was shown when it was made; --new-token makes another", stream)
    if args.host not in ("127.0.0.1", "localhost", "::1"):
        say("other machines can reach it: the token is the only guard, and nothing is encrypted", stream)
    if args.allow_code:
        say("clients may run code on this machine (--allow-code)", stream)
    emit({**told, "token": made}, as_json=args.json, out=args.out)


def _tell(found: Json, args: argparse.Namespace) -> None:
    say(f"job server at {found['url']}, pid {found['pid']}; kill {found['pid']} ends it, runs go on", words(args))
    emit(found, as_json=args.json, out=args.out)
