"""`rltui show RUN`: what one run is, does and wants, on one screen; `--follow` stays until it ends."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import deque
from pathlib import Path

from rltui.cli.common import add_run_argument, age_s, chosen_run, summary
from rltui.cli.follow import Follower, ending, reward_of
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, program, say, words
from rltui.cli.progress import Printer, number
from rltui.launch.runs import RunAt, is_address
from rltui.model.doing import doing
from rltui.model.event_view import Event, told
from rltui.model.now import written_later
from rltui.sources.base import TERMINAL, RunSource, Unreadable
from rltui.sources.find import default_runs_dir
from rltui.text import clean
from rltui.words import duration

LAST_EVENTS = 8
LAST_CHECKPOINTS = 5


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--follow", action="store_true", help="stay until it ends; Ctrl-C only leaves it")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui show demo",
        "rltui show demo --follow",
        "rltui show http://127.0.0.1:8787/api/rl/jobs/rl_0123456789abcdef --json",
    )


def run(args: argparse.Namespace) -> int:
    chosen = chosen_run(args)
    source = chosen.source
    try:
        status = source.status()
        code = OK
        if args.follow and not (status and status.get("state") in TERMINAL):
            follower = Follower(source, Printer(words(args)))
            follower.skip_history()
            status, code = follower.run()
            status = status or source.status()
        document = _document(chosen, source, status)
    except Unreadable as error:
        raise CliError(f"{chosen}: {error}", code=FAILED, details={"run": summary(chosen, None)}) from error
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        for line in _lines(document, status or {}):
            say(line, sys.stdout)
    return code


def _document(chosen: RunAt, source: RunSource, status: Json | None) -> Json:
    return {
        **summary(chosen, status),
        "status": status,
        "events": _last_events(source),
        "checkpoints": source.checkpoints(),
        "next": next_commands(chosen, status, shown=True),
    }


def _last_events(source: RunSource) -> list[Event]:
    last: deque[Event] = deque(maxlen=LAST_EVENTS)
    part = source.events()
    last.extend(told(part.rows))
    while part.more:
        part = source.events(part.cursor)
        last.extend(told(part.rows))
    return list(last)


def next_commands(chosen: RunAt, status: Json | None, *, shown: bool = False) -> list[str]:
    """What a person would do next with a run in this state. `shown`: they look at it already."""
    state = (status or {}).get("state")
    name = run_name(chosen)
    runs = [f"{program()} runs"] if chosen.folder is not None else []
    if state in TERMINAL:
        look = [] if shown else [f"{program()} show {name}"]
        fetch = (
            [f"{program()} export {name} --what adapter"]
            if chosen.folder is None and chosen.source.checkpoints()
            else []
        )
        return [*_again(chosen, status or {}), *fetch, *look, *runs]
    paused = [f"{program()} steer {name} resume"] if state == "paused" and _by_request(status or {}) else []
    return [*paused, f"{program()} show {name} --follow", f"{program()} stop {name}", *runs]


def _by_request(status: Json) -> bool:
    return (status.get("paused") or {}).get("reason") == "request"


def _again(chosen: RunAt, status: Json) -> list[str]:
    """The command that goes on with a run that is not complete, or else starts it once more as it was given."""
    if status.get("end_reason") == "completed":
        return []
    if any(checkpoint.get("resumable") for checkpoint in chosen.source.checkpoints()):
        return [f"{program()} train --resume {run_name(chosen)}"]
    folder = chosen.folder
    if status.get("state") == "succeeded" or folder is None or not (folder / "config.toml").exists():
        return []
    words = ["train", str(folder / "config.toml")]
    for item in _sets(folder):
        words += ["--set", item]
    return [f"{program()} {shlex.join(words)}"]


def _sets(folder: Path) -> list[str]:
    """KEY=VALUE of each value that was given on the command line. None of a run that ended before it wrote them."""
    from rltui.cli.config.values import leaves  # pydantic: only where it is needed
    from trainer.config.toml_values import format_value
    from trainer.rundir.layout import RunPaths

    try:
        values = leaves(json.loads(RunPaths(folder).read("resolved.json"))["values"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [f"{leaf.key}={format_value(leaf.value)}" for leaf in values.values() if leaf.at == "--set"]


def weights(source: RunSource) -> list[str]:
    """Where the newest checkpoint of a run is."""
    found = source.checkpoints()
    return [f"weights: {clean(found[-1]['path'], 300)}"] if found and found[-1].get("path") else []


def run_name(chosen: RunAt) -> str:
    """How the run is named in a command that is typed here: by its name where that is enough."""
    folder = chosen.folder
    short = folder is not None and folder.parent == default_runs_dir().resolve()
    return shlex.quote(chosen.name if short else chosen.place)


def _lines(document: Json, status: Json) -> list[str]:
    state = document["state"]
    lines = [f"{clean(document['name'], 120)}  {state}"]
    if state in TERMINAL:
        lines += [f"  {line}" for line in ending(status)]
    else:
        lines.append(f"  {doing(status, time.time())}")
        steps = f"{number(document['step'], '{}')}/{number(document['steps'], '{}')}"
        lines.append(f"  step {steps}  left {duration(document['eta_s'])}")
    latest, lag = status.get("latest") or {}, status.get("lag") or {}
    lines.append(
        f"  reward {number(document['reward'])}  eval {number(document['eval_reward'])}"
        f"  loss {number(latest.get('gspo/loss'), '{:+.4f}')}  lag {number(lag.get('mean'), '{:.1f}')}"
        f"  weights v{number(status.get('weight_version'), '{}')}"
    )
    best = (status.get("results") or {}).get("evaluation", {}).get("best")
    if reward_of(best) is not None:
        lines.append(f"  best evaluation {reward_of(best):.3f}")
    episodes = status.get("episodes") or {}
    lines.append(
        f"  episodes {number(episodes.get('accepted'), '{}')} accepted,"
        f" {number(episodes.get('excluded'), '{}')} excluded"
    )
    if later := written_later(status):
        lines.append(f"  warning: {later}")
    for warning in (status.get("warnings") or [])[-3:]:
        lines.append(f"  warning: {clean(warning.get('text'), 200)}")
    lines.append(f"  {'address' if is_address(document['path']) else 'folder'} {document['path']}")
    if document["events"]:
        lines.append("last events")
    for before, event in zip([{}, *document["events"]], document["events"], strict=False):
        if event.get("message") == before.get("message"):  # a failure of the training is one of the job, too
            continue
        ago = duration(age_s(event.get("created_at")))
        lines.append(f"  {ago:>11} ago  {clean(event.get('message'), 140)}")
    if document["checkpoints"]:
        lines.append("checkpoints")
    for checkpoint in document["checkpoints"][-LAST_CHECKPOINTS:]:
        marks = [word for word, key in (("best", "is_best"), ("resumable", "resumable")) if checkpoint.get(key)]
        lines.append(f"  {clean(checkpoint.get('path'), 120)}  {', '.join(marks)}".rstrip())
    return [*lines, *(["next"] if document["next"] else []), *(f"  {command}" for command in document["next"])]
