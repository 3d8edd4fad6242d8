"""`rltui config schema`: the JSON Schema of a config, for editors."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rltui.cli.output import OK, CliError, add_examples, say
from trainer.config.json_schema import json_schema


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it to FILE")
    parser.add_argument("--json", action="store_true", help="no difference: it is JSON")
    add_examples(
        parser,
        "rltui config schema --out rltui.schema.json",
        "then, as the first line of a config:   #:schema ./rltui.schema.json   (Taplo, Even Better TOML)",
    )


def run(args: argparse.Namespace) -> int:
    text = json.dumps(json_schema(), indent=2, ensure_ascii=True, allow_nan=False)
    if args.out is None:
        say(text, sys.stdout)
        return OK
    try:
        args.out.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write {args.out}: {error.strerror or error}; give another --out") from error
    say(f"wrote {args.out}; an editor finds it by this first line of a config: #:schema ./{args.out.name}")
    return OK
