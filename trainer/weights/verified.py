"""A transport whose work is checked: a canary after every k updates, one full resend, then the run ends (DESIGN 5)."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

from trainer.inference.engine import Engine, EngineError
from trainer.learner.client import LearnerProcess
from trainer.weights.base import (
    TIMEOUT_S,
    CanaryFigures,
    SyncReport,
    WeightSync,
    WeightSyncError,
    WeightSyncMismatch,
    bounded,
)
from trainer.weights.canary import SEVERITY, Finding, Reading, candidates, in_words, judge
from trainer.weights.readings import Ids, ask_engine, ask_learner, pack_reading, prefixes_of, unpack_reading


@dataclass(frozen=True, slots=True)
class _Verified:
    """Of one replica: its last verified reading, and the noise of its first one, which no later one lowers."""

    reading: Reading
    noise: float


class VerifiedSync(WeightSync):
    """`verify_every_k` may change while the run goes on; 0 checks nothing."""

    def __init__(
        self,
        transport: WeightSync,
        engine: Engine,
        learner: LearnerProcess,
        verify_every_k: int,
        timeout_s: float = TIMEOUT_S,
        *,
        send_first: bool = False,
    ) -> None:
        """send_first: `start` sends the weights, whatever the transport has to prepare."""
        self._send_first = send_first
        self.verify_every_k = verify_every_k
        self._transport, self._engine, self._learner, self._timeout_s = transport, engine, learner, timeout_s
        self._prefixes: list[Ids] = []
        self._known: dict[Engine, _Verified] = {}
        self._mark = 0  # of the prefixes: readings of others cannot be compared
        self._stored: list[_Verified] = []  # of an earlier attempt, until its replicas are asked
        self._stored_mark = 0
        self._checked_at = 0  # updates in the last verified version
        self._pending = False  # the last check could not tell: the next sync is checked as well
        self._undecided = self._failed = 0

    async def start(self, version: int) -> None:
        await self._transport.start(version)
        if self._send_first:
            await self._transport.sync(version)
        if self.verify_every_k:
            await self._check()  # nothing to compare with yet: it measures the noise
            self._checked_at = self._learner.steps

    async def sync(self, version: int) -> SyncReport:
        """Raises WeightSyncMismatch, too."""
        started = time.monotonic()
        report = await self._transport.sync(version)
        if not self._due():
            return report
        findings = await self._check()
        if resent := _worst(findings) == "failed":
            self._failed += 1
            report = await self._transport.sync(version)
            findings = await self._check()
            if _worst(findings) == "failed":
                self._failed += 1
                told = _mismatch(version, self._learner.steps, _shown(findings))
                failed = replace(report, verified=False, canary=self._figures(findings), resent=True)
                raise WeightSyncMismatch(told, failed)
        return replace(
            report,
            seconds=time.monotonic() - started,
            verified=self._count(findings),
            canary=self._figures(findings),
            resent=resent,
        )

    @property
    def noise(self) -> float:
        """Of the noisiest replica at the first check, in nats; 0 before it."""
        return max((known.noise for known in self._known.values()), default=0.0)

    def _due(self) -> bool:
        if not self.verify_every_k:
            return False
        return self._pending or not self._known or self._learner.steps - self._checked_at >= self.verify_every_k

    async def _check(self) -> list[Finding]:
        """How each replica's change compares with the learner's; nothing of one that is read for the first time. Where
        all are verified, the next check compares with what was read now."""
        return await bounded(self._read(), self._timeout_s, "engine and learner did not answer the canary")

    async def _read(self) -> list[Finding]:
        if not self._prefixes:
            self._prefixes = await prefixes_of(self._engine)
            self._mark = zlib.crc32(b"".join(ids.tobytes() for ids in self._prefixes))
        steps = self._learner.steps
        self._adopt_stored()
        tops = {}
        for replica in self._engine.replicas:
            try:
                tops[replica] = await ask_engine(replica, self._prefixes)
            except EngineError:
                if replica is self._engine or not replica.ended.done():
                    raise
        now = {replica: candidates(top) for replica, top in tops.items()}
        before = {replica: self._known[replica] for replica in now if replica in self._known}
        wanted = [tokens for tokens, _ in now.values()] + [known.reading.tokens for known in before.values()]
        answers = iter(await ask_learner(self._learner, self._prefixes, wanted))
        if self._learner.steps != steps:
            raise WeightSyncError("the learner made an update while the canary asked it about the weights of a sync")
        readings = {replica: Reading(tokens, logp, next(answers)) for replica, (tokens, logp) in now.items()}
        findings = [
            judge(known.reading, tops[replica], next(answers), readings[replica], known.noise)
            for replica, known in before.items()
        ]
        for replica, reading in readings.items():
            if replica not in before:
                self._known[replica] = _Verified(reading, reading.noise)
            elif _worst(findings) == "verified":
                self._known[replica] = replace(before[replica], reading=reading)
        return findings

    def _count(self, findings: list[Finding]) -> Literal[True, "undecided"] | None:
        """Into `verified` of the report."""
        verdict = _worst(findings)
        self._pending = verdict == "undecided"
        if verdict == "undecided":
            self._undecided += 1
            return "undecided"
        self._undecided = 0
        self._checked_at = self._learner.steps
        return None if verdict is None else True

    def _figures(self, findings: list[Finding]) -> CanaryFigures | None:
        if not findings:
            return None
        shown = _shown(findings)
        return CanaryFigures(shown.slope, shown.residual, shown.noise, self._undecided, self._failed)

    def canary_state(self) -> dict[str, Any] | None:
        if not (self._known or self._stored):
            return None
        replicas = [{"noise": k.noise, **pack_reading(k.reading)} for k in self._known.values() or self._stored]
        return {
            "checked_at": self._checked_at,
            "undecided": self._undecided,
            "failed": self._failed,
            "prefixes": self._mark or self._stored_mark,
            "replicas": replicas,
        }

    def restore_canary(self, state: dict[str, Any] | None) -> None:
        """Another number of replicas, other prefixes, or a state that cannot be read: the canary begins anew."""
        try:
            state = state or {}
            stored = [_Verified(unpack_reading(entry), float(entry["noise"])) for entry in state["replicas"]]
            self._checked_at, self._undecided = int(state["checked_at"]), int(state["undecided"])
            self._failed, mark = int(state["failed"]), int(state["prefixes"])
        except (KeyError, TypeError, ValueError):
            return
        self._stored, self._stored_mark, self._pending = (
            stored,
            mark,
            True,
        )  # the engine is a new one: the first sync is checked

    def _adopt_stored(self) -> None:
        if self._mark == self._stored_mark and len(self._stored) == len(self._engine.replicas):
            self._known |= dict(zip(self._engine.replicas, self._stored, strict=True))
        self._stored = []

    def close(self) -> None:
        self._transport.close()


def _worst(findings: list[Finding]) -> str | None:
    return max((f.verdict for f in findings), key=SEVERITY.index, default=None)


def _shown(findings: list[Finding]) -> Finding:
    """Of several replicas the one that did worst."""
    return max(findings, key=lambda f: (SEVERITY.index(f.verdict), f.residual / f.noise))


def _mismatch(version: int, updates: int, finding: Finding) -> str:
    return (
        f"the engine confirmed weight version {version} ({updates} updates) twice and does not run it: its "
        f"log-probabilities did not change as the learner's did ({in_words(finding)})"
    )
