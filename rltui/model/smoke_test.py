"""A smoke test as the screen shows it: fed with what the session tells, asked by the panes. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rltui.smoke.events import (
    PLAYED,
    RECORDED,
    Asks,
    Began,
    CallSeen,
    Done,
    EpisodeBegan,
    EpisodeEnded,
    Failed,
    GroupClosed,
    Idle,
    Opened,
    StageBegan,
    StageEnded,
    Told,
    TurnSeen,
)  # fmt: skip
from rltui.smoke.report import TITLES, Episode, Forecast, Json, Report, Spread, Stage, Turn

if TYPE_CHECKING:
    from rltui.smoke.policies.base import Call
    from rltui.smoke.settings import Settings

MOST_EPISODES = 500  # that are kept with their turns
GROUPS = "S09"  # the stage whose episodes are compared
BURST = "S10"
WANTED = 0.3  # share of groups without any difference above which another group_size is named


@dataclass(slots=True)
class StageRow:
    """state: waiting, running, or the verdict. done: episodes that ended in it."""

    id: str
    title: str
    state: str = "waiting"
    stage: Stage | None = None
    began: float = 0.0
    done: int = 0


@dataclass(slots=True)
class Play:
    """One episode, as far as it is. tail: the new messages of a call that waits for its answer since `asked`."""

    n: int
    seed: int
    member: int
    stage: str
    turns: list[Turn] = field(default_factory=list)
    tail: tuple[Json, ...] | None = None
    asked: float = 0.0
    episode: Episode | None = None


class SmokeModel:
    """`phase`: none, starting, running, idle, failed. Times are those that `apply` is given."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Nothing has been tested."""
        self.phase = "none"
        self.what = ""  # of the job: all, stages, episode
        self.why = ""  # it failed
        self.settings: Settings | None = None
        self.url = ""
        self.stages = [StageRow(id, title) for id, title in TITLES.items()]
        self.plays: dict[int, Play] = {}
        self.report: Report | None = None
        self.asks: Asks | None = None
        self.paused = self.stopping = False
        self.by_hand = False  # a person plays, whose turn may not have come yet
        self.began = self.ended = 0.0
        self._grouped: list[Episode] = []
        self._spread: Spread | None = None

    # What is told

    def start(self, now: float) -> None:
        """Anew, before the first word of a session."""
        self.clear()
        self.phase, self.began = "starting", now

    def apply(self, told: Told, now: float) -> None:
        match told:
            case Opened():
                self.settings = told.settings
            case Began():
                self.phase, self.what, self.began = "running", told.what, now
                self.paused = self.stopping = False
            case Idle():
                self.phase, self.url, self.ended = "idle", told.url or self.url, now
                self.paused = self.stopping = self.by_hand = False
            case Failed():
                self._fail(told.why, now)
            case Asks():
                self.asks = told if told.call is not None else None
            case Done():
                self.report = told.report
                self._spread = told.report.spread or self._spread
            case StageBegan() | StageEnded():
                self._stage(told, now)
            case _:
                self._episode(told, now)

    def _fail(self, why: str, now: float) -> None:
        self.phase, self.why, self.ended, self.asks = "failed", why, now, None
        self.by_hand = False
        for row in self.stages:
            if row.state == "running":
                row.state = "waiting"

    def _stage(self, told: StageBegan | StageEnded, now: float) -> None:
        if isinstance(told, StageEnded):
            row = self.row(told.stage.id)
            row.state, row.stage = told.stage.verdict, told.stage
            return
        row = self.row(told.id)
        row.state, row.stage, row.began, row.done = "running", None, now, 0
        if told.id == GROUPS:
            self._grouped, self._spread = [], None

    def _episode(self, told: object, now: float) -> None:
        match told:
            case EpisodeBegan():
                self.plays[told.n] = Play(told.n, told.seed, told.member, told.stage)
                for old in list(self.plays)[:-MOST_EPISODES]:
                    del self.plays[old]
            case CallSeen() if told.n in self.plays:
                self.plays[told.n].tail, self.plays[told.n].asked = told.messages_tail, now
            case TurnSeen() if told.n in self.plays:
                self.plays[told.n].turns.append(told.turn)
                self.plays[told.n].tail = None
            case EpisodeEnded():
                self._ended(told.episode)
            case GroupClosed():
                for episode in told.episodes:
                    self._replace(episode)

    def _ended(self, episode: Episode) -> None:
        if episode.stage not in (PLAYED, RECORDED):
            self.row(episode.stage).done += 1
        if episode.stage == GROUPS:
            self._grouped.append(episode)
            self._spread = None
        self._replace(episode)

    def _replace(self, episode: Episode) -> None:
        if (play := self.plays.get(episode.n)) is not None:
            play.episode, play.tail = episode, None
            play.turns = list(episode.turns)

    # What is asked

    def asks_the_same(self, play: Play) -> bool | None:
        """Whether the app begins the seed of a recorded prompt with that very prompt today; None: it has not yet."""
        for other in self.plays.values():
            if other.stage == PLAYED and other.seed == play.seed and other.n > play.n:
                first = other.turns[0].messages_tail if other.turns else other.tail
                recorded = play.turns[0].messages_tail if play.turns else play.tail
                return None if first is None or recorded is None else _said(first) == _said(recorded)
        return None

    def row(self, id: str) -> StageRow:
        return next(row for row in self.stages if row.id == id)

    @property
    def running(self) -> bool:
        return self.phase in ("starting", "running")

    @property
    def call(self) -> Call | None:
        """The call that a person is to answer."""
        return self.asks.call if self.asks is not None else None

    @property
    def numbers(self) -> list[int]:
        """Of the episodes that are kept, oldest first."""
        return list(self.plays)

    @property
    def whole(self) -> Report | None:
        """The report, once every stage has been run, or was left out for a reason."""
        return self.report if self.report is not None and len(self.report.stages) == len(TITLES) else None

    def planned(self, id: str) -> int:
        """Episodes that a stage will play, where that is known; else 0."""
        if self.settings is None:
            return 0
        return {GROUPS: len(self.settings.plays), BURST: self.settings.concurrency}.get(id, 0)

    @property
    def compared(self) -> Sequence[Episode]:
        """Episodes whose rewards are compared, by now."""
        if self._grouped or self.report is None:
            return self._grouped
        return self.report.episodes

    @property
    def spread(self) -> Spread | None:
        """Of the rewards by now."""
        if self._spread is None and self._grouped and self.settings is not None:
            from rltui.smoke.spread import spread_of  # the session has imported it long ago

            self._spread = spread_of(self._grouped, self.settings.group_size)
        return self._spread

    @property
    def forecast(self) -> Forecast | None:
        return self.report.forecast if self.report is not None else None

    @property
    def advised(self) -> int | None:
        """The group_size that would leave fewer groups without any difference; None: no better one is known."""
        plan = self.settings.plan if self.settings is not None else None
        spread = self.spread
        if plan is None or plan.group_size is None or spread is None or not spread.predicted:
            return None
        known = {guess.group_size: guess.zero_variance for guess in spread.predicted}
        here = known.get(plan.group_size)
        larger = [size for size in known if size > plan.group_size]
        if (here is not None and here <= WANTED) or not larger:
            return None
        return next((size for size in larger if known[size] <= WANTED), larger[-1])


def _said(messages: tuple[Json, ...]) -> list[tuple[object, str]]:
    return [(message.get("role"), text_of(message)) for message in messages]


def text_of(message: Json) -> str:
    """What a message says: its text, its parts that have one, and its tool calls."""
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else str(part)
                 for part in content]  # fmt: skip
    calls = message.get("tool_calls")
    parts += [calls_text(calls)] if isinstance(calls, list) and calls else []
    return "\n".join(part for part in parts if part)


def calls_text(calls: Sequence[Json]) -> str:
    """`press(colour="red", times=2)`, one a line."""
    return "\n".join(map(_call_text, calls))


def _call_text(call: Json) -> str:
    import json

    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return str(call)
    arguments = function.get("arguments")
    try:
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return f"{function.get('name')}({arguments})"
    inside = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in read.items())
    return f"{function.get('name')}({inside})"
