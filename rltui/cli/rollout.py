"""`rltui rollout RUN ID`: one episode, its facts and its turns; with `--json` all that was recorded of it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rltui.cli.common import add_run_argument, chosen_run
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say
from rltui.launch.runs import RunAt
from rltui.sources.base import RunSource, Unreadable
from rltui.text import clean
from rltui.text_lines import PIECE, printable

if TYPE_CHECKING:
    from rltui.model.vocabulary import Vocabulary
    from rltui.model.xray import Xray

BLOCK = 2_000  # rows of the index looked at at a time


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("id", metavar="ID", help="its number, or its correlation id or a beginning of it")
    parser.add_argument("--tokens", action="store_true", help="with --json: every token with all that is known of it")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui rollout demo 12",
        "rltui rollout demo 12 --json --tokens",
    )


def run(args: argparse.Namespace) -> int:
    from rltui.model.xray import xray_of

    chosen = chosen_run(args)
    source = chosen.source
    try:
        n = _number(source, args.id, chosen)
        episode, updates = source.episode(n), source.updates(n)
        if episode is None:
            raise CliError(f"the text of episode {n} is gone; `rltui rollouts` still has its numbers", code=FAILED)
        xray = xray_of(episode, updates, source.tokens, _vocabulary(source)) if args.tokens else None
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED) from error
    document: Json = {"run": chosen.name, "n": n, "episode": episode, "updates": updates}
    if args.tokens:
        document["tokens"] = _tokens(xray)
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(episode, updates):
            if not say(line, sys.stdout):
                break
    return OK


def _vocabulary(source: RunSource) -> Vocabulary | None:
    from rltui.model.vocabulary import Vocabulary

    document = source.vocabulary()
    return Vocabulary(document) if document is not None else None


def _number(source: RunSource, wanted: str, chosen: RunAt) -> int:
    count = source.episode_count()
    if wanted.isdecimal() and len(wanted) < 16:
        if int(wanted) < count:
            return int(wanted)
        raise CliError(f"no episode {wanted}: {chosen.name} has {count}, the first is 0")
    found: list[tuple[int, Any]] = [
        (row["n"], row.get("cid"))
        for start in range(0, count, BLOCK)
        for row in source.index(start, start + BLOCK, ("cid",))
        if str(row.get("cid")).startswith(wanted)
    ]
    exact = [n for n, cid in found if cid == wanted]
    if len(exact or found) == 1:
        return (exact or [n for n, _ in found])[0]
    if not found:
        raise CliError(f"no episode {clean(wanted, 100)}: ID is its number, or its correlation id or a beginning of it")
    some = ", ".join(str(n) for n, _ in found[:8])
    raise CliError(f"{len(found)} episodes begin with {clean(wanted, 100)}: {some}{', …' if len(found) > 8 else ''}")


def _tokens(xray: Xray | None) -> list[Json]:
    found: list[Json] = []
    for branch in xray.branches if xray is not None else ():
        for i, id_ in enumerate(branch.ids):
            trained = branch.trained[i]
            found.append(
                {
                    "branch": branch.number,
                    "turn": branch.turn[i],
                    "id": id_,
                    "text": branch.texts[i],
                    "trained": trained,
                    "logp_behavior": branch.behavior[i] if branch.behavior is not None and trained else None,
                    "logp_learner": branch.learner[i] if branch.learner is not None and trained else None,
                    "advantage": branch.value("advantage", i),
                    "version": branch.version[i],
                }
            )
    return found


def _lines(episode: Json, updates: Json) -> list[str]:
    from rltui.model.transcript import Transcript

    model = Transcript(episode, updates)
    model.open_all()
    lines = []
    for item in model.items:
        paragraph = item.paragraph
        label = printable(paragraph.label[:60])
        text = printable(paragraph.text[:PIECE])
        if item.fold is not None and item.fold.turn is not None:
            lines.append(f"── {text} ── {printable(paragraph.right[:200])}")
        else:
            lines.append(f"{label:<11}{text}".rstrip())
    return lines
