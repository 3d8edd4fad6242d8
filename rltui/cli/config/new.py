"""`rltui config new`: a config to begin with, from a sample or from a run, comments and all."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from pathlib import Path

from rltui.cli.config.change import edited, effect, target, typed
from rltui.cli.config.spellings import Document
from rltui.cli.configs import (
    cannot_run,
    config_path,
    hanging,
    open_config,
    printable,
    read_text,
    refusal,
    run_of,
    said,
    wrapped,
)
from rltui.cli.output import OK, CliError, Json, add_examples, emit, program, put, say, words
from rltui.cli.task_apps import start_problems
from rltui.launch.runs import RunAt
from rltui.model.as_it_ran import as_it_ran
from rltui.model.ran_with import run_values
from rltui.samples import samples, title
from rltui.sources.base import Unreadable
from rltui.text import clean
from trainer.config import ConfigError, Problem
from trainer.config.save import SaveError, save

FIRST = "demo"  # the sample that is taken when none is named


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"a sample (default: {FIRST}); --list names them")
    parser.add_argument("--from", dest="source", metavar="RUN|FILE", help="copy a run's config, as it ran, or a file")
    parser.add_argument("--out", metavar="FILE", help="the new file (default: NAME.toml); - prints it")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="KEY=VALUE", help="change a key in the new file"
    )
    parser.add_argument("--list", action="store_true", help="list the samples")
    parser.add_argument("--json", action="store_true", help="print one JSON object, words on stderr")
    add_examples(
        parser,
        "rltui config new --list",
        "rltui config new demo --out my.toml --set training.learning_rate=5e-4",
        "rltui config new --from runs/demo-rl_0123456789abcdef --out again.toml",
    )


def run(args: argparse.Namespace) -> int:
    if args.list:
        return _list(args)
    name, source, run = _source(args)
    out = args.out or f"{name}.toml"
    try:
        before = read_text(source)
        if run is not None:
            before = as_it_ran(before, out, _values(run))
        elif args.source is None and out != "-":  # the commands in its comments are for the new file
            before = before.replace(f"sample_configs/{name}.toml", shlex.quote(out))
        text = _changed(before, out, args.sets)
    except ConfigError as error:
        raise refusal(error, "nothing was written") from error
    if out == "-":
        emit({"file": None, "from": str(source), "text": text}, as_json=args.json)
        if not args.json:
            put(text, sys.stdout)
        return OK
    path = Path(out).expanduser()
    if path.exists() or path.is_symlink():
        raise CliError(f"{path} exists and is left alone; give another --out")
    try:
        save(path, text, was=None)
    except SaveError as error:
        raise CliError(printable(error.strerror or str(error))) from error
    wrong, refusals = _at_its_place(path)
    data = {"file": str(path), "from": str(source), "cannot_run": [problem.key for problem in refusals]}
    emit(data | {"errors": [problem.as_dict() for problem in wrong]}, as_json=args.json)
    say(printable(f"wrote {path}, a copy of {source}"), words(args))
    keys = ", ".join(dict.fromkeys(problem.key or problem.why for problem in wrong))
    invalid = f"it is not valid there: {keys}" if wrong else ""
    for why in filter(None, (invalid, cannot_run(refusals))):
        say(wrapped(printable(f"but {why}"), words(args)), words(args))
    for verb in ("validate",) if wrong or refusals else ("validate", "train"):
        say(f"  {program()} {verb} {shlex.quote(str(path))}", words(args))
    return OK


def _list(args: argparse.Namespace) -> int:
    rows: list[Json] = [{"name": name, "path": str(path), "title": title(path)} for name, path in samples().items()]
    emit({"samples": rows}, as_json=args.json)
    pad = max((len(row["name"]) for row in rows), default=0) + 2
    for row in [] if args.json else rows:
        for line in hanging(clean(row["title"]), f"{row['name']:{pad}}"):
            say(line, sys.stdout)
    return OK


def _at_its_place(path: Path) -> tuple[list[Problem], list[Problem]]:
    """The new file's errors, of which a relative env_file_path may be one; and why a run of it would not start."""
    try:
        return [], start_problems(open_config(str(path)))
    except ConfigError as error:
        return error.problems, []


def _source(args: argparse.Namespace) -> tuple[str, Path, RunAt | None]:
    """The new config's name, the file that it begins with, and the run whose file that is."""
    if args.source is None:
        known, name = samples(), (args.name or FIRST).removesuffix(".toml")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(known) or "none; install rltui again"
            hint = f"did you mean {near[0]}?" if near else f"there are: {listed}"
            raise CliError(f"no sample {clean(name)!a}; {hint}")
        return name, known[name], None
    if args.name is not None:
        raise CliError(f"both a sample, {clean(args.name)}, and --from; give one")
    run = run_of(args.source)
    path = config_path(args.source if run is None else run.place)
    return (f"{path.stem}-copy" if run is None else path.parent.name), path, run


def _values(run: RunAt) -> Json | None:
    try:
        return run_values(run.source)
    except Unreadable as error:
        raise CliError(f"{run}: {error}; nothing was written") from error


def _changed(text: str, name: str, sets: list[str]) -> str:
    """The text with every `--set` in it. CliError: one cannot be made, or makes the config invalid."""
    document = Document(text, name)
    document.refuse_secrets()
    targets = []
    for pair in sets:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CliError("a --set has no `=` in it: --set training.group_size=4")
        targets += target(document, key, typed(key, value))
    after = edited(text, targets) if targets else text
    if broken := effect(text, after, name, [item.key for item in targets]).broken:
        raise CliError(f"{said(broken)}\nnothing was written", details={"errors": [item.as_dict() for item in broken]})
    return after
