"""A comparison as plain text. Pure."""

from __future__ import annotations

from rltui.charts.numbers import number
from rltui.cli.table import table
from rltui.model.compare import Comparison
from rltui.text import clean
from rltui.words import amount, duration, short

LETTERS = "ABCDEF"  # what runs are called in the narrow columns of a table


def lines(comparison: Comparison) -> list[str]:
    """What became of the runs, what they were told, what they measured, and what their evaluations say."""
    names = comparison.names
    blocks = [_outcomes(comparison), _config(comparison), _metrics(comparison), _missing(comparison)]
    said = [f"  {LETTERS[i]} {names[i]}: {comparison.sentence(i)}" for i in range(len(names))]
    blocks.append(["evaluation", *said])
    return [line for block in blocks if block for line in block]


def _outcomes(comparison: Comparison) -> list[str]:
    head = (
        "",
        "RUN",
        "STATE",
        "STEP",
        "REWARD (EMA)",
        "EVAL",
        "AT STEP",
        "BEST EVAL",
        "EPISODES",
        "TOKENS",
        "TIME",
        "WHY",
    )
    rows = [head]
    for i, one in enumerate(comparison.outcomes()):
        rows.append(
            (
                LETTERS[i],
                comparison.names[i],
                one.state,
                f"{_whole(one.step)}/{_whole(one.steps)}",
                short(one.reward),
                short(one.eval_reward),
                _whole(one.eval_step),
                short(one.best_eval),
                _whole(one.episodes),
                amount(one.tokens) if one.tokens is not None else "-",
                duration(one.elapsed_s),
                clean(one.error or "", 160),
            )
        )
    return table(rows)


def _whole(value: object) -> str:
    return str(value) if isinstance(value, int) else "-"


def _config(comparison: Comparison) -> list[str]:
    keys = comparison.config()
    differing = [key for key in keys if key.differs]
    unknown = [LETTERS[i] for i in comparison.config_unknown()]
    words = f"config: {len(differing)} of {len(keys)} keys differ" if keys else "config"
    found = [words + (f"; not known of {', '.join(unknown)}" if unknown else "")]
    for key in differing:
        found.append(f"  {clean(key.name, 120)}")
        found += [f"    {letters(value.runs):{len(comparison.runs)}} {clean(value.text, 200)}" for value in key.values]
    return found


def letters(runs: tuple[int, ...]) -> str:
    """ "AC" of runs 0 and 2."""
    return "".join(LETTERS[run] for run in runs)


def _metrics(comparison: Comparison) -> list[str]:
    names = comparison.metrics()
    rows = [("", *LETTERS[: len(comparison.runs)], "")]
    for name in names:
        values = [run.metrics.latest.get(name) for run in comparison.runs]
        rows.append((f"  {name}", *("-" if value is None else number(value) for value in values), ""))
    return ["metrics, the newest values", *table(rows)] if names else []


def _missing(comparison: Comparison) -> list[str]:
    return [f"  {one.name} is missing in {letters(one.runs)}" for one in comparison.missing()]
