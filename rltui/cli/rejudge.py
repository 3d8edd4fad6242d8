"""`rltui rejudge RUN --rubric F`: recorded episodes judged by another rubric, old scores against new ones."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltui.cli.common import add_run_argument, chosen_run, folder_of
from rltui.cli.output import FAILED, OK, CliError, Json, add_data_options, add_examples, emit, say, words
from rltui.cli.progress import number
from rltui.cli.table import table
from rltui.model.judge_text import dollars, tries_failed
from rltui.text import clean, fit

if TYPE_CHECKING:
    from trainer.judge.judge import Judge
    from trainer.judge.rejudge import Forecast, Rejudged
    from trainer.rundir.attempts import Earlier

LAST = 50
_BLOCK = 1_000  # rows of the index read at a time


def configure(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--rubric", type=Path, required=True, metavar="FILE", help="a rubric, .toml or .json")
    parser.add_argument("--last", type=int, default=LAST, metavar="N", help=f"newest episodes (default: {LAST})")
    parser.add_argument("--yes", action="store_true", help="do not ask, whatever it costs")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui rejudge demo --rubric rubric.toml",
        "rltui rejudge demo --rubric rubric.json --last 50 --yes --json",
    )


def run(args: argparse.Namespace) -> int:
    from trainer.judge.errors import JudgeMisconfigured
    from trainer.rundir.attempts import NoEarlierAttempt, read_earlier
    from trainer.rundir.reader import RunReader

    if args.last < 1:
        raise CliError("--last is a number of episodes, 1 or more")
    folder = folder_of(chosen_run(args), "rejudge")
    try:
        earlier, reader = read_earlier(folder), RunReader(folder)
        lines = _newest(reader, args.last)
        known = [*reader.judge_lines(), *_rejudged(reader)]
    except NoEarlierAttempt as error:
        raise CliError(clean(error, 600)) from error
    except OSError as error:
        raise CliError(f"{folder} cannot be read: {error.strerror}", code=FAILED) from error
    if not lines:
        raise CliError(f"{folder.name} has no episode that could be judged", code=FAILED)
    file = _Lines(folder, f"rejudge-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.jsonl")
    try:
        document = _judged(args, folder, earlier, lines, known, file)
    except JudgeMisconfigured as error:
        raise CliError(f"{clean(error.message, 600)}\n{clean(error.hint, 600)}") from error
    finally:
        file.close()
    emit(document, as_json=args.json, out=args.out)
    if not args.json:
        for line in _told(document):
            say(line, words(args))
    return OK if document["scored"] else FAILED


def _judged(
    args: argparse.Namespace, folder: Path, earlier: Earlier, lines: list[Json], known: list[Json], file: _Lines
) -> Json:
    """Asks, judges, sums up. Raises CliError, JudgeMisconfigured."""
    from trainer.judge.cache import known_replies
    from trainer.judge.choose import make_judge
    from trainer.judge.lookup import resolve_rubric
    from trainer.judge.rejudge import Rejudging, forecast, judge_config, seen
    from trainer.judge.rubric import read_rubric_file

    value = {key: leaf["value"] for key, leaf in earlier.values.items()}
    given = read_rubric_file(args.rubric)
    config = judge_config(earlier.values, given)
    url = value.get("services.judge_url") if config.type == "llm" else None
    resolved = resolve_rubric(config.options, folder=None, given=given, service=url is not None)
    told, env_name = _task(folder), str(value.get("rollout.env_name") or "")
    again = Rejudging(file.write)
    judge = make_judge(
        config,
        resolved,
        record=again.record,
        judge_url=url,
        policy_name=str(value.get("rollout.policy_name") or ""),
        known=known_replies(known),
        code_from=Path(earlier.config_name).parent,
    )
    for text in resolved.warnings:
        say(f"warning: {clean(text, 300)}")
    pairs = [(line, seen(line, told, env_name)) for line in lines]
    expected = forecast([episode for _, episode in pairs], judge.rubric, config, judge.model, known)
    _ask(args, judge, expected, len(pairs))
    results = asyncio.run(_run(again, judge, pairs))
    blend = value.get("judge.reward_blend") or {}
    document = _document(folder, judge, results, (blend.get("event", 0.0), blend.get("outcome", 0.0)))
    return {**document, "rubric_file": str(args.rubric), "file": file.name, **file.calls.totals()}


async def _run(again: Any, judge: Judge, pairs: list[Any]) -> list[Rejudged]:
    count, shown = 0, sys.stderr.isatty()

    def done(_: Rejudged) -> None:
        nonlocal count
        count += 1
        if shown and (count % 10 == 0 or count == len(pairs)):
            say(f"{count}/{len(pairs)} episodes")

    try:
        found: list[Rejudged] = await again.run(judge, pairs, done)
        return found
    finally:
        await judge.close()


def _ask(args: argparse.Namespace, judge: Judge, expected: Forecast, episodes: int) -> None:
    """Says what it may cost, and goes on with a yes. Rules cost nothing, and are not asked about."""
    if judge.source == "rule":
        return
    who = clean(judge.model or "the judge service", 80)
    price = "at a price that is not known here" if expected.cost_usd is None else f"about ${expected.cost_usd:.4f}"
    say(
        f"{episodes} episodes, {expected.calls} calls of {who}: about {expected.tokens_in} tokens in and"
        f" {expected.tokens_out} out, {price}. An estimate; a call that fails is tried up to three times, and answers"
        " that are known already are not paid again."
    )
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise CliError("nothing was judged: it may cost money; give --yes to go on without being asked")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CliError("nothing was judged")


def _rejudged(reader: Any) -> Iterator[Json]:
    """Calls of earlier re-judgings, which were paid for, too; oldest first."""
    from trainer.rundir.lines import read_lines

    for file in sorted(reader.paths.root.glob("rejudge-*.jsonl")):
        part = None
        while part is None or part.more:
            part = read_lines(reader.paths, file.name, None if part is None else part.cursor)
            yield from part.rows


def _newest(reader: Any, wanted: int) -> list[Json]:
    """Text lines of the newest episodes that count and were played to their end, oldest first."""
    reader.resumes()
    found: list[Json] = []
    end = reader.episode_count()
    while end > 0 and len(found) < wanted:
        start = max(0, end - _BLOCK)
        for row in reversed(reader.index_fields(("excl", "turns", "iteration", "cid"), start, end)):
            if len(found) == wanted:
                break
            if row.get("excl") in (None, "judge_failed") and row.get("turns") and reader.row_counts(row):
                try:
                    found.append(reader.episode(row["n"]))
                except LookupError:
                    continue
        end = start
    return found[::-1]


def _task(folder: Path) -> Json:
    """What the run's judge was told of the task."""
    from trainer.rundir.jsonl import decode_object
    from trainer.rundir.layout import RunPaths

    try:
        judge = decode_object(RunPaths(folder).read("environment.json")).get("judge")
    except (OSError, ValueError):
        return {}
    task = judge.get("task") if isinstance(judge, dict) else None
    return task if isinstance(task, dict) else {}


class _Lines:
    """The calls of one re-judging in the run's folder: made with the first line, 0600, links not followed."""

    def __init__(self, folder: Path, name: str) -> None:
        from rltui.model.judged import Calls

        self._folder, self.name, self.calls = folder, name, Calls()
        self._fd: int | None = None

    def write(self, line: Json) -> None:
        from trainer.rundir.jsonl import encode_line
        from trainer.rundir.layout import RunPaths

        try:
            if self._fd is None:
                self._fd = RunPaths(self._folder).open(self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(self._fd, encode_line(line))
        except OSError as error:
            raise CliError(f"{self._folder / self.name} cannot be written: {error.strerror}", code=FAILED) from error
        self.calls.add(line)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)


def _document(folder: Path, judge: Judge, results: list[Rejudged], weights: tuple[float, float]) -> Json:
    import msgspec

    from rltui.model.judged import correlation
    from trainer.judge.score import overall

    old = [overall(result.old_event, result.old_outcome, *weights) for result in results]
    new = [overall(result.event, result.outcome, *weights) for result in results]
    env = [result.env for result in results]
    episodes = [
        {**msgspec.to_builtins(result), "old": before, "new": after}
        for result, before, after in zip(results, old, new, strict=True)
    ]
    return {
        "run": folder.name,
        **judge.describe(),
        "rejudged": len(results),
        "scored": sum(score is not None for score in new),
        "mean_old": _mean(old),
        "mean_new": _mean(new),
        "mean_reward": _mean([result.reward for result in results]),
        "mean_reward_if": _mean([result.reward_if for result in results]),
        "correlation_old_new": correlation(old, new),
        "correlation_old_env": correlation(old, env),
        "correlation_new_env": correlation(new, env),
        "episodes": episodes,
    }


def _mean(values: list[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given else None


def _told(document: Json) -> list[str]:
    cells: list[tuple[str, ...]] = [("EPISODE", "ENV", "OLD", "NEW", "CHANGE", "R", "R IF", "")]
    for row in document["episodes"]:
        change = None if row["old"] is None or row["new"] is None else row["new"] - row["old"]
        cause = "" if row["cause"] is None else f"no score: {clean(row['cause'], 120)}"
        numbers = [number(row[name]) for name in ("env", "old", "new")]
        rewards = [number(row[name]) for name in ("reward", "reward_if")]
        cells.append((number(row["n"], "{}"), *numbers, number(change, "{:+.3f}"), *rewards, cause))
    columns = shutil.get_terminal_size((160, 24)).columns
    estimate = " (estimate, by list prices)" if document["cost_estimated"] else ""
    cost = dollars(document["cost_usd"], document["cost_estimated"])
    correlations = [number(document[f"correlation_{name}"], "{:+.2f}") for name in ("old_new", "old_env", "new_env")]
    tokens = f"{document['tokens_in']}+{document['tokens_out']} tokens"
    file = clean(document["file"], 100)
    lines = [
        *(fit(line, max(20, columns)) for line in table(cells)),
        f"mean score {number(document['mean_old'])} -> {number(document['mean_new'])}, mean reward"
        f" {number(document['mean_reward'])} -> {number(document['mean_reward_if'])};"
        f" {document['scored']} of {document['rejudged']} episodes were scored",
        f"rank correlation old with new {correlations[0]}, old with the task app {correlations[1]},"
        f" new with the task app {correlations[2]}",
        f"{document['tries']} calls, {document['cached']} known already, {tokens}, cost {cost} ${estimate};"
        f" each call is in {file} in the run's folder",
    ]
    if document["failed"]:
        lines.append(f"tries without scores: {tries_failed(document['failed'])}")
    return lines
