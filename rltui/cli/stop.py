"""`rltui stop RUN [--now]`: asks it through its source, and claims no success before the run ended."""

from __future__ import annotations

import argparse
import time

from rltui.cli.common import add_run_argument, ask, chosen_run, summary, unanswered
from rltui.cli.follow import ending
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.launch.runs import RunAt
from rltui.sources.base import TERMINAL, RunSource, Unreadable
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
    add_examples(
        parser,
        "rltui stop demo",
        "rltui stop demo --now",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    source = chosen.source
    try:
        status = source.status()
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED) from error
    if status is not None and status.get("state") in TERMINAL:
        say(f"{chosen.name} has ended already: {status['state']}", words(args))
        emit({"stopped": True, "answer": None, **summary(chosen, status)}, as_json=args.json, out=args.out)
        return OK
    waits = chosen.backend is not None and (status or {}).get("state") in (None, "queued")
    control_id = "" if waits else ask(chosen, "kill" if args.now else "stop")
    if args.now or waits:  # of a job that waits its turn nobody reads requests
        source.kill()
    status, answer = _wait(source, control_id, args)
    stopped = status is not None and status.get("state") in TERMINAL
    if stopped:
        for line in ending(status or {}):
            say(line, words(args))
    elif answer is None:
        say(f"{unanswered(chosen)}{_instead(chosen, status, args.now)}.", words(args))
    elif answer["type"] == "rl.control.refused":
        say(f"{chosen.name} refused: {clean(answer.get('message'))}", words(args))
    else:
        say(f"{chosen.name} accepted and is still stopping; see `rltui show {chosen.name}`", words(args))
    data = {"stopped": stopped, "control_id": control_id, "answer": answer and answer["type"]}
    emit({**data, **summary(chosen, status)}, as_json=args.json, out=args.out)
    return OK if stopped else FAILED


def _instead(chosen: RunAt, status: Json | None, now: bool) -> str:
    """What is left to be done about a run that does not answer."""
    from trainer.rundir.process import host_name

    host = (status or {}).get("host")
    if chosen.folder is not None and isinstance(host, str) and host != host_name():
        return f". It says that it runs on {clean(host, 80)}, whose processes cannot be ended from here: stop it there"
    return "" if now else f", or end it with `rltui stop {chosen.name if chosen.folder else chosen} --now`"


def _wait(source: RunSource, control_id: str, args: argparse.Namespace) -> tuple[Json | None, Json | None]:
    """The last status and the last answer, when the run has ended, has refused, or the time is up."""
    begun, told = time.monotonic(), None
    while True:
        status, answer = source.status(), source.answer(control_id)
        if answer is not None and answer["type"] != told:
            told = answer["type"]
            if told == "rl.control.accepted":
                how = "its processes are ended" if args.now else "it stops between two steps"
                say(f"accepted: {how}", words(args))
        waited = time.monotonic() - begun
        over = status is not None and status.get("state") in TERMINAL
        refused = answer is not None and answer["type"] == "rl.control.refused"
        unanswered = answer is None and waited > min(ANSWER_S, args.timeout)
        if over or refused or unanswered or waited > args.timeout:
            return status, answer
        time.sleep(LOOK_S)
