"""`rltui pipeline RUN`: who waits for whom, where the time of a step goes, and what the machine does."""

from __future__ import annotations

import argparse
import sys

from rltui.cli.common import add_run_argument, chosen_run
from rltui.cli.output import FAILED, OK, CliError, add_data_options, add_examples, emit, say


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    add_data_options(parser)
    add_examples(
        parser,
        "rltui pipeline demo",
        "rltui pipeline demo --json",
    )


def run(args: argparse.Namespace) -> int:
    from rltui.model.lag_feed import LagFeed
    from rltui.model.pipeline_text import pipeline_lines
    from rltui.model.pipeline_view import pipeline_view
    from rltui.model.run import RunModel

    chosen = chosen_run(args)
    model = RunModel(chosen.source)
    lags = model.feed(LagFeed)
    while model.refresh(1.0).more:
        pass
    if model.error:
        raise CliError(f"{chosen}: {model.error}", code=FAILED)
    document = pipeline_view(model.status, model.metrics, lags.counts(), model.now())
    emit({"run": chosen.name, **document}, as_json=args.json, out=args.out)
    if not args.json:
        for line in pipeline_lines(document):
            say(line, sys.stdout)
    return OK
