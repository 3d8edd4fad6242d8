"""`rltui preflight CONFIG`: all that a launch needs, looked at beforehand, without money or GPU memory."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rltui.cli.common import launcher_of
from rltui.cli.configs import add_loading_options, config_path
from rltui.cli.output import FAILED, FINDINGS, OK, USAGE, Json, add_data_options, add_examples, emit, say, words
from rltui.preflight.base import Began, Check, Context, Result, Verdict, took
from rltui.text import clean

MARKS: dict[Verdict, str] = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "skipped": "--  "}
TITLE = 12  # cells
FIRST_S, LATER_S = 5.0, 60.0  # of waiting before it is said, and said again


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG", help="the run's TOML file")
    parser.add_argument("--target", default="local", metavar="T", help="where the run is to be (default: local)")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="folder of the run (default: runs/LABEL-ID)")
    parser.add_argument("--strict", action="store_true", help="exit 1 when there are warnings")
    add_loading_options(parser)
    add_data_options(parser)
    add_examples(parser, "rltui preflight my.toml", "rltui preflight my.toml --set training.group_size=8 --json")


def run(args: argparse.Namespace) -> int:
    from rltui.preflight.runner import Preflight
    from rltui.preflight.table import CHECKS, checks_of

    launcher = launcher_of(args.target)
    checks = checks_of(launcher)
    context = Context(
        config=config_path(str(args.config)),
        sets=tuple(args.sets),
        allow_unknown=args.allow_unknown,
        run_dir=args.run_dir,
        launcher=launcher,
        environ=os.environ,
    )
    preflight = Preflight(context, checks)
    results: list[Result] = []
    begun: dict[str, float] = {}
    over = threading.Event()
    threading.Thread(target=_tell_waits, args=(checks, begun, over, args), daemon=True).start()
    try:
        for event in preflight.run():
            if isinstance(event, Began):
                begun[event.id] = time.monotonic()
                continue
            begun.pop(event.id, None)
            results.append(event)
            if event.found.verdict != "skipped":
                for line in lines_of(event):
                    say(line, words(args))
    finally:
        over.set()
        preflight.stop()
    code = _code(results, args.strict)
    order = [check.id for check in checks]
    results.sort(key=lambda result: order.index(result.id))
    from_here = [check.title for check in CHECKS if check.id not in order]
    passed = [*(result.title for result in results if result.verdict == "skipped"), *from_here]
    if passed and code != USAGE:
        say(f"--    not looked at: {', '.join(passed)}", words(args))
    say(verdict_of(results) + (", as far as it can be seen from here" if from_here and code == OK else ""), words(args))
    emit(_data(args, context, results, code), as_json=args.json, out=args.out)
    return code


def _tell_waits(
    checks: Sequence[Check], begun: dict[str, float], over: threading.Event, args: argparse.Namespace
) -> None:
    """Says what is waited for, after a while and then rarely. begun: running checks, and since when."""
    titles = {check.id: f"{check.title:{TITLE}} no answer yet; limit {check.limit_s:g} s" for check in checks}
    due: dict[str, float] = {}
    while not over.wait(1.0):
        for id, since in list(begun.items()):
            seconds = time.monotonic() - since
            if seconds >= due.get(id, FIRST_S):
                due[id] = seconds + LATER_S
                say(f"      {seconds:.0f} s  {titles[id]}", words(args))


def _code(results: list[Result], strict: bool) -> int:
    failed = [result.id for result in results if result.verdict == "fail"]
    if "config" in failed:
        return USAGE
    if failed:
        return FAILED
    return FINDINGS if strict and any(result.verdict == "warn" for result in results) else OK


def lines_of(result: Result) -> list[str]:
    """One line, the fix below it, and for what is not well what was tried."""
    found = result.found
    lines = [f"{MARKS[found.verdict]}  {result.title:{TITLE}}{took(result.seconds):>8}  {clean(found.message, 500)}"]
    pad = " " * 6
    if found.fix:
        lines.append(f"{pad}fix: {clean(found.fix, 300)}")
    if found.verdict != "ok":
        lines += [f"{pad}{clean(note, 300)}" for note in found.notes]
        lines += [f"{pad}tried: {clean(found.tried, 300)}"] * bool(found.tried)
    return lines


def verdict_of(results: list[Result]) -> str:
    """The last line, in words."""
    failed = [result.title for result in results if result.verdict == "fail"]
    warned = [result.title for result in results if result.verdict == "warn"]
    if failed:
        return f"not ready: {', '.join(failed)}"
    return f"ready, with warnings: {', '.join(warned)}" if warned else "ready"


def _data(args: argparse.Namespace, context: Context, results: list[Result], code: int) -> Json:
    return {
        "ok": code == OK,
        "config": str(context.config),
        "target": args.target,
        "config_hash": context.loaded.config_hash if context.loaded else None,
        "checks": [result.as_dict() for result in results],
    }
