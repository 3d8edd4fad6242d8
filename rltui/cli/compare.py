"""`rltui compare A B...`: two to six runs against the first: outcome, config, metrics, a test of the evaluations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.common import named_run
from rltui.cli.output import FAILED, OK, CliError, add_data_options, add_examples, emit, say, words
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.launch.runs import RunAt
    from rltui.model.compare import Comparison

_SLICE_S = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="two to six; the first is the baseline")
    parser.add_argument("--runs-dir", type=Path, metavar="DIR", help="where runs are (default: runs)")
    parser.add_argument(
        "--at", type=int, metavar="STEP", help="compare the newest evaluations up to this step, not of all"
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui compare base warm",
        "rltui compare base warm cold --at 40 --json",
    )


def run(args: argparse.Namespace) -> int:
    comparison = _comparison(_chosen(args))
    comparison.at = args.at
    for one in comparison.runs:
        while one.refresh(_SLICE_S)[1]:
            pass
    emit(comparison.document(), as_json=args.json, out=args.out)
    if not args.json:
        from rltui.model.compare_text import lines

        for line in lines(comparison):
            say(line, words(args))
    broken = [one for one in comparison.runs if one.problem]
    for one in broken:
        say(f"{clean(one.path, 300)}: {one.problem}")
    return FAILED if broken else OK


def _chosen(args: argparse.Namespace) -> list[RunAt]:
    from rltui.model.compare import LEAST, MOST

    given: list[Any] = args.runs
    if not LEAST <= len(given) <= MOST:
        raise CliError(f"{len(given)} run{'s' * (len(given) != 1)} given: compare takes {LEAST} to {MOST}")
    found: list[RunAt] = []
    for name in given:
        run = named_run(str(name), args.runs_dir)
        if any(run.place == one.place for one in found):
            raise CliError(f"{clean(name, 200)} is given twice; `rltui show` has one run alone")
        found.append(run)
    return found


def _comparison(runs: list[RunAt]) -> Comparison:
    from rltui.model.compare import Comparison
    from rltui.model.compared import ComparedRun

    return Comparison([ComparedRun(run.folder or Path(run.name), run.source) for run in runs])
