"""What the stages work with: the app, the policy, what was found so far."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from rltui.smoke.control import Control
from rltui.smoke.events import EpisodeEvent, GroupClosed
from rltui.smoke.policies.base import Policy, Tokens
from rltui.smoke.policy_server import Arrival, PolicyServer
from rltui.smoke.probe import Probe
from rltui.smoke.record import Recorder
from rltui.smoke.report import Episode, Forecast, Json, Spread
from rltui.smoke.settings import Settings
from rltui.smoke.target import Target
from rltui.smoke.traces import TraceStore
from trainer.rundir.logs import known_secrets
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.contracts import TaskInfo, Taskset
from trainer.taskapp.parse import ParsedRollout


@dataclass(slots=True)
class Played:
    """One play, with all that is known of it. parsed: None if it was excluded before it could be read.

    `episode` is replaced when its group closes.
    """

    episode: Episode
    cid: str
    parsed: ParsedRollout | None
    arrivals: list[Arrival]
    strays: list[Arrival]  # calls of no episode, that came meanwhile
    tokens: Tokens | None
    answer_bytes: int | None
    content_type: str | None
    fix: str | None = None  # where more is known than the exclusion code says
    log: tuple[str, ...] = ()  # the end of what a served app printed while it failed


class Bench:
    """One smoke test's tools and findings. Stages write what later ones need."""

    def __init__(
        self, settings: Settings, policy: Policy, target: Target, emit: Callable[[EpisodeEvent], None]
    ) -> None:
        self.settings, self.policy, self.target, self.emit = settings, policy, target, emit
        self.control = Control()
        self.recorder = Recorder()
        self.recorder.keep_secret([*known_secrets(os.environ), *target.secrets])
        self.server = PolicyServer(
            self.control, settings.policy_host, settings.policy_port, settings.public_url, target.url
        )
        self.traces: TraceStore | None = None
        self.numbers = count()
        self.stage = ""
        self.verdicts: dict[str, str] = {}  # by stage id, of those that are done
        self.app: Json = {}  # what the app says of itself
        self.env_name = settings.env_name
        self.taskset: Taskset | None = None
        self.task_infos: dict[int, TaskInfo] = {}
        self.first: Played | None = None  # S07's
        self.played: list[Played] = []  # S09's
        self.computed = 0.0  # S09's: CPU seconds of one episode, the app's where it is served here
        self.burst: tuple[int, float] = (0, 0.0)  # S10's: episodes that finished, seconds
        self.spread: Spread | None = None
        self.forecast: Forecast | None = None
        self._client: TaskAppClient | None = None
        self._probe: Probe | None = None

    @property
    def keys(self) -> list[str]:
        return self.target.keys

    @property
    def probe(self) -> Probe:
        if self._probe is None:
            self._probe = Probe(self.target.url, self.recorder)
        return self._probe

    @property
    def client(self) -> TaskAppClient:
        if self._client is None:
            self._client = self.client_within(self.settings.timeout_s)
        return self._client

    def client_within(self, timeout_s: float) -> TaskAppClient:
        """A client with another time limit; whoever asks for it closes it. Raises TaskAppError."""
        return TaskAppClient(
            self.target.url,
            api_key=self.keys[0] if self.keys else None,
            aliases=self.keys[1:],
            timeout_s=timeout_s,
            max_connections=max(self.settings.concurrency, 1),
            observe=self.recorder.observe,
        )

    @property
    def episodes(self) -> list[Episode]:
        return [played.episode for played in self.played]

    def group_closed(self, episodes: list[Episode]) -> None:
        """Their advantages are known."""
        self.emit(GroupClosed(tuple(episodes)))
        if self.traces is not None:
            self.traces.set_advantages(episodes)

    async def close(self) -> None:
        """Ends all that was started, in any state."""
        for thing in (self._client, self._probe):
            if thing is not None:
                await thing.close()
        await self.server.stop()
        await self.policy.close()
        await self.target.close()
        if self.traces is not None:
            self.traces.close()
