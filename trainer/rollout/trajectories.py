"""Recorded calls to training sequences (WIRE 2.5). Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.rollout.types import Branch, Call, Span

REALIGN_LIMIT = 1024  # tokens in which a realigned answer may differ
COUNTS = ("clean", "realign", "fork", "drift", "orphan")


class TokenRecordError(ValueError):
    """A broken invariant of a token record. `code` is one of WIRE 1.6, `at` the token."""

    def __init__(self, code: str, what: str, at: int) -> None:
        super().__init__(f"token record broken: {what} at token {at}")
        self.code, self.what, self.at = code, what, at


@dataclass(frozen=True, slots=True)
class Assembly:
    branches: list[Branch]
    counts: dict[str, int]  # clean, realign, fork: calls; drift: tokens; orphan: calls left out


@dataclass(slots=True)
class _Link:
    """How a call goes on from an earlier one: the ids of `parent`'s sequence stay, `suffix` is new prompt."""

    parent: int
    suffix: list[int]
    kind: str
    drift: int = 0


def assemble(calls: Sequence[Call]) -> Assembly:
    """The branches of an episode, each call's sampled tokens in exactly one of them.

    Args:
        calls: in the order of the record.

    Raises:
        TokenRecordError: an invariant is broken, or nothing is left to train on.
    """
    for call in calls:
        _check(call)
    links = [_link(calls, i) for i in range(len(calls))]
    orphans = _orphans(calls, links)
    counts = dict.fromkeys(COUNTS, 0)
    counts["orphan"] = len(orphans)
    branches: list[Branch] = []
    branch_of: dict[int, int] = {}  # call -> its branch
    turn = 0
    for i, call in enumerate(calls):
        if i in orphans:
            continue
        link = links[i]
        goes_on = (
            link is not None and link.parent in branch_of and branches[branch_of[link.parent]].calls[-1] == link.parent
        )
        if goes_on and link is not None:
            branch_of[i] = branch_of[link.parent]
            counts[link.kind] += 1
            counts["drift"] += link.drift
            _append(branches[branch_of[i]], i, call, link.suffix, link.kind, turn)
        else:
            kind = "fork" if branches else "first"
            counts["fork"] += kind == "fork"
            branch = Branch([], [], [], [], [], 0.0, turn, [], [])
            branch_of[i] = len(branches)
            branches.append(branch)
            _append(branch, i, call, call.prompt_token_ids, kind, turn)
        turn += 1
    branches = [branch for branch in branches if any(branch.mask)]
    if not branches:
        raise TokenRecordError("no_trained_token", "no sampled token", 0)
    for branch in branches:
        branch.weight = 1 / len(branches)
    return Assembly(branches, counts)


def token_temperatures(branch: Branch, calls: Sequence[Call]) -> list[float]:
    """[T] the sampling temperature of the call that each token belongs to; an app may choose one for each call.

    Args:
        calls: those that `branch` was assembled from.
    """
    turns = zip(branch.calls, dict.fromkeys(branch.turn), strict=True)
    of_turn = {turn: float(calls[index].sampling["temperature"]) for index, turn in turns}
    return [of_turn[turn] for turn in branch.turn]


def _append(branch: Branch, index: int, call: Call, prompt: Sequence[int], kind: str, turn: int) -> None:
    start = len(branch.ids) + len(prompt)
    sampled = len(call.completion_token_ids)
    branch.ids += [*prompt, *call.completion_token_ids]
    branch.mask += [0] * len(prompt) + [1] * sampled
    branch.turn += [turn] * (len(prompt) + sampled)
    branch.logp += [0.0] * len(prompt) + call.logprobs
    branch.spans += [Span(start + s.start, start + s.end, s.weight_version) for s in call.spans]
    branch.calls.append(index)
    branch.prefix.append(kind)


def _link(calls: Sequence[Call], i: int) -> _Link | None:
    """To the call with the longest history (of several the latest) that call i extends, id by id.

    Realignment is the gateway's: it has the text, and where that is the same it gave the engine the recorded ids and
    noted how many the template would have written otherwise. What it did not join had another text: training on
    recorded ids there would be training on what no engine read."""
    call, prompt = calls[i], calls[i].prompt_token_ids
    for j in sorted(range(i - 1, -1, -1), key=lambda j: -len(calls[j].prompt_token_ids)):
        before, completion = calls[j].prompt_token_ids, calls[j].completion_token_ids
        a, b = len(before), len(before) + len(completion)
        # a prompt sent again word for word extends nothing: it must be longer than what it goes on from
        if completion and b < len(prompt) and prompt[a:b] == completion and prompt[:a] == before:
            return _Link(j, prompt[b:], "realign" if call.prefix == "realign" else "clean", call.drift)
    return None


def differing(a: Sequence[int], b: Sequence[int]) -> int:
    """Tokens between the common beginning and the common end of two sequences, of the longer one."""
    shorter = min(len(a), len(b))
    head = next((k for k in range(shorter) if a[k] != b[k]), shorter)
    tail = next((k for k in range(shorter - head) if a[-1 - k] != b[-1 - k]), shorter - head)
    return max(len(a), len(b)) - head - tail


def _orphans(calls: Sequence[Call], links: Sequence[_Link | None]) -> set[int]:
    """Calls that led nowhere while the app went on from another answer: aborted ones, and repeats of one prompt."""
    used = {link.parent for link in links if link is not None}
    orphans = set()
    for i, call in enumerate(calls):
        if i in used:
            continue
        repeats = [j for j, other in enumerate(calls) if j != i and other.prompt_token_ids == call.prompt_token_ids]
        if call.finish_reason in ("abort", "error") or any(j in used for j in repeats):
            orphans.add(i)
    return orphans


def _check(call: Call) -> None:
    n = len(call.completion_token_ids)
    if call.finish_reason in ("abort", "error") and not n:
        return
    if n and not call.logprobs:
        raise TokenRecordError("no_logprobs", f"call {call.call} has no log-probabilities", 0)
    if len(call.logprobs) != n:
        raise TokenRecordError(
            "length_mismatch",
            f"{n} tokens and {len(call.logprobs)} log-probabilities",
            min(n, len(call.logprobs)),
        )
    for at, logp in enumerate(call.logprobs):
        if not math.isfinite(logp) or logp > 0:
            raise TokenRecordError("logprob_not_finite", f"the log-probability is {logp}", at)
    position = 0
    for span in call.spans:
        if span.start != position or span.end <= span.start:
            raise TokenRecordError("span_gap", f"a span covers {span.start} to {span.end}", position)
        if span.weight_version < 0:
            raise TokenRecordError("version_unknown", f"the weight version is {span.weight_version}", span.start)
        position = span.end
    if position != n:
        raise TokenRecordError("span_gap", "no span covers the token", position)
