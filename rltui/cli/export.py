"""`rltui export RUN --what …`: weights, numbers, episodes or a report, as files that stand by themselves."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.common import add_run_argument, chosen_run, summary
from rltui.cli.output import FAILED, OK, CliError, Json, add_examples, emit, say, words
from rltui.launch.runs import RunAt
from rltui.sources.base import RunSource, Unreadable
from rltui.text import clean
from rltui.words import size

if TYPE_CHECKING:
    from trainer.rundir.checkpoints import Checkpoint

WHAT = ("adapter", "merged", "metrics", "rollouts", "report")
FORMATS = {"metrics": ("csv", "parquet"), "rollouts": ("jsonl", "parquet"), "report": ("html",)}


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--what", choices=WHAT, required=True, help="what is taken out")
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
    chosen = chosen_run(args)
    out = args.out or Path(f"{chosen.name}-{args.what}{f'.{form}' if form else ''}")
    if out.exists() or out.is_symlink():
        raise CliError(f"{out} is there already; give another --out")
    if not out.parent.is_dir():
        raise CliError(f"{out.parent} is no folder: make it first, or give another --out")
    try:
        if form:
            about = _in_file(out, lambda aside: _file(aside, chosen.source, args.what, form))
        else:
            about = _in_folder(out, lambda aside: _weights(aside, chosen, out, args))
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    except OSError as error:
        raise CliError(f"{out} cannot be written: {error.strerror or error}", code=FAILED) from error
    emit({"name": chosen.name, "what": args.what, "format": form, "path": str(out), **about}, as_json=args.json)
    counted = f"{about['rows']:,} rows, " if about.get("rows") is not None else ""
    step = f", of checkpoint step_{about['step']}" if about.get("step") is not None else ""
    say(f"{out}: {counted}{size(about['bytes'])}{step}", words(args))
    if args.what == "adapter" and (base := _base(out)):
        of = "this machine" if chosen.folder else "the server's machine"
        here = f", a folder of {of}: elsewhere give its own place of it" if Path(base).is_absolute() else ""
        say(f"its base model is {clean(base, 300)}{here}", words(args))
    return OK


def _format(args: argparse.Namespace) -> str:
    """The ending of the file; "" for weights, which are a folder. CliError: not of that kind of thing."""
    forms = FORMATS.get(args.what, ())
    ending = args.out.suffix.removeprefix(".") if args.out is not None else ""
    form = args.format or (ending if ending in forms else "")
    if form and form not in forms:
        raise CliError(f"{args.what} goes into {' or '.join(forms) or 'a folder'}, not into {form}")
    return form or (forms[0] if forms else "")


def _file(out: Path, source: RunSource, what: str, form: str) -> Json:
    from rltui.export import tables

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


def _weights(aside: Path, chosen: RunAt, out: Path, args: argparse.Namespace) -> Json:
    """What is fetched from elsewhere lies beside `out` until all of it is there: another call goes on with it."""
    from rltui.export import fetched, weights

    part = out.with_name(f".{out.name}.part")
    try:
        if chosen.folder is not None:
            checkpoint = weights.chosen(_checkpoints(chosen.folder), args.checkpoint)
        else:
            checkpoint = fetched.checkpoint(chosen, args.checkpoint, part, lambda text: say(clean(text, 300)))
        if args.what == "adapter":
            count = weights.copy_adapter(checkpoint, aside)
        else:
            dtype = _dtype(chosen.source)
            count = weights.merge(checkpoint, aside, args.base, dtype, lambda text: say(clean(text, 300)))
    except weights.NoWeights as error:
        raise CliError(f"{chosen.name}: {clean(error, 600)}", code=FAILED) from error
    shutil.rmtree(part, ignore_errors=True)
    return {"step": checkpoint.step, "bytes": count}


def _base(adapter: Path) -> str:
    """The base model that peft will load for it; "" where it names none."""
    try:
        found = json.loads((adapter / "adapter_config.json").read_bytes()).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def _checkpoints(folder: Path) -> list[Checkpoint]:
    from trainer.rundir.reader import RunReader

    try:
        return RunReader(folder).checkpoints()
    except OSError as error:
        raise Unreadable(f"its checkpoints cannot be read: {error.strerror or error}") from error


def _dtype(source: RunSource) -> str | None:
    """What the run computed in: the engine served weights of that kind."""
    document: Any = source.document("resolved.json") or {}
    for part in ("values", "training", "dtype", "value"):
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, str) else None


def _in_file(out: Path, write: Callable[[Path], Json]) -> Json:
    """The file is there whole, or not at all."""
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as aside:
        about = write(Path(aside, out.name))
        count = Path(aside, out.name).stat().st_size
        os.replace(Path(aside, out.name), out)
    return {**about, "bytes": count}


def _in_folder(out: Path, write: Callable[[Path], Json]) -> Json:
    """Likewise."""
    aside = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        about = write(aside / out.name)
        os.rename(aside / out.name, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return about
