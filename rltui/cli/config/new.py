"""`rltui config new`: a config to begin with, from a sample or from a run, comments and all."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from pathlib import Path

from rltui.cli.config.change import edited, effect, target, typed
from rltui.cli.config.spellings import Document
from rltui.cli.configs import add_examples, columns, config_path, printable, read_text, refusal, run_folder, said
from rltui.cli.output import OK, CliError, Json, emit, program, say, words
from rltui.samples import samples, title
from rltui.text import clean, fit
from trainer.config import ConfigError
from trainer.config.save import SaveError, save

FIRST = "demo"  # the sample that is taken when none is named


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"a sample (default: {FIRST}); --list names them")
    parser.add_argument("--from", dest="source", metavar="RUN|FILE", help="copy this run's config, or this file")
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
    name, source = _source(args)
    out = args.out or f"{name}.toml"
    try:
        text = _changed(read_text(source), out, args.sets)
    except ConfigError as error:
        raise refusal(error, "nothing was written") from error
    if out == "-":
        emit({"file": None, "from": str(source), "text": text}, as_json=args.json)
        if not args.json:
            sys.stdout.write(text)
            sys.stdout.flush()
        return OK
    path = Path(out).expanduser()
    if path.exists() or path.is_symlink():
        raise CliError(f"{path} exists and is left alone; give another --out")
    try:
        save(path, text, was=None)
    except SaveError as error:
        raise CliError(printable(error.strerror or str(error))) from error
    emit({"file": str(path), "from": str(source)}, as_json=args.json)
    say(f"wrote {path}, a copy of {source}", words(args))
    for verb in ("validate", "train"):
        say(f"  {program()} {verb} {shlex.quote(str(path))}", words(args))
    return OK


def _list(args: argparse.Namespace) -> int:
    rows: list[Json] = [{"name": name, "path": str(path), "title": title(path)} for name, path in samples().items()]
    emit({"samples": rows}, as_json=args.json)
    pad = max((len(row["name"]) for row in rows), default=0) + 2
    for row in [] if args.json else rows:
        say(fit(f"{row['name']:{pad}}{clean(row['title'])}", columns()), sys.stdout)
    return OK


def _source(args: argparse.Namespace) -> tuple[str, Path]:
    """The new config's name, and the file that it begins with."""
    if args.source is None:
        known, name = samples(), (args.name or FIRST).removesuffix(".toml")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(known) or "none; install rltui again"
            hint = f"did you mean {near[0]}?" if near else f"there are: {listed}"
            raise CliError(f"no sample {clean(name)!a}; {hint}")
        return name, known[name]
    if args.name is not None:
        raise CliError(f"both a sample, {clean(args.name)}, and --from; give one")
    folder = run_folder(args.source)
    path = config_path(args.source) if folder is None else folder / "config.toml"
    return (path.parent.name if folder else f"{path.stem}-copy"), path


def _changed(text: str, name: str, sets: list[str]) -> str:
    """The text with every `--set` in it. CliError: one cannot be made, or makes the config invalid."""
    document = Document(text, name)
    targets = []
    for pair in sets:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CliError(f"--set {clean(pair)!a} has no `=`: --set training.group_size=4")
        targets += target(document, key, typed(value))
    after = edited(text, targets) if targets else text
    if broken := effect(text, after, name, [item.key for item in targets]).broken:
        raise CliError(f"{said(broken)}\nnothing was written", details={"errors": [item.as_dict() for item in broken]})
    return after
