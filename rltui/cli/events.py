"""`rltui events RUN`: what happened in a run, in the order of time; `-f` stays for what comes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from rltui.cli.common import add_run_argument, chosen_run, count, drained, known_status, present, summary
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.launch.runs import RunAt
from rltui.model.event_view import row, told
from rltui.sources.base import RunSource, Unreadable


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="stay for what comes, until the run ends")
    parser.add_argument("--after", type=int, default=0, metavar="SEQ", help="only those behind this number")
    parser.add_argument("--last", type=count, default=0, metavar="N", help="only the newest N; 0: all")
    parser.add_argument("--all", action="store_true", help="also those of every step and phase")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui events RUN --last 20",
        "rltui events RUN -f --json        an object a line",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    source = chosen.source
    try:
        if args.follow and args.json:
            for events in _news(source, args):
                for event in events:
                    emit(event, as_json=True)
            return OK
        if args.follow:
            for events in _news(source, args):
                _print(events)
            return OK
        events = next(_news(source, args))
        status = known_status(source)
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    emit({**_named(chosen, status), "events": events}, as_json=args.json, out=args.out)
    if not args.json:
        _print(events)
        if not events:
            say("no events yet" if not args.after else f"no events after {args.after}")
    return OK


def _named(chosen: RunAt, status: Json | None) -> Json:
    return {"name": chosen.name, "path": chosen.place, "state": (status or {}).get("state") or "starting"}


def _news(source: RunSource, args: argparse.Namespace) -> Iterator[list[Json]]:
    """The events that stand, then those that come; the last of them when the run has ended."""
    cursor = args.after or None
    first = True
    for _ in present(source, follow=args.follow):
        found, cursor = drained(source.events, cursor)
        rows = [row(event) for event in (found if args.all else told(found))]
        if first and args.last:
            rows = rows[max(0, len(rows) - args.last) :]
        if rows or first:
            yield rows
        first = False


def _print(events: list[Json]) -> None:
    for event in events:
        at = event["time"]
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at is not None else "-" * 19
        step = "" if event["step"] is None else f"step {event['step']}"
        level = "" if event["level"] == "info" else f"{event['level']}: "
        say(f"{clock}  {step:<10}  {level}{event['message'] or event['type']}", sys.stdout)
