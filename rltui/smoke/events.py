"""What a smoke test tells while it runs, and what the session around it does. Costs nothing to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltui.smoke.report import Episode, Json, Report, Stage, Turn

if TYPE_CHECKING:
    from rltui.smoke.policies.base import Call
    from rltui.smoke.settings import Settings

RECORDED = "recorded"  # in place of a stage: no episode, but the first prompt of one that a run recorded
PLAYED = "play"  # what stands in Episode.stage of one that counts in no stage


@dataclass(frozen=True, slots=True)
class StageBegan:
    id: str
    title: str
    limit_s: float | None


@dataclass(frozen=True, slots=True)
class StageEnded:
    stage: Stage


@dataclass(frozen=True, slots=True)
class Done:
    report: Report


@dataclass(frozen=True, slots=True)
class EpisodeBegan:
    n: int
    seed: int
    member: int
    stage: str


@dataclass(frozen=True, slots=True)
class CallSeen:
    """A model call came in and waits for its answer. messages_tail: what is new in it."""

    n: int
    messages_tail: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class TurnSeen:
    n: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class EpisodeEnded:
    episode: Episode


@dataclass(frozen=True, slots=True)
class GroupClosed:
    """The members of one seed, now with their advantages."""

    episodes: tuple[Episode, ...]


EpisodeEvent = EpisodeBegan | CallSeen | TurnSeen | EpisodeEnded | GroupClosed


Event = StageBegan | StageEnded | EpisodeEvent | Done


@dataclass(frozen=True, slots=True)
class Opened:
    """What is tested is known; the policy may still have to get ready."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Began:
    """A job has begun. what: all, stages, episode."""

    what: str


@dataclass(frozen=True, slots=True)
class Idle:
    """The job is done: another one can be given."""

    url: str  # of the app


@dataclass(frozen=True, slots=True)
class Asks:
    """A person is to answer `call`; None: nobody is asked any more. problem: of the line before."""

    call: Call | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The session has ended by itself. why: in sentences."""

    why: str


Told = Event | Opened | Began | Idle | Asks | Failed
