"""What is known of each token of an episode, and what a colour mode makes of it. Pure.

GSPO clips the ratio of the sequence, s = exp(mean log(learner/behaviour)) (Zheng et al. 2025, section 4): colours of
tokens explain where s comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rltui.model.vocabulary import Vocabulary
from rltui.sources.base import Json
from trainer.taskapp.reading import finite, listing, mapping

MODES = ("logprob", "ratio", "advantage", "version", "trained")
LEAST_LOGPROB = -8.0
_SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # of a two-way scale: the least that holds 98 %

Arrays = dict[str, list[float]]


@dataclass(slots=True)
class Branch:
    """Arrays [tokens] of one branch; None: not recorded."""

    number: int
    ids: list[int]
    turn: list[int]
    trained: list[bool]
    behavior: list[float] | None
    learner: list[float] | None
    advantage: list[float] | None
    version: list[int | None]
    texts: list[str]

    def value(self, mode: str, i: int) -> float | None:
        """Of token i: log-probability, log of the ratio, advantage, weight version, or 1 and 0 for trained."""
        if mode == "trained":
            return float(self.trained[i])
        if not self.trained[i]:
            return None
        if mode == "version":
            found = self.version[i]
            return None if found is None else float(found)
        if mode == "logprob":
            return self.behavior[i] if self.behavior is not None else None
        if mode == "advantage":
            return self.advantage[i] if self.advantage is not None else None
        if self.learner is None or self.behavior is None:
            return None
        return self.learner[i] - self.behavior[i]


@dataclass(slots=True)
class Xray:
    """missing: by mode, the sentence that says why it shows nothing. spread: by two-way mode, the end of its scale."""

    branches: list[Branch]
    missing: dict[str, str]
    spelt: bool  # whether the tokens' texts are known
    spread: dict[str, float] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)

    def level(self, mode: str, value: float | None) -> float:
        """Where `value` stands on the mode's scale, 0 to 1; NaN: nowhere."""
        if value is None:
            return math.nan
        if mode == "logprob":
            return min(1.0, max(0.0, value / LEAST_LOGPROB))
        if mode in ("ratio", "advantage"):
            return min(1.0, max(0.0, 0.5 + value / (2 * self.spread[mode])))
        return value if mode == "trained" else float(self.versions.index(int(value)))

    def in_turn(self, branch: int, turn: int) -> tuple[Branch, range] | None:
        """The tokens of a turn in its branch; None: none were recorded."""
        found = next((each for each in self.branches if each.number == branch), None)
        if found is None:
            return None
        places = [i for i, at in enumerate(found.turn) if at == turn]
        return (found, range(places[0], places[-1] + 1)) if places else None


def xray_of(
    episode: Json, updates: Json, read: Callable[[Any], Arrays | None], vocabulary: Vocabulary | None
) -> Xray | None:
    """None: no token of it was recorded. `read` gives the block at a place, None where it was removed."""
    found, removed = [], False
    used: dict[Any, Any] = mapping(updates.get("branches"))
    for at, record in enumerate(map(mapping, listing(episode.get("branches")))):
        if not record.get("arr"):
            continue
        block = read(record["arr"])
        removed |= block is None
        if block is not None:
            late = mapping(used.get(at) or used.get(str(at)))
            found.append(
                _branch(at, record, block, (read(late["arr"]) or {}) if late.get("arr") else {}, updates, vocabulary)
            )
    if not found:
        return Xray([], dict.fromkeys(MODES, "token arrays were removed"), False) if removed else None
    xray = Xray(found, {}, vocabulary is not None)
    xray.versions = sorted({v for branch in found for v in branch.version if v is not None})
    for mode, why in _WHY.items():
        values = _values(found, mode)
        if not values:
            xray.missing[mode] = why
        elif mode in ("ratio", "advantage"):
            high = sorted(map(abs, values))[int(0.98 * (len(values) - 1))]
            xray.spread[mode] = next((spread for spread in _SPREADS if spread >= high), 10.0)
    return xray


_WHY = {
    "logprob": "no log-probability of the behaviour was recorded",
    "ratio": "no step has used this episode: the learner looked at none of its tokens",
    "advantage": "no advantage yet: its group is not closed, or it was left out",
    "version": "no weight version was recorded",
}


def _values(branches: Sequence[Branch], mode: str) -> list[float]:
    found = (branch.value(mode, i) for branch in branches for i in range(len(branch.ids)))
    return [value for value in found if value is not None and math.isfinite(value)]


def _branch(at: int, record: Json, block: Arrays, late: Arrays, updates: Json, vocabulary: Vocabulary | None) -> Branch:
    ids = [int(i) for i in block.get("ids", [])]
    count = len(ids)

    def whole(name: str, arrays: Arrays) -> list[float] | None:
        values = arrays.get(name)
        return values if values is not None and len(values) == count else None

    versions: list[int | None] = [None] * count
    for span in map(mapping, listing(record.get("spans"))):
        start, end, version = (finite(span.get(name)) for name in ("start", "end", "weight_version"))
        if start is not None and end is not None and version is not None and 0 <= start <= end <= count:
            versions[int(start) : int(end)] = [int(version)] * int(end - start)
    advantage, one = whole("adv", late), finite(updates.get("adv"))
    if advantage is None and one is not None:
        advantage = [one] * count
    mask = whole("mask", block) or [0] * count
    return Branch(
        at,
        ids,
        [int(turn) for turn in whole("turn", block) or [0] * count],
        [bool(one) for one in mask],
        whole("logp_behavior", block),
        whole("logp_learner", late),
        advantage,
        versions,
        vocabulary.texts(ids) if vocabulary is not None else [f"[{i}]" for i in ids],
    )


def legend(xray: Xray, mode: str) -> tuple[str, str]:
    """What the two ends of the scale are, in numbers."""
    if mode == "logprob":
        return "0", f"{LEAST_LOGPROB:.0f}"
    if mode == "ratio":
        spread = xray.spread.get(mode, 0.0)
        return f"{math.exp(-spread):.2f}", f"{math.exp(spread):.2f}"
    if mode == "advantage":
        spread = xray.spread.get(mode, 0.0)
        return f"-{spread:g}", f"+{spread:g}"
    return "", ""


def readout(branch: Branch, i: int) -> list[str]:
    """All that is known of token i: id, both log-probabilities, ratio, advantage, version."""
    parts = [f"id {branch.ids[i]}"]
    if not branch.trained[i]:
        return [*parts, "not trained: it was given, not sampled"]
    if branch.behavior is not None:
        parts.append(f"behaviour {branch.behavior[i]:.4f}")
    ratio = branch.value("ratio", i)
    if ratio is not None and branch.learner is not None:
        parts += [f"learner {branch.learner[i]:.4f}", f"ratio {math.exp(min(50.0, ratio)):.4f}"]
    if branch.advantage is not None:
        parts.append(f"advantage {branch.advantage[i]:+.3f}")
    if branch.version[i] is not None:
        parts.append(f"v{branch.version[i]}")
    return parts


def strip(xray: Xray, mode: str, branch: Branch, places: range, cells: int) -> list[float]:
    """The strongest level of each of `cells` columns of a turn's trained tokens; NaN where there is none."""
    shown = [i for i in places if branch.trained[i]]
    found = []
    for cell in range(min(cells, len(shown))):
        part = shown[cell * len(shown) // min(cells, len(shown)) : (cell + 1) * len(shown) // min(cells, len(shown))]
        levels = [xray.level(mode, branch.value(mode, i)) for i in part]
        known = [level for level in levels if not math.isnan(level)]
        found.append(
            max(known, key=lambda level: abs(level - 0.5) if mode in xray.spread else level) if known else math.nan
        )
    return found
