"""`rltui steer RUN VERB [KEY VALUE]`: asks a run for something, and claims nothing before it has answered."""

from __future__ import annotations

import argparse
import time

from rltui.cli.common import add_run_argument, ask, chosen_run, unanswered
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.launch.runs import RunAt
from rltui.model.live_values import live_values
from rltui.sources.base import TERMINAL, RunSource, Unreadable
from rltui.text import clean

STEERING = ("pause", "resume", "stop", "kill", "checkpoint", "evaluate", "set")
LOOK_S = 0.2
UNANSWERED_S = 10.0  # WIRE 5.8: a request that is not accepted by then is said to be unanswered
WAITS = {
    "checkpoint": "it waits for the end of its iteration",
    "evaluate": "it waits for the end of its iteration",
    "stop": "it stops between two steps",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("verb", choices=STEERING, metavar="VERB", help=", ".join(STEERING))
    parser.add_argument("assignment", nargs="*", metavar="KEY VALUE", help="for set; or KEY=VALUE, several of them")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="how long to wait for the answer")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui steer demo pause",
        "rltui steer demo set learning_rate 5e-4",
        "rltui steer demo checkpoint --timeout 60",
    )


def run(args: argparse.Namespace) -> int:
    if not args.timeout >= 0:
        raise CliError("--timeout is a number of seconds, 0 or more")
    values = _values(args)
    chosen = chosen_run(args)
    source = chosen.source
    state = _state(chosen, source)
    if state in TERMINAL:
        raise CliError(f"{chosen.name} has ended already: {state}", code=FAILED)
    control_id = ask(chosen, args.verb, values)
    if args.verb == "kill":
        source.kill()
    answer = _wait(source, control_id, args)
    kind = "unanswered" if answer is None else str(answer["type"]).removeprefix("rl.control.")
    if args.verb == "kill" and kind != "done" and _state(chosen, source) in TERMINAL:
        kind = "done"  # it was ended from here, and could not say so
    say(_told(chosen, args.verb, kind, answer), words(args))
    data = {} if answer is None else answer.get("data") or {}
    emit(
        {
            "control_id": control_id,
            "action": args.verb,
            "args": values,
            "answer": kind,
            "reason": data.get("reason"),
            "message": None if answer is None else clean(answer.get("message"), 600),
            "data": data,
        },
        as_json=args.json,
        out=args.out,
    )
    return OK if kind == "done" else FAILED


def _values(args: argparse.Namespace) -> Json:
    """What `set` is to change, by full key. CliError: no assignment, or a key that a running run keeps."""
    if args.verb != "set":
        if args.assignment:
            raise CliError(f"{args.verb} takes no further words; KEY VALUE belongs to set")
        return {}
    try:
        return live_values(args.assignment)
    except ValueError as error:
        raise CliError(str(error)) from None


def _wait(source: RunSource, control_id: str, args: argparse.Namespace) -> Json | None:
    """The last answer: done or refused, or what there is when the time is up or the run is over."""
    begun, told = time.monotonic(), False
    while True:
        over = (source.status() or {}).get("state") in TERMINAL
        answer = source.answer(control_id)
        if answer is not None and answer["type"] != "rl.control.accepted":
            return answer
        if answer is not None and not told:
            told = True
            say(f"accepted: {WAITS[args.verb]}" if args.verb in WAITS else "accepted", words(args))
        waited = time.monotonic() - begun
        if over or waited > args.timeout or (answer is None and waited > min(UNANSWERED_S, args.timeout)):
            return answer
        time.sleep(LOOK_S)


def _told(chosen: RunAt, verb: str, kind: str, answer: Json | None) -> str:
    message = "" if answer is None else clean(answer.get("message"), 600)
    match kind:
        case "done":
            return f"done: {message or verb}"
        case "refused":
            return message
        case "accepted":
            return f"{chosen.name} accepted, and has not done it yet; `rltui show {chosen.name}` tells when it has"
    return f"{unanswered(chosen)}."


def _state(chosen: RunAt, source: RunSource) -> str | None:
    try:
        return (source.status() or {}).get("state")
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED) from error
