"""Criteria checked by code: no model, no network, no cost (CONFIG section 7)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from trainer.judge.cache import request_key
from trainer.judge.calls import Record
from trainer.judge.errors import JudgeFailed, JudgeMisconfigured
from trainer.judge.judge import Judge
from trainer.judge.rubric import KINDS, Criterion, Rubric, RubricPart
from trainer.judge.rule_process import RuleProcess, WrongRuleAt
from trainer.judge.rules import FOREIGN, Rule, RuleFailed, WrongRule, read_rule
from trainer.judge.score import combine, of_events
from trainer.judge.types import CriterionScore, JudgedEpisode, Judgement, Review
from trainer.rundir.records import JudgeRecord
from trainer.taskapp.codes import clean

Json = dict[str, Any]
_Name = tuple[str, str]  # of a rule: kind of its rubric's part, id of its criterion


class RuleJudge(Judge):
    """Every criterion of its rubric has a rule."""

    source = "rule"

    def __init__(
        self,
        rubric: Rubric,
        aggregation: str,
        *,
        timeout_s: float,
        record: Record,
        allow_code: bool,
        code_from: Path | None,
    ) -> None:
        """
        Args:
            timeout_s: of a rule that runs code or patterns of others.
            allow_code: whether rules of kind python are run.
            code_from: the folder in which their modules are looked for, too.

        Raises:
            JudgeMisconfigured: a rule that cannot be applied.
        """
        super().__init__(rubric, aggregation)
        self._record = record
        self._rules: dict[_Name, Rule] = {}
        foreign: dict[_Name, Json] = {}
        for kind in KINDS:
            for criterion in getattr(rubric.part(kind), "criteria", ()):
                name = kind, criterion.id
                rule = _given(criterion, name, allow_code)
                if rule.get("kind") in FOREIGN:
                    foreign[name] = rule
                    continue
                try:
                    self._rules[name] = read_rule(rule)
                except WrongRule as error:
                    raise _unusable(name, error) from None
        self._foreign = {name: number for number, name in enumerate(foreign)}
        self._process: RuleProcess | None = None
        if foreign:
            try:
                self._process = RuleProcess(list(foreign.values()), timeout_s, code_from)
            except WrongRuleAt as error:
                raise _unusable(None if error.number is None else [*foreign][error.number], error) from None

    async def close(self) -> None:
        if self._process is not None:
            self._process.close()

    async def judge(self, episode: JudgedEpisode) -> Judgement:
        if not episode.turns:
            raise JudgeFailed("judge_no_turns", "the episode has no turn to judge")
        began = time.monotonic()
        rubric = self.rubric
        assert rubric is not None
        judgement = Judgement()
        if rubric.event is not None:
            for position in range(len(episode.turns)):
                judgement.event_reviews.append(await self._review(rubric.event, episode, position, judgement.calls))
            judgement.event_scores = [review.total for review in judgement.event_reviews]
            judgement.event = of_events(judgement.event_scores, self.aggregation)
        if rubric.outcome is not None:
            judgement.outcome_review = await self._review(rubric.outcome, episode, None, judgement.calls)
            judgement.outcome = judgement.outcome_review.total
        judgement.seconds = time.monotonic() - began
        judgement.cost_usd = 0.0
        return judgement

    async def _review(self, part: RubricPart, episode: JudgedEpisode, position: int | None, calls: list[int]) -> Review:
        kind = "outcome" if position is None else "event"
        turn = None if position is None else episode.turns[position].t
        started, t_start = time.monotonic(), time.time()
        scores: dict[str, float] = {}
        line: Json = {"kind": kind, "turn": turn, "t_queued": t_start, "t_start": t_start}
        try:
            for criterion in part.criteria:
                scores[criterion.id] = await self._score(kind, criterion, episode, position)
        except JudgeFailed as failure:
            wall = time.monotonic() - started
            self._write(episode, status="failed", code=failure.code, reply=failure.text, wall_s=wall, **line)
            raise
        total, tracks = combine(part, scores, self.rubric.weights if self.rubric else {})
        said = {"total": total, "criteria": scores, "tracks": tracks, "wall_s": time.monotonic() - started}
        calls.append(self._write(episode, **said, **line))
        criteria = {id: CriterionScore(score) for id, score in scores.items()}
        return Review(total=total, criteria=criteria, tracks=tracks, turn=turn)

    async def _score(self, kind: str, criterion: Criterion, episode: JudgedEpisode, position: int | None) -> float:
        name = kind, criterion.id
        try:
            if name in self._rules:
                return self._rules[name].score(episode, position)
            assert self._process is not None
            return await self._process.score(self._foreign[name], episode, position)
        except RuleFailed as failure:
            raise JudgeFailed(failure.code, f"the rule of {clean(criterion.id, 60)}: {failure}") from None

    def _write(self, episode: JudgedEpisode, **fields: Any) -> int:
        rubric = self.rubric
        assert rubric is not None
        key = request_key("rule", {"rubric": rubric.hash, "cid": episode.cid, "turn": fields["turn"]})
        return self._record(
            JudgeRecord(
                step=episode.step,
                iteration=episode.iteration,
                n=episode.n,
                cid=episode.cid,
                source="rule",
                provider=None,
                model=None,
                rubric_id=rubric.id,
                rubric_hash=rubric.hash,
                key=key,
                **fields,
            )
        )


def _given(criterion: Criterion, name: _Name, allow_code: bool) -> Json:
    if criterion.rule is None:
        hint = 'Give it rule = { kind = "...", value = ... }, or set judge.type = "llm"'
        raise JudgeMisconfigured("judge_rule", f"{_where(name)} is missing", hint)
    if criterion.rule.get("kind") == "python" and not allow_code:
        hint = "Start the server with --allow-code, or use another kind of rule"
        raise JudgeMisconfigured("code_not_allowed", f"{_where(name)} runs code, which is not allowed here", hint)
    return criterion.rule


def _unusable(name: _Name | None, error: WrongRule) -> JudgeMisconfigured:
    what = "the rules" if name is None else _where(name)
    return JudgeMisconfigured("judge_rule", f"{what} cannot be used: {error}", "Correct the rubric")


def _where(name: _Name) -> str:
    return f"the rule of {name[0]} criterion {clean(name[1], 60)}"
