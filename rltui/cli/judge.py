"""`rltui judge RUN`: what the judge of a run said, beside the task app's rewards, and what it took."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rltui.cli.common import RUN_HELP, count, named_run
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, program, say, words
from rltui.cli.progress import number
from rltui.cli.table import table
from rltui.model.judge_text import dollars, judge_name, tries_failed
from rltui.text import clean, fit

SHOWN = 50
TRACKS_CELLS = 60


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--run", dest="named", metavar="RUN", help="the same, as other tools spell it")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument("--last", type=count, default=SHOWN, metavar="N", help=f"episodes (default: {SHOWN}); 0: all")
    parser.add_argument(
        "--disagreement", action="store_true", help="where judge and task app differ most first; of all, N are shown"
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui judge demo",
        "rltui judge demo --disagreement --last 0",
    )


def run(args: argparse.Namespace) -> int:
    from rltui.model.judged import agreement, judged, recent, who_judges
    from rltui.sources.base import Unreadable

    if (args.run is None) is (args.named is None):
        raise CliError("give one run: `rltui judge RUN`")
    chosen = named_run(args.run or args.named, args.runs_dir)
    source = chosen.source
    try:
        who = who_judges(source.document("environment.json"), source.document("resolved.json"))
        blend = who["blend"]
        rows, calls = judged(source, (blend.get("event", 0.0), blend.get("outcome", 0.0)))
    except Unreadable as error:
        raise CliError(f"{chosen} cannot be read: {error}", code=FAILED) from error
    newest = recent([(row.score, row.env) for row in rows if row.score is not None and row.env is not None])
    agreed, counted = agreement(rows), len(rows)
    excluded = sum(row.excluded for row in rows)
    if args.disagreement:
        rows = sorted(rows, key=lambda row: -1.0 if row.gap is None else abs(row.gap), reverse=True)
        rows = rows[: args.last or None]
    else:
        rows = rows[-args.last :]
    document = {
        "run": chosen.name,
        **who,
        "judged": counted,
        "excluded": excluded,
        "agreement": agreed,
        "recent": newest,
        **calls.totals(),
        "episodes": [row.as_dict() for row in rows],
    }
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        from rltui.cli.show import run_name

        name = run_name(chosen)
        for line in _lines(
            document, f"{program()} rejudge {name} --rubric FILE", f"{program()} rollout {name} EPISODE"
        ):
            say(line, words(args))
    return OK


def _lines(document: Json, next_: str, look_: str) -> list[str]:
    rows = document["episodes"]
    if not document["judged"]:
        name = clean(document["run"], 120)
        return [f"{name}: no episode was judged" + ("" if document["source"] else "; judge.enabled asks for a judge")]
    columns = shutil.get_terminal_size((160, 24)).columns
    cells = [("EPISODE", "IT", "SPLIT", "ENV", "J_EVENT", "J_OUTCOME", "GAP", "S", "TOKENS", "COST $", "TRACKS")]
    for row in rows:
        tracks = "  ".join(f"{clean(name, 30)} {score:.2f}" for name, score in row["tracks"].items())
        failed = tries_failed(row["failed"])
        why = f"no score: {failed}" if row["excluded"] else f"({failed})" if failed else ""
        cells.append(
            (
                str(row["n"]),
                number(row["iteration"], "{}"),
                clean(row["split"] or "-", 8),
                number(row["env"]),
                number(row["event"]),
                number(row["outcome"]),
                number(row["gap"], "{:+.3f}"),
                number(row["seconds"], "{:.1f}"),
                f"{row['tokens_in']}+{row['tokens_out']}",
                dollars(row["cost_usd"], row["cost_estimated"]),
                f"{fit(tracks, TRACKS_CELLS)} {why}".strip(),
            )
        )
    lines = [fit(line, max(20, columns)) for line in table(cells)]
    if len(rows) < document["judged"]:
        lines.append(f"{len(rows)} of {document['judged']} episodes are shown; --last 0 shows all")
    look = f"GAP: judge - task app; S: seconds. What was answered: {look_}"
    return [*lines, *_told(document), look, f"another rubric on these episodes: {next_}"]


def _of_the_newest(document: Json) -> str:
    """What the Judge tab says, where that is of fewer episodes."""
    newest = document["recent"]
    if newest["episodes"] >= document["judged"] - document["excluded"]:
        return ""
    return f", of the newest {newest['episodes']} {number(newest['agreement'], '{:+.2f}')}"


def _told(document: Json) -> list[str]:
    rubric = clean(document["rubric_id"] or document["rubric_hash"] or "?", 80)
    cost = dollars(document["cost_usd"], document["cost_estimated"])
    estimate = " (estimate, by list prices)" if document["cost_estimated"] else ""
    p50, p95 = (number(document[f"latency_{name}_s"], "{:.1f}") for name in ("p50", "p95"))
    lines = [
        f"judged by {judge_name(document)}, rubric {rubric}: {document['judged']} episodes,"
        f" {document['excluded']} without a score;"
        f" rank correlation with the task app {number(document['agreement'], '{:+.2f}')}{_of_the_newest(document)}",
        f"{document['tries']} calls, {document['cached']} known already; a call took {p50} s (p50), {p95} s (p95);"
        f" {document['tokens_in']}+{document['tokens_out']} tokens, cost {cost} ${estimate}",
    ]
    if document["failed"]:
        lines.append(f"tries without scores: {tries_failed(document['failed'])}")
    return [*lines, *_spread(document["tracks"])]


def _spread(tracks: list[Json]) -> list[str]:
    """How many scores each track has by tenths."""
    if not tracks:
        return []
    bins = max((track["bins"] for track in tracks), key=len)
    ends = [f"{bin['low']:g}-" if bin["high"] is not None else "> 1" for bin in bins]
    cells = [("TRACK", "OF", "SCORES", "MEAN", *ends)]
    for track in tracks:
        counts = [str(bin["count"]) for bin in track["bins"]]
        counts += ["0"] * (len(bins) - len(counts))
        cells.append((clean(track["track"], 30), track["of"], str(track["scores"]), f"{track['mean']:.2f}", *counts))
    return ["how many scores from each tenth on:", *table(cells)]
