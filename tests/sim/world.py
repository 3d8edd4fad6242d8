"""What a pipeline runs on, simulated: engine, task app, learner, weight sync and records.

Dispatcher, admission, groups, batches, evaluation and the learner loop are the real ones.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.sim.engine import Engine, Speed
from trainer.config import Loaded, load_text
from trainer.lag import Lags
from trainer.learner.protocol import SequenceResult, StepResult
from trainer.pipeline import Pipeline
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.episode import Assignment, Episode, Exclusion
from trainer.rollout.groups import Group, Tally
from trainer.rollout.seeds import SeedCursor
from trainer.rollout.types import Branch, Call, Span
from trainer.waiting import LearnerLimit
from trainer.weights.base import SyncReport

CONFIG = """
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "builtin:facts"
[policy]
model_name = "builtin:tiny"
trainer_mode = "lora"
label = "simulated"
[vllm]
max_model_len = 1024
[rollout]
env_name = "e"
policy_name = "p"
max_turns = 1
[training]
num_epochs = 1
learning_rate = 1e-5
max_seq_len = 512
"""


def config(**values: Any) -> Loaded:
    """`section__key=value`."""
    sets = [f"{name.replace('__', '.')}={str(v).lower() if isinstance(v, bool) else v}" for name, v in values.items()]
    return load_text(CONFIG, "simulated.toml", sets=sets, environ={}, device="cpu")


def capped_lognormal(rng: random.Random, mean: float, sigma: float, cap: float = 4.0) -> float:
    """A long tail with about that mean, cut at `cap` times it, as max_tokens cuts answers."""
    return min(mean * rng.lognormvariate(-sigma * sigma / 2, sigma), cap * mean)


@dataclass(slots=True)
class Shape:
    """Latencies of a simulated run; seconds and tokens."""

    replicas: int = 1
    speed: Speed = field(default_factory=Speed)
    turns: int = 2
    tokens: float = 400.0  # of a turn, mean
    sigma: float = 0.7
    step_s: float = 0.5  # of the environment between two turns, mean
    train_tokens_per_s: float = 1000.0
    sync_s: float = 0.5
    pins: bool = False  # the engine keeps a version for an evaluation
    colocated: bool = False  # one device: the engine rests during updates
    restarts: bool = False  # a sync begins running episodes anew, as systems without in-flight updates must
    seed: int = 0
    fails: Callable[[Assignment], bool] = lambda assignment: False
    dead: Callable[[Assignment], bool] = lambda assignment: False


class World:
    """One simulated run. `pipeline.run()` plays it."""

    restored: Any = None

    def __init__(self, loaded: Loaded, shape: Shape) -> None:
        self.shape, self.loaded = shape, loaded
        self.engine = Engine(shape.replicas, shape.speed)
        self.rng = random.Random(shape.seed)
        self.recorder = Records(loaded)
        self.tokens: dict[int, int] = {}  # of each episode
        self.started: list[Assignment] = []
        self.begun: list[float] = []  # when each of them was
        self.in_flight = self.most_in_flight = 0
        self._synced: asyncio.Future[Any] | None = None
        self.pinned: int | None = None
        self.newer: list[int] = []  # versions that came while one was pinned
        self.trained_tokens: list[tuple[float, int]] = []  # (when, tokens) of each update
        learner = self.learner = SimpleNamespace(step=self._step, work=None, limit=LearnerLimit())
        services = SimpleNamespace(
            learner=learner,
            reference=None,
            present=dict,
            new_notes=list,
            task_app=None,
            engine=SimpleNamespace(pins=shape.pins, pin=self._pin, unpin=self._unpin, asleep=nullcontext),
            client=SimpleNamespace(is_up=self.is_up),
            gateway=SimpleNamespace(ledger=SimpleNamespace(generating=0)),
        )
        player = SimpleNamespace(play=self.play)
        self.room = Room(loaded)
        self.stopping = asyncio.Event()
        self.saved: list[dict[str, Any]] = []
        self.pipeline = Pipeline(
            loaded,
            services,  # type: ignore[arg-type]
            self.recorder,  # type: ignore[arg-type]
            Sync(self) if loaded.config.training.weight_sync.enable else None,  # type: ignore[arg-type]
            player,  # type: ignore[arg-type]
            player,  # type: ignore[arg-type]
            SeedCursor(0, None, []),
            self.stopping,
            SimpleNamespace(save=self._save),  # type: ignore[arg-type]
            self.room,  # type: ignore[arg-type]
            self.restored,
        )

    async def is_up(self) -> bool:
        """Whether the task app is there."""
        return True

    async def play(self, assignment: Assignment, stale: asyncio.Future[dict[str, Any]]) -> Episode:
        """One episode; a stale one ends as that."""
        self.started.append(assignment)
        self.begun.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        play = asyncio.ensure_future(self._turns(assignment))
        try:
            while True:
                synced = self._next_sync() if self.shape.restarts else None
                await asyncio.wait({play, stale, synced} - {None}, return_when=asyncio.FIRST_COMPLETED)
                if play.done():
                    episode = play.result()
                elif stale.done():
                    play.cancel()
                    episode = Episode(assignment, "", [], exclusion=Exclusion("stale", stale.result()))
                else:
                    play.cancel()
                    play = asyncio.ensure_future(self._turns(assignment))
                    continue
                break
        finally:
            play.cancel()
            self.in_flight -= 1
        self.recorder.episode(episode)
        if not episode.exclusion:
            self.tokens[episode.n] = episode.sampled_tokens
        return episode

    async def _turns(self, assignment: Assignment) -> Episode:
        shape, rng = self.shape, self.rng
        spans, total = [], 0
        for turn in range(shape.turns):
            tokens = max(1, int(capped_lognormal(rng, shape.tokens, shape.sigma)))
            first = self.engine.version
            await self.engine.generate(tokens)
            if assignment.version is not None:
                assert assignment.version == self.pinned, "the pinned version is gone"
                spans += [assignment.version] * 2
            else:
                spans += [first, self.engine.version]
            total += tokens
            if turn < shape.turns - 1 and shape.step_s:
                await asyncio.sleep(capped_lognormal(rng, shape.step_s, shape.sigma))
        episode = Episode(assignment, "", [])
        if shape.fails(assignment):
            episode.exclusion = Exclusion("timeout")
            return episode
        seen = [Span(i, i + 1, version) for i, version in enumerate(spans)]
        size = len(seen)
        call = Call("", 0, [0], range(total), [], seen, "stop", {"temperature": 1.0}, [], {})  # type: ignore[arg-type]
        episode.calls = [call]
        episode.branches = [Branch([0] * size, [1] * size, [0] * size, [0.0] * size, seen, 1.0, 0, [0], ["first"])]
        reward = 0.0 if shape.dead(assignment) else rng.random()
        episode.reward = EpisodeReward(reward, "simulated", reward)
        return episode

    async def _step(self, step: int, sequences: Sequence[Any]) -> StepResult:
        tokens = sum(self.tokens[sequence.n] for sequence in sequences)
        if self.shape.colocated:
            self.engine.stop()
        await asyncio.sleep(tokens / self.shape.train_tokens_per_s)
        if self.shape.colocated:
            self.engine.go_on()
        self.trained_tokens.append((asyncio.get_running_loop().time(), tokens))
        return StepResult(step, {}, [SequenceResult(s.n, s.branch, 1.0, "none", 0.0, 0.0, b"") for s in sequences])

    async def _pin(self) -> int:
        assert self.pinned is None
        self.pinned = self.engine.version
        return self.pinned

    async def _unpin(self) -> None:
        assert self.pinned is not None
        self.newer.append(self.engine.version - self.pinned)
        self.pinned = None

    async def _save(self, **values: Any) -> None:
        self.saved.append(values)
        self.room.saves_in_pause = False

    def _next_sync(self) -> asyncio.Future[Any]:
        if self._synced is None:
            self._synced = asyncio.get_running_loop().create_future()
        return self._synced

    async def bring_weights(self, version: int) -> None:
        """Calls stay where they are, and go on under the new version; or begin anew."""
        self.engine.stop()
        await asyncio.sleep(self.shape.sync_s)
        self.engine.version = version
        self.engine.go_on()
        if self._synced is not None:
            self._synced.set_result(None)
            self._synced = None


class Sync:
    """Weights in `shape.sync_s` seconds."""

    verify_every_k = 0

    def __init__(self, world: World) -> None:
        self._world = world

    async def start(self, version: int) -> None:
        pass

    async def sync(self, version: int) -> SyncReport:
        await self._world.bring_weights(version)
        return SyncReport(version, self._world.shape.sync_s, 0, "full", 0.0)

    def canary_state(self) -> None:
        return None


class Room:
    """Nobody asks for anything, but for what a test changes and then tells."""

    admitting = True
    saves_in_pause = False

    def __init__(self, loaded: Loaded) -> None:
        self.config = loaded.config
        self.tell: Callable[[], None] = lambda: None

    def on_change(self, callback: Callable[[], None]) -> None:
        self.tell = callback

    @asynccontextmanager
    async def step(self) -> Any:
        yield

    async def iteration_ended(self, save: Callable[[], Awaitable[None]]) -> None:
        pass

    def wants(self, action: str) -> bool:
        return False

    def done(self, action: str) -> None:
        pass

    async def with_room(self, make: Callable[[], Awaitable[Any]]) -> Any:
        return await make()


@dataclass(slots=True)
class Closed:
    """A batch as it closed."""

    at: float
    step: int
    groups: list[Group] = field(default_factory=list)
    lags: Lags | None = None
    masked: list[str] = field(default_factory=list)


class Records:
    """Keeps in memory what a Recorder would write."""

    log_interval = 1
    median_step_s = 0.0
    budget_s = None

    def __init__(self, loaded: Loaded) -> None:
        self.step = self.iteration = self.weight_version = self.weight_updates = 0
        self.started = 0.0
        self.writer = SimpleNamespace(paths=SimpleNamespace(root=Path("simulated")))
        self.rows = 0
        self.batches: list[Closed] = []
        self.lost: list[Group] = []  # dropped
        self.refills: list[Group] = []
        self.excluded: list[Episode] = []
        self.evaluated: list[Episode] = []
        self.steps: list[dict[str, float]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.waited: list[dict[str, Any]] = []  # as status.json tells it
        self.evaluations: list[tuple[int, int, int]] = []  # (iteration, updates in its weights, their version)
        self.phase_now = "training"
        self._pending: list[Group] = []

    def episode(self, episode: Episode) -> None:
        episode.n = self.rows
        self.rows += 1
        if episode.assignment.split == "eval":
            self.evaluated.append(episode)
        elif episode.exclusion is not None:
            self.excluded.append(episode)

    def group(self, group: Group, iteration: int) -> None:
        self._pending.append(group)

    def batch_closed(self, lags: Lags) -> None:
        self.batches.append(Closed(asyncio.get_running_loop().time(), self.step, self._pending, lags))
        self._pending = []

    def mask(self, masked: Any, iteration: int) -> None:
        self.batches[-1].masked.append(masked.code)

    def dropped(self, group: Group) -> None:
        self.lost.append(group)

    def refilled(self, group: Group) -> None:
        self.refills.append(group)

    def step_done(self, result: StepResult, update: Any, values: dict[str, float], **_: Any) -> None:
        self.steps.append(values)

    def iteration_done(self, iteration: int, groups: list[Group], tally: Tally) -> None:
        self.iteration = iteration

    def synced(self, report: SyncReport, present: Any) -> None:
        self.weight_version, self.weight_updates = report.version, self.step

    def event(self, type_: str, message: str, **data: Any) -> None:
        self.events.append((type_, data))

    def phase(self, phase: str, **_: Any) -> None:
        self.phase_now = phase

    def present(self, pipeline: Any, waiting: Any) -> None:
        if waiting is not None:
            self.waited.append(waiting)

    def status(self, **_: Any) -> None: ...
    def warn(self, code: str, text: str) -> None: ...

    def metrics(self, values: Any, *, iteration: int, eval_step: int, weight_version: int) -> None:
        self.evaluations.append((iteration, eval_step, weight_version))
