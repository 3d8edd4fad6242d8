"""`rltui metrics RUN`: the numbers behind the charts; `--follow` prints each new line of them as it is written."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING

from rltui.cli.common import add_run_argument, chosen_run, summary
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.cli.table import table
from rltui.sources.base import TERMINAL, RunSource, Unreadable
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.model.find import Finder
    from rltui.model.metrics import MetricStore

LOOK_S = 0.25
_ABOUT = ("attempt", "step", "iteration", "epoch", "time", "weight_version", "eval_step")  # of each line


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--name", metavar="RE", default="", help="only metrics whose name has this regular expression")
    parser.add_argument("--after", type=int, metavar="N", default=-1, help="only values of steps above N")
    parser.add_argument("--follow", action="store_true", help="one JSON object a line, until it ends")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui metrics demo --name 'reward/|entropy'",
        "rltui metrics demo --after 30 --json",
        "rltui metrics demo --follow",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    finder = _finder(args.name)
    source = chosen.source
    try:
        if args.follow:
            return _follow(source, finder, args.after)
        status = source.status()
        document = {**summary(chosen, status), **_document(source, finder, args)}
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(document):
            say(line, words(args))
    return OK


def _finder(text: str) -> Finder | None:
    from rltui.model.find import Finder, FindError

    try:
        return Finder(text, regex=True) if text else None
    except FindError as error:
        raise CliError(f"--name {clean(text, 200)}: {error}") from error


def _among(finder: Finder | None, names: list[str]) -> list[str]:
    from rltui.model.find import FindError

    try:
        return finder.among(names) if finder is not None else names
    except FindError as error:
        raise CliError(f"--name: {error}") from error


def _document(source: RunSource, finder: Finder | None, args: argparse.Namespace) -> Json:
    from rltui.model.marks import marks
    from rltui.model.metric_view import numbers, ordered, values

    store, events = _read(source)
    names = ordered(_among(finder, store.names()))
    shown = [{**numbers(store, name, args.after).json(), "values": values(store, name, args.after)} for name in names]
    return {
        "pattern": args.name or None,
        "after": args.after if args.after >= 0 else None,
        "known": len(store),
        "metrics": shown,
        "marks": [{"step": mark.x, "label": mark.label} for mark in marks(events)],
    }


def _read(source: RunSource) -> tuple[MetricStore, list[Json]]:
    from rltui.model.metrics import MetricStore

    store, cursor, more = MetricStore(), None, True
    while more:
        part = source.metrics(cursor)
        if part.rewind is not None:
            store.rewind(part.rewind)
        store.add(part.rows)
        cursor, more = part.cursor, part.more
    events: list[Json] = []
    cursor, more = None, True
    while more:
        part = source.events(cursor)
        events += part.rows
        cursor, more = part.cursor, part.more
    return store, events


def _lines(document: Json) -> list[str]:
    """A table in words."""
    from rltui.charts.numbers import number, place

    def text(value: float | None) -> str:
        return "-" if value is None else number(value)

    found = document["metrics"]
    of = f"{len(found)} of {document['known']} metrics" if document["pattern"] else f"{document['known']} metrics"
    head = f"{clean(document['name'], 120)}  {document['state']}  {of}"
    if not found:
        return [head, "No metric yet." if not document["known"] else "No name has the expression."]
    cells = [("NAME", "LAST", "STEP", "EMA", "MIN", "MAX", "POINTS", "NAN/INF")]
    for one in found:
        ema = (one["ema"] or {}).get("last")
        step = "-" if one["last_step"] is None else place(one["last_step"])
        counts = (str(one["points"]), str(one["nonfinite"] or "-"))
        cells.append((one["name"], text(one["last"]), step, text(ema), text(one["low"]), text(one["high"]), *counts))
    marks = [f"  step {place(mark['step'])}  {mark['label']}" for mark in document["marks"]]
    return [head, *table(cells), *(["marks", *marks] if marks else [])]


# ---- --follow


def _follow(source: RunSource, finder: Finder | None, after: int) -> int:
    """A line with what is chosen of each line of the run; {"rewind": N} takes back the steps above N."""
    cursor, known = None, _Known(finder)
    while True:
        status = source.status()
        more = True
        while more:
            part = source.metrics(cursor)
            cursor, more = part.cursor, part.more
            if part.rewind is not None and not _print({"rewind": part.rewind}):
                return OK
            if not all(_print(line) for row in part.rows if (line := known.of(row, after)) is not None):
                return OK  # the reader has closed the pipe
        state = (status or {}).get("state")
        if state in TERMINAL:
            return FAILED if state in ("failed", "cancelled") else OK
        time.sleep(LOOK_S)


class _Known:
    """Which names are wanted; each is looked at once."""

    def __init__(self, finder: Finder | None) -> None:
        self._finder = finder
        self._wanted: dict[str, bool] = {}

    def of(self, row: Json, after: int) -> Json | None:
        """The row with nothing but what is wanted of it; None: nothing is."""
        step = row.get("eval_step", row.get("step"))
        if not isinstance(step, int | float) or step <= after:
            return None
        lost = [name for name in row.get("nonfinite") or () if isinstance(name, str)]
        names = [name for name in row if name not in _ABOUT and name != "nonfinite"]
        new = [name for name in (*names, *lost) if name not in self._wanted]
        if new:
            chosen = set(_among(self._finder, new))
            self._wanted |= {name: name in chosen for name in new}
        kept = {name: row[name] for name in names if self._wanted[name]}
        lost = [name for name in lost if self._wanted[name]]
        if not kept and not lost:
            return None
        about = {key: row[key] for key in _ABOUT if key in row}
        return {**about, **kept, **({"nonfinite": lost} if lost else {})}


def _print(line: Json) -> bool:
    return say(json.dumps({"schema": 1, **line}, separators=(",", ":")), sys.stdout)
