"""`rltui export RUN --what …`: weights, numbers, episodes or a report, as files that stand by themselves."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rltui.cli.common import add_run_argument, chosen_run, summary
from rltui.cli.configs import add_examples
from rltui.cli.output import FAILED, OK, CliError, Json, emit, say, words
from rltui.sources.base import Unreadable
from rltui.sources.local import LocalRunSource
from rltui.text import clean
from rltui.words import size

WHAT = ("adapter", "merged", "metrics", "rollouts", "report")
FORMATS = {"metrics": ("csv", "parquet"), "rollouts": ("jsonl", "parquet"), "report": ("html",)}


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--what", choices=WHAT, required=True, metavar="WHAT", help=", ".join(WHAT))
    parser.add_argument("--out", type=Path, metavar="PATH", help="file or folder that is made (default: named for RUN)")
    formats = sorted({form for forms in FORMATS.values() for form in forms} - {"html"})
    parser.add_argument("--format", choices=formats, metavar="FORMAT", help="csv, jsonl or parquet (extra: parquet)")
    parser.add_argument("--checkpoint", default="best", metavar="STEP", help="best (the default), latest, or a step")
    parser.add_argument("--base", metavar="MODEL", help="of merged: the base model (default: that of the run)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, words on stderr")
    add_examples(
        parser,
        "rltui export RUN --what adapter --out my-adapter",
        "rltui export RUN --what merged --checkpoint latest",
        "rltui export RUN --what metrics --format parquet",
        "rltui export RUN --what report",
    )


def run(args: argparse.Namespace) -> int:
    form = _format(args)
    folder = chosen_run(args)
    out = args.out or Path(f"{folder.name}-{args.what}{f'.{form}' if form else ''}")
    if out.exists() or out.is_symlink():
        raise CliError(f"{out} is there already; give another --out")
    try:
        if form:
            about = _in_file(out, lambda aside: _file(aside, folder, args.what, form))
        else:
            about = _in_folder(out, lambda aside: _weights(aside, folder, args))
    except Unreadable as error:
        raise CliError(f"{folder}: {error}", code=FAILED, details={"run": summary(folder, None)}) from error
    except OSError as error:
        raise CliError(f"{out} cannot be written: {error.strerror or error}", code=FAILED) from error
    emit({"name": folder.name, "what": args.what, "format": form, "path": str(out), **about}, as_json=args.json)
    counted = f"{about['rows']:,} rows, " if about.get("rows") is not None else ""
    say(f"{out}: {counted}{size(about['bytes'])}", words(args))
    return OK


def _format(args: argparse.Namespace) -> str:
    """The ending of the file; "" for weights, which are a folder. CliError: not of that kind of thing."""
    forms = FORMATS.get(args.what, ())
    ending = args.out.suffix.removeprefix(".") if args.out is not None else ""
    form = args.format or (ending if ending in forms else "")
    if form and form not in forms:
        raise CliError(f"{args.what} goes into {' or '.join(forms) or 'a folder'}, not into {form}")
    return form or (forms[0] if forms else "")


def _file(out: Path, folder: Path, what: str, form: str) -> Json:
    from rltui.export import tables

    source = LocalRunSource(folder)
    if what == "report":
        from rltui.export.report import write_report

        write_report(out, source)
        return {}
    write: dict[tuple[str, str], tables.Write] = {
        ("metrics", "csv"): tables.metrics_csv,
        ("metrics", "parquet"): tables.metrics_parquet,
        ("rollouts", "jsonl"): tables.episodes_jsonl,
        ("rollouts", "parquet"): tables.episodes_parquet,
    }
    try:
        return {"rows": write[what, form](out, source)}
    except tables.NoParquet as error:
        raise CliError(str(error)) from error


def _weights(out: Path, folder: Path, args: argparse.Namespace) -> Json:
    from rltui.export import weights
    from trainer.rundir.reader import RunReader

    try:
        checkpoint = weights.chosen(RunReader(folder).checkpoints(), args.checkpoint)
        if args.what == "adapter":
            count = weights.copy_adapter(checkpoint, out)
        else:
            dtype = _dtype(folder)
            count = weights.merge(checkpoint, out, args.base, dtype, lambda text: say(clean(text, 300)))
    except weights.NoWeights as error:
        raise CliError(f"{folder.name}: {clean(error, 600)}", code=FAILED) from error
    return {"step": checkpoint.step, "bytes": count}


def _dtype(folder: Path) -> str | None:
    """What the run computed in: the engine served weights of that kind."""
    document: Any = LocalRunSource(folder).document("resolved.json") or {}
    for part in ("values", "training", "dtype", "value"):
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, str) else None


def _in_file(out: Path, write: Callable[[Path], Json]) -> Json:
    """The file is there whole, or not at all."""
    with tempfile.TemporaryDirectory(dir=_parent(out), prefix=f".{out.name}.") as aside:
        about = write(Path(aside, out.name))
        count = Path(aside, out.name).stat().st_size
        os.replace(Path(aside, out.name), out)
    return {**about, "bytes": count}


def _in_folder(out: Path, write: Callable[[Path], Json]) -> Json:
    """Likewise."""
    aside = Path(tempfile.mkdtemp(dir=_parent(out), prefix=f".{out.name}."))
    try:
        about = write(aside / out.name)
        os.rename(aside / out.name, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return about


def _parent(out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.parent
