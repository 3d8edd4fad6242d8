"""`rltui validate FILE...`: everything that is wrong with a config, at once; for a good one, what it amounts to."""

from __future__ import annotations

import argparse

from rltui.cli.configs import (
    add_loading_options,
    amount,
    cannot_run,
    counts,
    open_config,
    printable,
    told,
    wrapped,
)
from rltui.cli.output import FINDINGS, OK, USAGE, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.cli.task_apps import NO_FILE, start_problems, warnings_of
from trainer.config import ConfigError, Loaded, Problem
from trainer.config.rules.machine import OF_THE_MACHINE


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="TOML or JSON, a run's folder, or - for stdin")
    add_loading_options(parser)
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 when there are warnings, but those of the GPUs found"
    )
    add_data_options(parser)
    add_examples(
        parser,
        "rltui validate my.toml",
        "rltui validate my.toml --set training.group_size=8",
        "rltui validate --strict --json sample_configs/*.toml",
    )


def run(args: argparse.Namespace) -> int:
    if args.files.count("-") > 1:
        raise CliError("standard input can be read once: give - once")
    checked = [_check(name, args) for name in args.files]
    code = max(code for _, code in checked)
    reports = [report for report, _ in checked]
    data = reports[0] if len(reports) == 1 else {"ok": code == OK, "files": reports}
    emit(data, as_json=args.json, out=args.out)
    return code


def _check(name: str, args: argparse.Namespace) -> tuple[Json, int]:
    shown_as = "stdin" if name == "-" else name
    try:
        loaded = open_config(name, args.sets, allow_unknown=args.allow_unknown)
    except ConfigError as error:
        say(told([*error.problems, *error.warnings]))
        say(printable(f"{shown_as}: {', '.join(counts([*error.problems, *error.warnings]))}"))
        return _report(shown_as, errors=error.problems, warnings=error.warnings), USAGE
    refusals = start_problems(loaded)
    warnings = warnings_of(loaded, refusals)
    if warnings:
        say(told(warnings))
    for line in _verdict(shown_as, loaded, warnings, refusals):
        say(wrapped(printable(line), words(args)), words(args))
    code = FINDINGS if args.strict and any(_counts(item) for item in warnings) else OK
    return _report(shown_as, loaded=loaded, warnings=warnings, refusals=refusals, ok=code == OK), code


def _counts(problem: Problem) -> bool:
    """Whether `--strict` minds it: a file is right or wrong the same way on every machine."""
    return problem.level == "warning" and problem.code not in (*OF_THE_MACHINE, NO_FILE)


def _verdict(name: str, loaded: Loaded, warnings: list[Problem], refusals: list[Problem]) -> list[str]:
    refused = f"; but {why}" if (why := cannot_run(refusals)) else ""
    blend = ", ".join(f"{part} {weight:g}" for part, weight in loaded.blend.items() if weight)
    return [
        f"{name}: {', '.join(['valid', *counts(warnings)])}{refused}",
        f"  {amount(loaded.derived)}; reward: {blend or 'no part has weight'}",
    ]


def _report(
    name: str,
    *,
    loaded: Loaded | None = None,
    errors: list[Problem] | None = None,
    warnings: list[Problem] | None = None,
    refusals: list[Problem] | None = None,
    ok: bool = False,
) -> Json:
    """One file in data; `derived`, `blend` and `config_hash` are null where it is not valid.

    `refusals`: of a valid one, why a run of it would not start.
    """
    return {
        "ok": ok,
        "file": name,
        "errors": [problem.as_dict() for problem in errors or []],
        "warnings": [problem.as_dict() for problem in warnings or []],
        "refusals": [problem.as_dict() for problem in refusals or []],
        "derived": loaded.derived if loaded else None,
        "blend": loaded.blend if loaded else None,
        "config_hash": loaded.config_hash if loaded else None,
    }
