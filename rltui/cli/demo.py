"""`rltui demo`: the whole loop on the built-in model and task, and what it changed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rltui.cli.follow import Interrupts
from rltui.cli.output import OK, CliError, Json, add_data_options, add_examples, emit, program, say, words
from rltui.cli.show import run_name, weights
from rltui.cli.start import Plan, add_start_options, follow, hearing, launch, prepare, tell_warnings
from rltui.cli.watch import on_a_terminal, watch
from rltui.launch.runs import in_folder
from rltui.samples import samples
from rltui.sources.base import RunSource
from rltui.text import clean

SAMPLE = "demo"
ANSWERS = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--headless", action="store_true", help="lines of text instead of the interface")
    add_start_options(parser)
    parser.add_argument("--allow-unknown", action="store_true", help="unknown keys are warnings, not errors")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui demo",
        "rltui demo --headless --set training.seed=1",
    )


def run(args: argparse.Namespace) -> int:
    begun = time.monotonic()
    plan = prepare(_sample(), args.sets, run_dir=args.run_dir, allow_unknown=args.allow_unknown)
    tell_warnings(plan)
    with hearing(plan) as heard:
        return _start(plan, args, heard, begun)


def _start(plan: Plan, args: argparse.Namespace, heard: Interrupts, begun: float) -> int:
    stream = words(args)
    started = launch(plan)
    assert plan.loaded is not None
    config = plan.loaded.config
    say(f"{config.policy.model_name} learns {config.services.task_url}", stream)
    say(f"run {plan.job.run_dir}", stream)
    if on_a_terminal() and not (args.headless or args.quiet or args.json or args.out):
        status, code = watch(plan, started, args, heard)
    else:
        status, code = follow(plan, started, args, heard)
    if code == OK and status.get("state") == "succeeded":
        for line in _answers(started.source, status):
            say(line, stream)
        name = run_name(in_folder(plan.job.folder))
        for line in weights(started.source):
            say(line, stream)
        say("next", stream)
        command = program()
        say(f"  {command} show {name}", stream)
        say(f"  {command} runs", stream)
        say(f"  {command} train {plan.job.config} --set training.seed=1", stream)
    emit(_report(plan.job.folder, status, time.monotonic() - begun), as_json=args.json, out=args.out)
    return code


def _sample() -> Path:
    found = samples().get(SAMPLE)
    if found is None:
        raise CliError(f"the sample config {SAMPLE} is missing from this installation: install rltui again")
    return found


def _report(run_dir: Path, status: Json, seconds: float) -> Json:
    results = status.get("results") or {}
    evaluation = results.get("evaluation") or {}
    return {
        "run_dir": str(run_dir),
        "state": status.get("state"),
        "seconds": round(seconds, 1),
        "iterations": results.get("iterations", status.get("iteration")),
        "eval_before": evaluation.get("first"),
        "eval_after": evaluation.get("last"),
        "samples_per_sec": results.get("samples_per_sec"),
        "gen_tokens_per_sec": results.get("gen_tokens_per_sec"),
        "peak_rss_mb": results.get("peak_rss_mb"),
        "engine": next((engine.get("kind") for engine in status.get("engines") or []), None),
        "error": status.get("error"),
    }


def _answers(source: RunSource, status: Json) -> list[str]:
    """The first held-out seeds, as answered before training and after it."""
    before = _by_seed(source, 0)
    after = _by_seed(source, int(status.get("iteration") or 0))
    lines = []
    for seed in sorted(before.keys() & after.keys())[:ANSWERS]:
        old, new = source.episode(before[seed]["n"]), source.episode(after[seed]["n"])
        if old is None or new is None:
            continue
        lines.append(f"  {_said(old, 'user')}")
        lines.append(f"    before  {_said(old, 'assistant')}  ({_reward(old)})")
        lines.append(f"    after   {_said(new, 'assistant')}  ({_reward(new)})")
    return ["answers to held-out questions", *lines] if lines else []


def _by_seed(source: RunSource, iteration: int) -> dict[int, Json]:
    rows: dict[int, Json] = {}
    for row in source.episodes("eval", iteration):
        rows.setdefault(row["seed"], row)
    return rows


def _said(episode: Json, role: str) -> str:
    """What this role said last in the episode, as one safe line."""
    said = [
        message.get("text")
        for turn in episode.get("turns") or []
        for message in turn.get("messages") or []
        if message.get("role") == role
    ]
    return clean(said[-1] if said else "(nothing)", 100)


def _reward(episode: Json) -> str:
    reward = episode.get("R")
    return "no reward" if reward is None else f"reward {reward:.2f}"
