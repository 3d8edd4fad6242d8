"""`rltui logs RUN`: what its processes wrote, by time, a progress bar as one line; `-f` stays for what comes."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator

from rltui.cli.common import add_run_argument, chosen_run, count, present, summary
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.launch.runs import RunAt
from rltui.model.log_feed import FIRST_BYTES, LogFeed
from rltui.model.log_lines import Level
from rltui.model.log_store import LogStore
from rltui.sources.base import RunSource, Unreadable
from rltui.text import clean
from rltui.text_lines import printable

LAST = 200
WHOLE = 1 << 40  # bytes: more than any log
LINE_BYTES = 400  # of a line, about


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="stay for what comes, until the run ends")
    parser.add_argument("--file", metavar="NAME", help="one process only, such as coordinator or learner-0")
    levels = [level.word for level in Level]
    parser.add_argument("--level", choices=levels, metavar="LEVEL", help=f"this and what is worse: {', '.join(levels)}")
    parser.add_argument(
        "--last", type=count, default=LAST, metavar="N", help=f"lines at first (default: {LAST}); 0: all"
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui logs RUN -f",
        "rltui logs RUN --file learner-0 --level warning",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    source = chosen.source
    try:
        logs = source.logs()
        file = _wanted(chosen, args.file, [str(log["name"]) for log in logs])
        news = _news(source, args, file)
        lines = next(news)
        if args.follow:
            while True:
                for line in lines:
                    if args.json:
                        emit(line, as_json=True)
                    else:
                        say(_text(line, file), sys.stdout)
                lines = next(news, [])
                if not lines:
                    return OK
        emit({"name": chosen.name, "path": chosen.place, "logs": logs, "lines": lines}, as_json=args.json, out=args.out)
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    if not args.json:
        for line in lines:
            say(_text(line, file), sys.stdout)
        if not lines:
            say(f"nothing in {chosen}/logs{' at that level' if args.level else ''}")
    return OK


def _wanted(chosen: RunAt, file: str | None, names: list[str]) -> str | None:
    """The log that --file names, without its ending. CliError: there is none of that name."""
    known = [name.removesuffix(".log") for name in names]
    if file is None or file.removesuffix(".log") in known:
        return file and file.removesuffix(".log")
    near = difflib.get_close_matches(file, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none yet'}"
    raise CliError(f"no log {clean(file, 60)!a} in {chosen}/logs; {hint}")


def _news(source: RunSource, args: argparse.Namespace, file: str | None) -> Iterator[list[Json]]:
    """The last lines, then those that come; a bar that moves comes again, as it then is."""
    feed = LogFeed(source, only=file, first_bytes=max(FIRST_BYTES, args.last * LINE_BYTES) if args.last else WHOLE)
    store = LogStore()
    store.show(level=Level[args.level.upper()] if args.level else Level.DEBUG, whole=True)
    first = True
    for _ in present(source, follow=args.follow):
        more = True
        changed: set[int] = set()
        before = store.seq(len(store) - 1) + 1 if len(store) else 0
        while more:
            found, more = feed.read()
            for name, texts in found:
                done = store.append(texts, name)
                changed |= {store.seq(i) for i in done.changed}
        at = store.place(before)
        shown = [i for seq in sorted(changed) if seq < before and (i := store.place(seq)) < at]
        shown += range(max(at, len(store) - args.last) if first and args.last else at, len(store))
        if shown or first:
            yield [_row(store, i) for i in shown]
        first = False


def _row(store: LogStore, i: int) -> Json:
    return {"log": store.source(i), "level": store.level(i).word, "text": printable(store.text(i))}


def _text(line: Json, file: str | None) -> str:
    return line["text"] if file is not None else f"{clean(line['log'], 40):<12} {line['text']}"
