"""`rltui taskapp serve NAME|FILE.py`: serving an app.

A child does it, so that an app cannot harm this program; Ctrl-C ends both, which is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.text import clean
from trainer.taskapp.auth import KEY_NAMES, valid_keys
from trainer.taskapp.envfile import load_env_file
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.server import check_bind

KEY = KEY_NAMES[0]
PORT = 8001
GRACE_S = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="APP", help="a built-in name, FILE.py, reasoning_gym:DATASET or verifiers:NAME")
    parser.add_argument("--host", default="127.0.0.1", help="bind address (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})")
    parser.add_argument(
        "--env-file", type=Path, action="append", default=[], metavar="FILE", help="NAME=value lines for the app"
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui taskapp serve facts",
        "rltui taskapp serve my_app.py --port 9001 --env-file .env",
    )


def run(args: argparse.Namespace) -> int:
    try:
        return _serve(args)
    except TaskAppError as error:
        raise CliError(clean(f"{error.message}. {error.hint}", 1000)) from error


def _serve(args: argparse.Namespace) -> int:
    for path in args.env_file:
        load_env_file(path)
    check_bind(args.host, has_key=bool(valid_keys()))
    made = None if valid_keys() else secrets.token_urlsafe(24)
    command = [sys.executable, "-m", "trainer.taskapp", "serve", args.app]
    process = subprocess.Popen(
        [*command, "--host", args.host, "--port", str(args.port)],
        stdout=subprocess.PIPE,
        env={**os.environ, **({} if made is None else {KEY: made})},
        text=True,
    )
    try:
        ready = _ready(process, args.app)
        _announce(ready, made, args)
        code = process.wait()
    except KeyboardInterrupt:
        return OK
    finally:
        _end(process)
    raise CliError(f"{clean(args.app)} ended by itself with status {code}; its output above says why", code=FAILED)


def _ready(process: subprocess.Popen[str], app: str) -> Json:
    assert process.stdout is not None
    try:
        line: Json = json.loads(process.stdout.readline())
    except ValueError:
        raise CliError(f"{clean(app)} ended while it started; its output above says why", code=FAILED) from None
    if line["type"] == "error":
        raise TaskAppError(line["message"], line["hint"])
    return line


def _announce(ready: Json, made: str | None, args: argparse.Namespace) -> None:
    stream, url = words(args), ready["url"]
    say(f"{clean(ready['name'])} is served at {url} until Ctrl-C", stream)
    if made is not None:
        say(f"its key, made for this time only (set {KEY} to choose one):", stream)
        say(f"  export {KEY}={made}", stream)
    say(f'  curl -H "X-API-Key: ${KEY}" "{url}/task_info?seed=0"', stream)
    say(f"  rltui train CONFIG --task-url {url}", stream)
    emit({"url": url, "name": ready["name"], "key": made}, as_json=args.json, out=args.out)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
