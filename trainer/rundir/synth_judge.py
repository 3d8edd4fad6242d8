"""What a judge said of a synthetic run. Its draws are its own: what is played is the same with and without it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainer.rundir.records import JudgeRecord
from trainer.rundir.writer import RunWriter

ABOUT = {"source": "llm", "provider": "openai", "model": "gpt-5-nano", "rubric_id": "facts", "rubric_hash": "0" * 16}
WEIGHTS = {"env": 0.7, "event": 0.1, "outcome": 0.2}
TIMEOUT_S = 30.0
_BAD = "Sure! Here is my verdict: the answer is mostly right."
_FAILURES = ("judge_unparsable", "judge_transient")


class SynthJudge:
    """Judges an episode before it is written: `of` gives its reward, its event and outcome score and its tracks."""

    def __init__(self, seed: int, writer: RunWriter) -> None:
        self._random = np.random.default_rng([seed, 77])
        self._writer = writer
        self._scores: dict[str, list[float]] = {}  # metrics of each training episode since the last `closing`
        self._seconds: list[float] = []

    def begin(self) -> None:
        self._writer.environment({"judge": {**ABOUT, "rubric_from": "the config"}})

    def of(
        self, cid: str, step: int, iteration: int, env: float, now: float, *, train: bool, alike: bool
    ) -> tuple[float, float, float, dict[str, float]]:
        """`now`: epoch seconds at which the episode ended. `alike`: equal rewards get equal scores."""
        noise = self._random.normal(0, 1, 4) * (not alike)
        fact = float(np.clip(0.15 + 0.7 * env + 0.1 * noise[0], 0, 1))
        style = float(np.clip(0.6 + 0.1 * noise[1], 0, 1))
        event = float(np.clip(env + 0.15 * noise[2], 0, 1))
        seconds = 1.2 + 0.8 * float(abs(noise[3]))
        call: dict[str, Any] = {**ABOUT, "step": step, "iteration": iteration, "n": None, "cid": cid, "key": cid}
        call |= {"kind": "both", "turn": None, "t_queued": now, "t_start": now + 0.1}
        tries = int(self._random.random() < 0.02)
        for number in range(tries):
            code = _FAILURES[int(self._random.integers(len(_FAILURES)))]
            wall = TIMEOUT_S if code == "judge_transient" else seconds
            reply = _BAD if code == "judge_unparsable" else ""
            failed = JudgeRecord(status="failed", code=code, reply=reply, wall_s=wall, try_=number, **call)
            self._writer.judge(failed)
        tracks = {"fact": fact, "style": style}
        outcome = (fact + style) / 2
        call |= {"tokens_in": 900, "tokens_out": 80, "cost_usd": 0.00008, "http": 200}
        self._writer.judge(JudgeRecord(total=outcome, tracks=tracks, reply="{}", wall_s=seconds, try_=tries, **call))
        self._seconds.append(seconds)
        parts = {"env": env, "event": event, "outcome": outcome}
        for family, scores in (("judge", tracks), ("reward", parts)) if train else ():
            for name, score in scores.items():
                self._scores.setdefault(f"{family}/{name}", []).append(score)
        return sum(WEIGHTS[name] * part for name, part in parts.items()), event, outcome, tracks

    def closing(self) -> dict[str, float]:
        """judge/* of an iteration, and the parts of its reward."""
        metrics = {name: float(np.mean(scores)) for name, scores in self._scores.items()}
        metrics |= {"judge/failed": 0.0, "judge/agreement": 0.8}
        if self._seconds:
            metrics["judge/latency"] = float(np.mean(self._seconds))
        self._scores, self._seconds = {}, []
        return metrics
