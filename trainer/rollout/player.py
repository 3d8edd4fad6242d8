"""Plays one episode to its end: the address, the request, the tries, what the gateway recorded, the reward."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainer.inference.gateway import Gateway
from trainer.inference.ledger import NO_TOOL_PARSER, CallError, CallPolicy
from trainer.rewards.episode import reward_of
from trainer.rewards.rules import OUTCOME_ALONE, RewardRules
from trainer.rollout.episode import Assignment, Episode, Exclusion, stop_reason
from trainer.rollout.judging import Judging
from trainer.rollout.trajectories import TokenRecordError, assemble
from trainer.steady import steady
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.contracts import rollout_request
from trainer.taskapp.errors import RolloutFailure
from trainer.taskapp.parse import check_against_calls
from trainer.taskapp.retries import backoff

T = TypeVar("T")
Stale = asyncio.Future[dict[str, Any]]

FIRST_TRIES = 8  # a job whose first tries all fail stops (WIRE 1.6)
NOT_THE_APPS = frozenset({"stale", "judge_failed"})  # failures of tries that the task app may have played well
OUTAGES = 3  # of the task app, that one play may meet before its failures count: it may be what ends the app
THE_ENGINES = frozenset({"http_error", "timeout", "aborted", "app_error"})  # what an app makes of a call that failed
LIMITS = frozenset({"context_length_exceeded", "call_limit"})  # an episode that meets one ends, cut but scored


class FirstTries:
    """Watches the first tries of a job, over all its players: when none of them succeeds, none ever will."""

    def __init__(self) -> None:
        self._succeeded = False
        self._failed: Counter[str] = Counter()  # by code

    def succeed(self) -> None:
        self._succeeded = True

    def fail(self, failure: RolloutFailure) -> None:
        """Raises TaskAppFailing at the eighth failure without a success."""
        self._failed[failure.code] += 1
        tries = self._failed.total()
        if not self._succeeded and tries >= FIRST_TRIES:
            reasons = ", ".join(f"{code} x {count}" for code, count in self._failed.most_common())
            raise TaskAppFailing(f"the first {tries} tries all failed ({reasons}), the last because {failure}")


class ModelUnfit(RuntimeError):
    """The model cannot play what the task app offers. The text says why, and what to do."""


class TaskAppFailing(RuntimeError):
    """The first tries of the job all failed. The text names the reason."""


class TaskAppDown(RuntimeError):
    """The play met a task app that is not there: to be played when it is back, and nothing is counted.

    The text says what the play met.
    """


@dataclass(frozen=True, slots=True)
class PlayRules:
    """What of the config shapes every play of one split."""

    job_id: str
    env_name: str
    env_config: dict[str, Any]
    policy_name: str
    policy_config: dict[str, Any]
    model: str
    max_turns: int
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    stop: tuple[str, ...]
    data_split: str | None
    ops: tuple[str, ...]
    on_done: str
    timeout_s: float
    max_retries: int
    seed: int
    template_kwargs: dict[str, Any] = field(default_factory=dict)  # of the chat template
    rewards: RewardRules = OUTCOME_ALONE


class Player:
    """Plays assignments of one split; how many at once is the dispatcher's rule."""

    def __init__(
        self,
        rules: Callable[[], PlayRules],
        gateway: Gateway,
        client: TaskAppClient,
        first_tries: FirstTries,
        record: Callable[[Episode, PlayRules], None],
        judging: Judging | None = None,
    ) -> None:
        """rules: as they are now; an episode is played to its end by those that it began with."""
        self._rules, self._gateway, self._client, self._record = rules, gateway, client, record
        self._first_tries, self._judging = first_tries, judging
        self._jitter = random.Random(rules().seed)
        self._outages: Counter[Assignment] = Counter()  # that a play has met

    async def play(self, assignment: Assignment, stale: Stale) -> Episode:
        """One episode, tried again under a new id after a retryable failure; its record is written.

        Args:
            stale: once it is set, the play is given up and excluded as `stale`, with what it was set to as detail.

        Raises:
            TaskAppRejected: the app refuses us for good.
            TaskAppFailing: the first tries of the job all failed.
            TaskAppDown: the app is not there; nothing is recorded.
            ModelUnfit: no try of the job can succeed.
            JudgeMisconfigured: no episode of the job can be judged.
        """
        rules = self._rules()
        episode = await self._with_tries(rules, assignment, stale)
        self._record(episode, rules)
        return episode

    async def _with_tries(self, rules: PlayRules, assignment: Assignment, stale: Stale) -> Episode:
        tries: list[dict[str, Any]] = []
        while True:
            number = assignment.replay * (rules.max_retries + 1) + len(tries)
            episode, failure = await self._try(rules, assignment, number, tries, stale)
            if failure is None:
                self._first_tries.succeed()
                return episode
            if await self._met_outage(assignment, failure):
                raise TaskAppDown(str(failure))
            try:
                if failure.code not in NOT_THE_APPS:
                    self._first_tries.fail(failure)
            except TaskAppFailing:
                self._record(episode, rules)
                raise
            if not failure.retryable or len(tries) >= rules.max_retries:
                return episode
            tries.append(
                {
                    "cid": episode.cid,
                    "code": failure.code,
                    "t": time.time(),
                    "wall": episode.ended - episode.started,
                }
            )
            pause = asyncio.sleep(backoff(len(tries) - 1, failure.retry_after, self._jitter))
            with suppress(RolloutFailure):  # stale: the next try ends before it begins
                await _unless_stale(pause, stale)

    async def _met_outage(self, assignment: Assignment, failure: RolloutFailure) -> bool:
        """No answer, or a 5xx, of an app that is not healthy either."""
        if failure.code != "http_error" or self._outages[assignment] >= OUTAGES or await self._client.is_up():
            return False
        self._outages[assignment] += 1
        return True

    async def _try(
        self, rules: PlayRules, assignment: Assignment, number: int, tries: list[dict[str, Any]], stale: Stale
    ) -> tuple[Episode, RolloutFailure | None]:
        cid = correlation_id(rules.job_id, assignment, number)
        episode = Episode(assignment, cid, list(tries), number, started=steady())
        self._gateway.ledger.open(
            cid,
            CallPolicy(
                split=assignment.split,
                temperature=rules.temperature,
                max_tokens=rules.max_tokens,
                stop=rules.stop,
                call_limit=4 * rules.max_turns,
                seed_parts=seed_parts(rules.seed, assignment, number),
                top_p=rules.top_p,
                top_k=rules.top_k,
                repetition_penalty=rules.repetition_penalty,
                template_kwargs=rules.template_kwargs,
                version=assignment.version,
            ),
        )
        failure: RolloutFailure | None = None
        try:
            body = rollout_request(
                cid=cid,
                inference_url=self._gateway.chat_url(cid),
                inference_base_url=self._gateway.base_url(cid),
                env_name=rules.env_name,
                env_config=rules.env_config,
                policy_name=rules.policy_name,
                policy_config=rules.policy_config,
                seed=assignment.seed,
                max_turns=rules.max_turns,
                split=rules.data_split,
                model=rules.model,
                temperature=rules.temperature,
                top_p=rules.top_p,
                max_tokens=rules.max_tokens,
                stop=rules.stop,
                ops=rules.ops,
                on_done=rules.on_done,
                timeout_s=rules.timeout_s,
                job_id=rules.job_id,
                judge_on=self._judging is not None,
            )
            episode.parsed = await _unless_stale(self._client.rollout(body), stale)
        except RolloutFailure as error:
            failure = error
        finally:
            record = self._gateway.ledger.close(cid)
        if unfit := next((error.message for error in record.errors if error.code == NO_TOOL_PARSER), None):
            raise ModelUnfit(unfit)
        episode.ended = steady()
        episode.calls = record.calls
        episode.forced = record.forced
        if failure is None or failure.code in THE_ENGINES:
            failure = _engine_failure(record.errors) or failure
        if failure is None:
            failure = _settle(rules, episode, record.errors) or await self._judge(episode, stale)
        if failure is None:
            failure = _reward(rules, episode)
        if failure is not None:
            if "tries" in failure.detail:  # the client knows of its own try alone
                failure.detail["tries"] = len(tries) + 1
            episode.exclusion = Exclusion(failure.code, failure.detail, failure.evidence)
        episode.stop = stop_reason(
            episode.calls,
            [error.code for error in record.errors],
            episode.parsed,
            exclusion=failure.code if failure else None,
            max_turns=rules.max_turns,
        )
        return episode, failure

    async def _judge(self, episode: Episode, stale: Stale) -> RolloutFailure | None:
        if self._judging is None:
            return None
        try:
            await _unless_stale(self._judging.judge(episode), stale)
        except RolloutFailure as failure:
            return failure
        finally:
            episode.ended = steady()
        return None


def _engine_failure(errors: list[CallError]) -> RolloutFailure | None:
    """Whatever the app made of a call that the engine failed, the engine was the cause."""
    found = next((error.message for error in errors if error.code == "engine_error"), None)
    return None if found is None else RolloutFailure("engine_error", {"cause": found}, found)


def _settle(rules: PlayRules, episode: Episode, errors: list[CallError]) -> RolloutFailure | None:
    """Checks what the app answered against what the gateway recorded, and makes its training sequences."""
    assert episode.parsed is not None
    try:
        check_against_calls(
            episode.parsed,
            calls=len(episode.calls),
            failed=[(error.call, error.status) for error in errors if error.code not in LIMITS],
            max_turns=rules.max_turns,
        )
    except RolloutFailure as failure:
        return failure
    if episode.calls[-1].finish_reason in ("abort", "error"):
        return RolloutFailure("call_aborted")
    try:
        assembly = assemble(episode.calls)
    except TokenRecordError as error:
        return RolloutFailure(error.code, {"what": error.what, "at": error.at}, str(error), retryable=False)
    episode.branches = assembly.branches
    episode.token_counts = assembly.counts
    if episode.forced:
        episode.parsed.warnings.append("sampling_forced")
    return None


def _reward(rules: PlayRules, episode: Episode) -> RolloutFailure | None:
    """Scores an episode that was settled."""
    assert episode.parsed is not None
    try:
        episode.reward = reward_of(episode.parsed, episode.turns, rules.rewards, episode.judged)
    except RolloutFailure as failure:
        return failure
    episode.parsed.warnings += episode.reward.warnings
    return None


async def _unless_stale(work: Coroutine[Any, Any, T], stale: Stale) -> T:
    """The result of `work`; a play that has become stale meanwhile fails as that."""
    if stale.done():
        work.close()
        raise RolloutFailure("stale", stale.result())
    task = asyncio.ensure_future(work)
    try:
        both: set[asyncio.Future[Any]] = {task, stale}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise RolloutFailure("stale", stale.result())
    finally:
        task.cancel()


def seed_parts(seed: int, assignment: Assignment, number: int) -> tuple[int, ...]:
    """What the sampling seeds of a try's calls are hashed from (WIRE 2.3). In an evaluation the task seed stands in
    the place of the group: equal prompts of different seeds must not get equal answers."""
    where = -1 - assignment.seed if assignment.group is None else assignment.group
    return (seed, assignment.iteration, where, assignment.member, number)


def correlation_id(job_id: str, assignment: Assignment, number: int) -> str:
    """JOB-ITER-GROUP-MEMBER-TRY-RANDOM with 96 random bits: knowing it is the permission to call (WIRE 2.1)."""
    group = "e" if assignment.group is None else assignment.group
    return f"{job_id}-{assignment.iteration}-{group}-{assignment.member}-{number}-{secrets.token_urlsafe(12)}"
