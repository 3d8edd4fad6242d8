"""The `rltui` command: finds the verb and loads only its module; `rltui --help` costs next to nothing."""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rltui.cli.output import FAILED, INTERRUPTED, OK, USAGE, CliError, emit, guard_out, safe_streams, say, settle
from rltui.text import plain

ABOUT = "Train language models by reinforcement learning from your terminal."
# verb: (module with configure(parser) and run(args) -> exit code, one line of help)
VERBS = {
    "demo": ("rltui.cli.demo", "train the built-in model on a built-in task and show what it learned"),
    "train": ("rltui.cli.train", "start a run from a config and follow it"),
    "runs": ("rltui.cli.runs", "list the runs of a folder"),
    "show": ("rltui.cli.show", "one run: state, numbers, last events, what to do next"),
    "overview": ("rltui.cli.overview", "what the first tab of a run shows: progress, charts, findings, last events"),
    "events": ("rltui.cli.events", "what happened in a run, in the order of time"),
    "logs": ("rltui.cli.logs", "what the processes of a run wrote"),
    "metrics": ("rltui.cli.metrics", "the numbers behind the charts of a run, by name and step"),
    "compare": (
        "rltui.cli.compare",
        "two to six runs: outcome, config, curves, and a paired test of their evaluations",
    ),
    "doctor": ("rltui.cli.doctor", "what is wrong with a run, why, and which key to change"),
    "steer": ("rltui.cli.steer", "pause, resume, change and save a run while it is going, and wait for its answer"),
    "import": ("rltui.cli.importing", "bring a run from another folder among yours, looked at first"),
    "export": ("rltui.cli.export", "take weights, numbers, episodes or a report out of a run"),
    "attach": ("rltui.cli.attach", "open the interface on one run"),
    "stop": ("rltui.cli.stop", "ask a run to stop, and wait until it has"),
    "rollouts": ("rltui.cli.rollouts", "the episodes of a run that fit an expression, with what became of each"),
    "rollout": ("rltui.cli.rollout", "one episode: its facts and its turns, or all that was recorded of it"),
    "pipeline": ("rltui.cli.pipeline", "who waits for whom in a run, where its time goes, and what the machine does"),
    "judge": ("rltui.cli.judge", "what the judge of a run said, beside the task app's rewards, and what it took"),
    "rejudge": ("rltui.cli.rejudge", "judge recorded episodes by another rubric, without training; may cost money"),
    "serve": ("rltui.cli.serve", "serve jobs over HTTP: clients start, watch and steer runs on this machine"),
    "validate": ("rltui.cli.validate", "check a config: every error at once, each with its fix"),
    "explain": ("rltui.cli.explain", "what a config key does, what it may be, and what it is when it is not given"),
    "config": ("rltui.cli.config", "show, change, compare, make and migrate configs"),
    "preflight": ("rltui.cli.preflight", "look at all that a launch needs: model, memory, GPUs, disk, ports, task app"),
    "smoke": ("rltui.cli.smoke", "test a task app, and whether a run would learn from it, before it is trained on"),
    "taskapp": ("rltui.cli.taskapp", "list the task apps that need no code, or serve one"),
    "scan": ("rltui.cli.scan", "find the task apps that listen on this host"),
    "keys": ("rltui.cli.keys", "every key of the interface, with your own keymap applied"),
    "help": ("rltui.cli.help_topics", "this list, or a topic: the same text as ? in the interface"),
    "completion": ("rltui.cli.completion", "print a shell's completion script"),
}
EXAMPLES = (
    "rltui demo",
    "rltui config new demo --out my.toml",
    "rltui train my.toml --set training.seed=3",
    "rltui show demo",
)
APP = ("rltui.cli.app", "open the interface; with a verb, work without it")

NO_OPTION = "\0"  # before a word that stood behind `--`; the system lets no argument hold it


def main(argv: Sequence[str] | None = None) -> int:
    """Run `rltui ARGV` and return its exit status (0 ok, 1 findings, 2 usage, 3 failed, 130 interrupted)."""
    safe_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    finally:
        settle()


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] in (["-V"], ["--version"]):
        from importlib.metadata import version

        say(f"rltui {version('rltui')}", sys.stdout)
        return OK
    if not arguments and not (sys.stdin.isatty() and sys.stdout.isatty()):
        arguments = ["--help"]
    if not arguments or _is_option(arguments[0]):
        return _verb("rltui", *APP, arguments)
    return _call("rltui", sys.modules[__name__], arguments)


def _call(program: str, group: Any, arguments: list[str]) -> int:
    """Run the verb that `arguments` begin with. A group is a module with VERBS, ABOUT and EXAMPLES."""
    verbs: dict[str, tuple[str, str]] = group.VERBS
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if verb in ("-h", "--help") or (verb == "help" and not (rest and "help" in verbs)):
        say(_overview(program, verbs, group.ABOUT, group.EXAMPLES), sys.stdout)
        return OK
    if verb not in verbs:
        near = difflib.get_close_matches(verb, verbs, n=1)
        hint = f"did you mean `{program} {near[0]}`?" if near else f"`{program} --help` lists them."
        return _misused(f"{program}: no verb {verb!a}; {hint}", arguments)
    module_name, summary = verbs[verb]
    module = importlib.import_module(module_name)
    if hasattr(module, "VERBS"):
        return _call(f"{program} {verb}", module, rest)
    return _verb(f"{program} {verb}", module_name, summary, rest)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-h", "--help")


def _verb(program: str, module_name: str, summary: str, arguments: list[str]) -> int:
    module = importlib.import_module(module_name)
    parser = _Parser(prog=program, description=f"{summary}.", allow_abbrev=False)
    module.configure(parser)
    try:
        args = _parsed(parser, arguments)
    except _Misuse as error:
        parser.print_usage(sys.stderr)
        return _misused(f"{program}: error: {error}", arguments)
    except SystemExit as stop:  # --help
        return int(stop.code or OK)
    return _run(module, args, program)


class _Misuse(Exception):
    """The arguments are not those of the verb."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Misuse(plain(message))  # it repeats words of the command line, which may be names of files


def _misused(message: str, arguments: list[str]) -> int:
    say(message)
    emit({"ok": False, "error": {"message": message}}, as_json="--json" in arguments)
    return USAGE


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The arguments by name. Behind `--` nothing is an option, which argparse forgets where options may be mixed in."""
    if "--" not in arguments:
        return parser.parse_intermixed_args(arguments)
    end = arguments.index("--")
    args = parser.parse_intermixed_args([*arguments[:end], *(f"{NO_OPTION}{word}" for word in arguments[end + 1 :])])
    for name, value in vars(args).items():
        setattr(args, name, [_plain(item) for item in value] if isinstance(value, list) else _plain(value))
    return args


def _plain(value: Any) -> Any:
    return type(value)(str(value).removeprefix(NO_OPTION)) if isinstance(value, str | Path) else value


def _run(module: ModuleType, args: argparse.Namespace, verb: str) -> int:
    try:
        guard_out(args)
        status: int = module.run(args)
        return status
    except CliError as error:
        return _refused(error, args)
    except Exception as error:  # a fault of ours is told in words
        from rltui.sources.base import Unreadable

        if isinstance(error, Unreadable):  # in the midst of a verb: a job server may be gone at any time
            return _refused(CliError(str(error), code=FAILED), args)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            full = f"{verb}: no space left on the disk that its output or its files go to; free some space"
            return _refused(CliError(full, code=FAILED), args)
        if os.environ.get("RLTUI_TRACEBACK"):
            raise
        fault = CliError(f"{verb} hit a fault of its own: {type(error).__name__}: {error}", code=FAILED)
        status = _refused(fault, args)
        say("Set RLTUI_TRACEBACK=1 and run it again to see where; that text belongs in a bug report.")
        return status


def _refused(error: CliError, args: argparse.Namespace) -> int:
    say(plain(str(error)))
    data = {"ok": False, "error": {"message": str(error).splitlines()[0], **error.details}}
    with suppress(OSError):  # stdout may be what is full
        emit(data, as_json=getattr(args, "json", False))
    return error.code


def _overview(program: str, verbs: dict[str, tuple[str, str]], about: str, examples: Sequence[str]) -> str:
    pad = max(map(len, verbs)) + 2
    listed = "\n".join(f"  {name:{pad}}{summary}" for name, (_, summary) in verbs.items())
    shown = "\n".join(f"  {line}" for line in examples)
    alone = f"       {program} [options]   opens the interface\n" if verbs is VERBS else ""
    return (
        f"usage: {program} VERB [options]\n{alone}\n{about}\n\nverbs:\n{listed}\n\nexamples:\n{shown}\n\n"
        f"`{program} VERB --help` explains one.\n"
        "exit status: 0 ok, 1 findings, 2 config or usage, 3 failed, cancelled or not ready, 130 interrupted"
    )
