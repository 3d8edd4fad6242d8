"""`rltui rollouts RUN`: the episodes that fit an expression, in an order, with what became of each."""

from __future__ import annotations

import argparse
import difflib
import sys

from rltui.cli.common import add_run_argument, chosen_run, count
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.cli.table import table
from rltui.sources.base import Unreadable
from rltui.text import clean

SHOWN = 50


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument(
        "--where",
        metavar="EXPR",
        default="",
        help="such as 'reward > 0.5 and stop != completed', 'has:excl', 'text = /too (high|low)/'; default: all",
    )
    parser.add_argument("--sort", metavar="ORDER", default="newest", help="newest (default), 'reward, best first', …")
    parser.add_argument("--last", type=count, default=SHOWN, metavar="N", help=f"at most N (default: {SHOWN}); 0: all")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui rollouts demo",
        "rltui rollouts demo --where 'reward < 0.2' --sort 'reward, worst first'",
        "rltui rollouts demo --last 0 --json",
    )


def run(args: argparse.Namespace) -> int:
    from rltui.model.episode_list import SORTS, bins, shown, view_of
    from rltui.model.episode_query import FilterError
    from rltui.model.episodes import EpisodeRows
    from rltui.model.fates import Fates

    if args.sort not in SORTS:
        near = difflib.get_close_matches(args.sort, SORTS, n=1, cutoff=0.3)
        raise CliError(f"--sort {clean(args.sort, 100)}: there are {'; '.join(near or SORTS)}")
    chosen = chosen_run(args)
    source = chosen.source
    rows, fates = EpisodeRows(source, "newest"), Fates(source)
    try:
        while rows.refresh()[1]:
            pass
        for _ in fates.refresh():
            pass
        # With a key in every case: the histogram needs a look at all of them.
        view = view_of(rows, fates, args.where or "has:n", args.sort)
        assert view is not None
        for _ in view.scan():
            pass
        count = min(len(view), args.last or len(view))
        found = [shown(fates.over(view.row(i))) for i in range(count)]
    except FilterError as error:
        raise CliError(f"--where, column {error.column + 1}: {error}") from error
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED) from error
    document = {
        "run": chosen.name,
        "where": args.where,
        "sort": args.sort,
        "total": len(rows),
        "kept": len(view),
        "bins": [{"low": b.low, "high": b.high, "count": b.count} for b in bins(view.rewards)],
        "episodes": found,
    }
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(document):
            say(line, sys.stdout)
    return OK


def _lines(document: Json) -> list[str]:
    from rltui.model.episode_list import plain

    rows = document["episodes"]
    kept = f"{document['kept']} of {document['total']} episodes"
    kept += (
        f", {len(rows)} of them listed ({document['sort']}); --last 0 lists all" if len(rows) < document["kept"] else ""
    )
    if not rows:
        return [kept + (f" match {clean(document['where'], 200)}" if document["where"] else "")]
    cells: list[tuple[str, ...]] = [
        ("EPISODE", "IT", "STEP", "SEED", "GROUP", "REWARD", "ADV", "S", "TURNS", "TOKENS", "V", "LAG", "END")
    ]
    for row in rows:
        group = "eval" if row["split"] == "eval" else f"{plain(row['group'])}.{plain(row['member'])}"
        version = row["version"] or [None]
        end = clean(row["excl"] or row["stop"] or "-", 60)
        clipped = f", clipped {row['clipped']}" if row["clipped"] in ("low", "high") else ""
        cells.append(
            (
                str(row["n"]),
                *(plain(row[name]) for name in ("iteration", "step", "seed")),
                group,
                _number(row["reward"], ".3f"),
                _number(row["advantage"], "+.3f"),
                _number(row["s"], ".4f"),
                plain(row["turns"]),
                plain(row["length"]),
                plain(version[-1]),
                plain(row["lag"]),
                end + clipped,
            )
        )
    return [*table(cells), kept]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
