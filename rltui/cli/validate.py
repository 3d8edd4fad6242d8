"""`rltui validate FILE...`: everything that is wrong with a config, at once; for a good one, what it amounts to."""

from __future__ import annotations

import argparse
import dataclasses

from rltui.cli.configs import add_examples, add_loading_options, amount, open_config, printable, said
from rltui.cli.output import FINDINGS, OK, USAGE, CliError, Json, add_data_options, emit, say, words
from trainer.config import ConfigError, Loaded, Problem, render


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="TOML or JSON, a run's folder, or - for stdin")
    add_loading_options(parser)
    parser.add_argument("--strict", action="store_true", help="exit 1 when there are warnings; notes are none")
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
        count = len(error.problems)
        say(said(error.problems))
        say(printable(f"{shown_as}: {count} problem{'s' * (count != 1)}"))
        return _report(shown_as, errors=error.problems), USAGE
    told = {(item.key, item.code) for item in loaded.warnings}
    launch = [item for item in loaded.launch_problems() if (item.key, item.code) not in told]
    warnings = [*loaded.warnings, *map(_at_launch, launch)]
    warnings.sort(key=lambda item: (item.line is None, item.line or 0))
    if warnings:
        say(printable(render(warnings)))
    for line in _verdict(shown_as, loaded, warnings):
        say(printable(line), words(args))
    code = FINDINGS if args.strict and any(item.level == "warning" for item in warnings) else OK
    return _report(shown_as, loaded=loaded, warnings=warnings, ok=code == OK), code


def _at_launch(problem: Problem) -> Problem:
    """What stops a launch, though not the loading of a file, is a warning here."""
    return dataclasses.replace(problem, level="warning", why=f"{problem.why}; a run would not start")


def _verdict(name: str, loaded: Loaded, warnings: list[Problem]) -> list[str]:
    counts = [
        f"{count} {level}{'s' * (count != 1)}"
        for level in ("warning", "note")
        if (count := sum(item.level == level for item in warnings))
    ]
    blend = ", ".join(f"{part} {weight:g}" for part, weight in loaded.blend.items() if weight)
    return [
        ": ".join([name, ", ".join(["valid", *counts])]),
        f"  {amount(loaded.derived)}; reward: {blend or 'no part has weight'}",
    ]


def _report(
    name: str,
    *,
    loaded: Loaded | None = None,
    errors: list[Problem] | None = None,
    warnings: list[Problem] | None = None,
    ok: bool = False,
) -> Json:
    """One file in data; `derived`, `blend` and `config_hash` are null where it is not valid."""
    return {
        "ok": ok,
        "file": name,
        "errors": [problem.as_dict() for problem in errors or []],
        "warnings": [problem.as_dict() for problem in warnings or []],
        "derived": loaded.derived if loaded else None,
        "blend": loaded.blend if loaded else None,
        "config_hash": loaded.config_hash if loaded else None,
    }
