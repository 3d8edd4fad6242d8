"""Which environment steps belong to which turn: one model call and what it caused (CONFIG 6). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.rewards.achievements import NOTHING, Unlocks, together, unlocks_of_sample, unlocks_of_steps
from trainer.taskapp.parse import ParsedRollout
from trainer.taskapp.reading import count, mapping


@dataclass(frozen=True, slots=True)
class Turn:
    """What the environment says of one turn."""

    reward: float  # e_t
    unlocks: Unlocks = NOTHING
    done: bool | None = None  # None: the app does not say
    truncated: bool | None = None

    @property
    def progress(self) -> bool:
        return self.reward > 0 or self.unlocks.any_new


@dataclass(frozen=True, slots=True)
class Turns:
    """In order. Where they are not `matched` each entry is what the app reports as one: sums over it hold, no more."""

    items: tuple[Turn, ...]
    matched: bool  # items[t] is turn t of the calls


def read_turns(parsed: ParsedRollout, calls: int) -> Turns:
    """Steps join their turn by `decision_index`, by equal number, or where `event_rewards` has an entry a call.

    Args:
        calls: recorded calls that the episode went on from: its turns.
    """
    placed = [*_steps(parsed, calls), *_extra_events(parsed, calls)]
    if not any(turn.unlocks for _, turn in placed):
        placed += _samples(parsed, calls)
    lost = any(at is None and (turn.reward or turn.unlocks) for at, turn in placed)
    if lost or not any(at is not None for at, _ in placed):
        return Turns(tuple(turn for _, turn in placed), matched=False)
    return Turns(tuple(_join([turn for at, turn in placed if at == t]) for t in range(calls)), matched=True)


def _steps(parsed: ParsedRollout, calls: int) -> list[tuple[int | None, Turn]]:
    steps, rewards = parsed.steps, parsed.event_rewards
    at = _places([step.decision for step in steps], calls)
    if len(rewards) != len(steps):
        own = not _are_extra(parsed, calls)
        rewards = [step.reward if own else 0.0 for step in steps]
    found = zip(at, steps, rewards, unlocks_of_steps(steps), strict=True)
    return [(t, Turn(reward, unlocks, step.done, step.truncated)) for t, step, reward, unlocks in found]


def _extra_events(parsed: ParsedRollout, calls: int) -> list[tuple[int | None, Turn]]:
    """Event rewards that are not those of the steps."""
    if not _are_extra(parsed, calls):
        return []
    at = _places([None] * len(parsed.event_rewards), calls)
    return [(t, Turn(reward)) for t, reward in zip(at, parsed.event_rewards, strict=True)]


def _are_extra(parsed: ParsedRollout, calls: int) -> bool:
    """Whether event rewards count in the place of the steps' own: one a turn, or nothing else can be matched."""
    if len(parsed.event_rewards) in (0, len(parsed.steps)):
        return False
    matched = parsed.steps and None not in _places([step.decision for step in parsed.steps], calls)
    return len(parsed.event_rewards) == calls or not matched


def _samples(parsed: ParsedRollout, calls: int) -> list[tuple[int | None, Turn]]:
    """Unlocks of `trajectories[0].decision_samples[]`."""
    samples = [mapping(sample) for sample in parsed.decision_samples]
    at = _places([count(sample.get("decision_index")) for sample in samples], calls)
    found = [(t, Turn(0.0, unlocks_of_sample(sample))) for t, sample in zip(at, samples, strict=True)]
    return [(t, turn) for t, turn in found if turn.unlocks]


def _places(decisions: Sequence[int | None], calls: int) -> list[int | None]:
    """The turn of each entry: its decision, counted from 0 or from 1, else its place where there is one for each."""
    known = [decision for decision in decisions if decision is not None]
    if known and len(known) == len(decisions):
        first = 1 if min(known) == 1 and max(known) == calls else 0
        if max(known) - first < calls:
            return [decision - first for decision in known]
    return list(range(calls)) if len(decisions) == calls else [None] * len(decisions)


def _join(parts: Sequence[Turn]) -> Turn:
    said = [part for part in parts if part.done is not None]
    return Turn(
        reward=sum(part.reward for part in parts),
        unlocks=together(part.unlocks for part in parts),
        done=any(part.done for part in said) if said else None,
        truncated=any(part.truncated for part in said) if said else None,
    )
