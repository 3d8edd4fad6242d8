"""What a smoke test found, as data: the same for the interface, the table, --json and the launch check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Json = dict[str, Any]
StageVerdict = Literal["ok", "warn", "fail", "skipped"]
Verdict = Literal["ready", "ready_with_warnings", "not_ready"]
SCHEMA = 1

TITLES = {  # of the stages, in their order
    "S01": "reachable",
    "S02": "health and key",
    "S03": "wrong key is refused",
    "S04": "info and limits",
    "S05": "task info of seeds",
    "S06": "same seed, same episode",
    "S07": "one episode",
    "S08": "policy called at given URL",
    "S09": "groups",
    "S10": "concurrency",
    "S11": "tokens and sampling",
    "S12": "judge",
    "S13": "failure paths",
    "S14": "forecast",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, without what is secret. status: None if no answer came."""

    method: str
    url: str
    status: int | None
    seconds: float
    request: str
    response: str
    cut: bool  # one of the two texts was longer


@dataclass(frozen=True, slots=True)
class Stage:
    """One check, done. fix: what to do about it, for the app's author or the config's."""

    id: str  # S01 ... S14
    title: str
    verdict: StageVerdict
    seconds: float
    message: str
    fix: str = ""
    exchanges: tuple[Exchange, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call. messages_tail: what was new to the policy. tokens: of the answer, prompt_tokens: of all that it
    read; None: the policy does not count."""

    messages_tail: tuple[Json, ...]
    reply: str
    tool_calls: tuple[Json, ...]
    seconds: float
    tokens: int | None = None
    error: str | None = None  # what was answered instead of a reply
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One play. R is None exactly when it is excluded; A when its group is not complete, or dead."""

    n: int
    seed: int
    member: int
    turns: tuple[Turn, ...]
    step_rewards: tuple[float, ...]
    outcome: float | None  # O, as the app reports it
    R: float | None
    A: float | None = None
    excluded: str | None = None  # a code of WIRE 1.6, or why a run would stop: auth, route, request, redirect
    sentence: str = ""  # why, in words
    warnings: tuple[str, ...] = ()  # kinds of trainer.taskapp.codes.WARNINGS
    seconds: float = 0.0
    policy_seconds: float = 0.0  # of them: waiting for the policy
    prompt_tokens: int | None = None  # sums over the calls; None: the policy does not count
    completion_tokens: int | None = None
    policy: str = "mock"
    stage: str = "S09"  # of which stage
    trace: str | None = None  # a summary, where a full one was asked for


@dataclass(frozen=True, slots=True)
class SeedSpread:
    """The rewards of one seed's finished episodes. dead: they are all equal (and there are at least two)."""

    seed: int
    rewards: tuple[float, ...]
    mean: float
    dead: bool


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """The predicted share of groups of `group_size` whose rewards are all equal, in [0, 1]; over so many seeds."""

    group_size: int
    zero_variance: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Rewards over seeds and within groups."""

    seeds: tuple[SeedSpread, ...]
    mean: float | None
    std: float | None  # population, over all episodes
    low: float | None
    high: float | None
    predicted: tuple[GroupForecast, ...] = ()
    unpredicted: str = ""  # why there is no prediction, or of which other model it is
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What of the config a forecast needs; None where no config was given."""

    iterations: int | None = None
    episodes_per_iteration: int | None = None
    group_size: int | None = None
    concurrency: int = 1
    max_turns: int = 10
    max_tokens: int | None = None
    max_model_len: int | None = None
    gpus: int = 0
    burst_episodes: int = 0  # episodes that S10 finished at `concurrency`, and its seconds
    burst_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would take. Times in seconds unless named otherwise; None: not known."""

    episode_p50_s: float | None
    episode_p95_s: float | None
    policy_share: float | None  # of an episode's time, in [0, 1]
    turns_mean: float | None
    turns_max: int | None
    tokens_mean: float | None  # prompt and completion of an episode's longest call
    minutes_per_iteration: float | None
    hours: float | None
    gpu_hours: float | None
    disk_bytes: int | None
    bound: str = ""  # inference, task app
    inputs: tuple[str, ...] = ()  # the numbers that went in, a sentence each
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All of a smoke test. app: what the app says of itself. target: what was given."""

    created: str  # ISO 8601, UTC
    config_hash: str | None
    app: Json
    target: str
    policy: str
    model: str | None
    stages: tuple[Stage, ...]
    episodes: tuple[Episode, ...]
    spread: Spread | None
    forecast: Forecast | None
    verdict: Verdict
    verdict_text: str
    interrupted: bool = False
    schema: int = SCHEMA


def to_json(report: Report) -> Json:
    """Plain JSON of a report, `schema` first."""
    return {"schema": report.schema, **asdict(report)}
