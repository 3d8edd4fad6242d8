"""`rltui stop RUN [--now]`: asks through the control folder, and claims no success before the run ended."""

from __future__ import annotations

import argparse
import time

from rltui.cli.common import add_run_argument, chosen_run, summary
from rltui.cli.follow import ending
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, emit, say, words
from rltui.sources.base import TERMINAL, Unreadable
from rltui.sources.local import LocalRunSource
from rltui.text import clean

LOOK_S = 0.2
ANSWER_S = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--now", action="store_true", help="kill: no checkpoint, what runs is lost")
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="S",
        help="how long to wait for the end",
    )
    add_data_options(parser)


def run(args: argparse.Namespace) -> int:
    folder = chosen_run(args)
    source = LocalRunSource(folder)
    try:
        status = source.status()
    except Unreadable as error:
        raise CliError(f"{folder}: {error}", code=FAILED) from error
    if status is not None and status.get("state") in TERMINAL:
        say(f"{folder.name} is not running: it is {status['state']}", words(args))
        emit({"stopped": True, "answer": None, **summary(folder, status)}, as_json=args.json, out=args.out)
        return OK
    verb = "kill" if args.now else "stop"
    try:
        control_id = source.request(verb)
    except OSError as error:
        raise CliError(
            f"the request to {verb} could not be written in {folder}/control: {error.strerror}", code=FAILED
        ) from error
    if args.now:
        source.kill()
    status, answer = _wait(source, control_id, args)
    stopped = status is not None and status.get("state") in TERMINAL
    if stopped:
        for line in ending(status or {}):
            say(line, words(args))
    elif answer is None:
        say(
            f"{folder.name} has not answered. The request stays in its control folder; "
            f"look at {folder}/logs, or end it with `rltui stop {folder.name} --now`.",
            words(args),
        )
    elif answer["type"] == "rl.control.refused":
        say(f"{folder.name} refused: {clean(answer.get('message'))}", words(args))
    else:
        say(f"{folder.name} accepted and is still stopping; see `rltui show {folder.name}`", words(args))
    data = {"stopped": stopped, "control_id": control_id, "answer": answer and answer["type"]}
    emit({**data, **summary(folder, status)}, as_json=args.json, out=args.out)
    return OK if stopped else FAILED


def _wait(source: LocalRunSource, control_id: str, args: argparse.Namespace) -> tuple[Json | None, Json | None]:
    """The last status and the last answer, when the run has ended, has refused, or the time is up."""
    begun, told = time.monotonic(), None
    while True:
        status, answer = source.status(), source.answer(control_id)
        if answer is not None and answer["type"] != told:
            told = answer["type"]
            if told == "rl.control.accepted":
                say("accepted: it stops between two steps", words(args))
        waited = time.monotonic() - begun
        over = status is not None and status.get("state") in TERMINAL
        refused = answer is not None and answer["type"] == "rl.control.refused"
        unanswered = answer is None and waited > min(ANSWER_S, args.timeout)
        if over or refused or unanswered or waited > args.timeout:
            return status, answer
        time.sleep(LOOK_S)
