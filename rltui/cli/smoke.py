"""`rltui smoke [CONFIG]`: does this task app work, and would a run learn from it? Before any GPU hour is spent."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rltui.cli.configs import STDIN, add_loading_options, config_path, open_config, refusal
from rltui.cli.output import (
    FAILED,
    FINDINGS,
    INTERRUPTED,
    OK,
    CliError,
    add_data_options,
    add_examples,
    emit,
    say,
    words,
)

if TYPE_CHECKING:
    from rltui.smoke.asked import Asked
    from rltui.smoke.runner import Runner

EXIT = {"ready": OK, "ready_with_warnings": OK, "not_ready": FAILED}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="whose task app, seeds and [smoke] keys are taken")
    parser.add_argument("--url", metavar="APP", help="the task app: an address, builtin:NAME, or FILE.py to be served")
    parser.add_argument(
        "--policy",
        metavar="WHO",
        help="who answers: mock, scripted, self (the config's own model), human, gpt-5-nano, openai, groq, or an "
        "endpoint's URL (its key: SMOKE_API_KEY)",
    )
    parser.add_argument("--seeds", type=seeds, metavar="A:B", help="A to B-1, or a list such as 0,3,9")
    parser.add_argument("--group-size", type=_positive, metavar="G", help="episodes of each seed")
    parser.add_argument("--rollouts", type=_positive, metavar="N", help="at most so many episodes in the groups")
    parser.add_argument("--full", action="store_true", help="also compare seeds 0-14, and evaluation with training")
    parser.add_argument("--tui", action="store_true", help="open it in the interface: live, by hand, stage by stage")
    parser.add_argument("--strict", action="store_true", help="exit 1 when there are warnings")
    add_loading_options(parser)
    add_data_options(parser)
    add_examples(
        parser,
        "rltui smoke my.toml",
        "rltui smoke my.toml --policy self --full --out smoke.json",
        "rltui smoke --url my_app.py --seeds 0:4 --group-size 2",
        "rltui smoke --url builtin:guess --policy human",
        "rltui smoke my.toml --tui",
    )


def seeds(text: str) -> tuple[int, ...]:
    """`A:B` without B, `A`, or `A,B,C`."""
    try:
        if ":" in text:
            first, _, last = text.partition(":")
            found = tuple(range(int(first), int(last)))
        else:
            found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 0 or len(found) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!a} is not A:B, such as 0:8, nor a list such as 0,3,9")
    return found


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number of at least 1")
    return number


def run(args: argparse.Namespace) -> int:
    if args.tui:
        return _open(args)
    from rltui.cli.smoke_person import ask_on_terminal
    from rltui.smoke.policies.base import PolicyUnavailable
    from rltui.smoke.policies.choose import make_policy
    from rltui.smoke.preparing import prepared
    from rltui.smoke.runner import Runner
    from rltui.smoke.target import TargetRefused
    from rltui.smoke.traces import TracesUnwritable
    from rltui.text import clean
    from trainer.config import ConfigError

    if args.config is None and args.url is None:
        raise CliError("what is to be tested? give a CONFIG, or --url URL, builtin:NAME or FILE.py")
    try:
        typed = open_config(STDIN, args.sets, allow_unknown=args.allow_unknown) if args.config == STDIN else None
        ready = prepared(_asked(args), typed)
    except ConfigError as error:
        raise refusal(error, "nothing was tested") from None
    try:
        ask = ask_on_terminal if sys.stdin.isatty() else None
        policy = make_policy(ready.settings, environ=os.environ, ask=ask, own_arguments=ready.own)
        return asyncio.run(_follow(Runner(ready.settings, policy), args))
    except (PolicyUnavailable, TargetRefused) as error:
        raise CliError(clean(str(error), 1000)) from None
    except TracesUnwritable as error:
        raise CliError(f"the traces cannot be written to {clean(error)}; change smoke.sqld_db_path") from None


def _open(args: argparse.Namespace) -> int:
    from rltui.cli.app import default_options, open_app

    if args.config == STDIN or args.json or args.out is not None:
        raise CliError("--tui shows a config's file on the screen: give no -, --json or --out")
    asked = _asked(args)
    if asked.config is not None:
        asked = replace(asked, config=asked.config.absolute())
    return open_app(default_options(), None, smoke=asked)


def _asked(args: argparse.Namespace) -> Asked:
    from rltui.smoke.asked import Asked

    return Asked(
        config=None if args.config in (None, STDIN) else config_path(args.config),
        url=args.url,
        policy=args.policy,
        seeds=args.seeds,
        group_size=args.group_size,
        rollouts=args.rollouts,
        full=args.full,
        sets=tuple(args.sets),
        allow_unknown=args.allow_unknown,
    )


async def _follow(runner: Runner, args: argparse.Namespace) -> int:
    """Prints what happens; the first Ctrl-C stops after the current call, the second at once."""
    from rltui.cli.smoke_lines import lines_of, summary
    from rltui.cli.smoke_waiting import Waiting, ticking
    from rltui.smoke.events import Done
    from rltui.smoke.kept import kept_file, write_report
    from rltui.smoke.report import to_json

    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    report, begun = None, False

    def interrupted() -> None:
        at_once = runner.control.stopped.is_set() or not begun
        runner.control.stop()
        if at_once and main is not None:
            main.cancel()
        else:
            say("stopping after the current call; Ctrl-C again stops at once")

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        async with runner:
            begun = True
            say(f"played by {runner.bench.policy.name}", words(args))
            waiting = Waiting(runner.settings.timeout_s)
            async for event in ticking(runner.run()):
                if event is None:
                    if not runner.bench.policy.plays_by_hand and (line := waiting.line(loop.time())):
                        say(line, words(args))
                    continue
                waiting.seen(event, loop.time())
                for line in lines_of(event):
                    say(line, words(args))
                if isinstance(event, Done):
                    report = event.report
    except asyncio.CancelledError:
        report = runner.report()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    assert report is not None
    if report.config_hash is not None:
        with contextlib.suppress(OSError):  # comfort, not data: the preflight looks for it
            write_report(kept_file(report.config_hash), to_json(report))
    for line in summary(report):
        say(line, words(args))
    code = INTERRUPTED if report.interrupted else EXIT[report.verdict]
    if code == OK and args.strict and report.verdict != "ready":
        code = FINDINGS
    emit({"ok": code == OK, **to_json(report)}, as_json=args.json, out=args.out)
    return code
