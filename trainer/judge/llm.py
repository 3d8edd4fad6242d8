"""A model as judge: one call for each judged turn, and one for the episode, over any chat API."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from trainer.judge.answer import read_scores, write_scores
from trainer.judge.cache import request_key
from trainer.judge.calls import Ask, Calls, Got
from trainer.judge.errors import EVIDENCE_CHARS, JudgeFailed, JudgeMisconfigured
from trainer.judge.http import Answer, CallFailed, JudgeHttp, shown
from trainer.judge.judge import all_of
from trainer.judge.prompt import ask as ask_for
from trainer.judge.prompt import schema
from trainer.judge.providers import Provider, Said
from trainer.judge.remote import HttpJudge
from trainer.judge.rubric import Rubric, RubricPart
from trainer.judge.score import combine, of_events
from trainer.judge.types import JudgedEpisode, Judgement, Review
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import mapping

Json = dict[str, Any]
_TRANSIENT = frozenset({408, 409, 425})
_MESSAGE_CHARS = 500  # of an error: some servers send the whole request back in it
_NOT_JSON = "json_validate_failed"  # groq's 400 for what its model wrote, not for what was asked


class LlmJudge(HttpJudge):
    """Asks a model, with structured outputs where its server has them."""

    source = "llm"

    def __init__(
        self, rubric: Rubric, aggregation: str, provider: Provider, timeout_s: float, limit: int, calls: Calls
    ) -> None:
        """timeout_s: of one try. limit: calls at once."""
        secrets = [provider.key] if provider.key else []
        http = JudgeHttp(provider.url, provider.wire.headers(provider.key), secrets, limit)
        super().__init__(rubric, aggregation, calls, http)
        self.provider, self.model = provider.name, provider.model
        self._who, self._timeout_s, self._rubric = provider, timeout_s, rubric
        self._weaker: list[int] = []  # of the wire's: what this server was found to refuse

    async def judge(self, episode: JudgedEpisode) -> Judgement:
        if not episode.turns:
            raise JudgeFailed("judge_no_turns", "the episode has no turn to judge")
        began = time.monotonic()
        asked: list[int | None] = [*range(len(episode.turns) if self._rubric.event else 0)]
        asked += [None] if self._rubric.outcome else []
        got = await all_of([self._calls.ask(self._ask(episode, position)) for position in asked])
        judgement = self._judgement([item.value for item in got])
        judgement.seconds = time.monotonic() - began
        return _with_costs(judgement, got)

    def _judgement(self, reviews: list[Review]) -> Judgement:
        events = [review for review in reviews if review.turn is not None]
        outcome = next((review for review in reviews if review.turn is None), None)
        totals = [review.total for review in events]
        return Judgement(
            event=of_events(totals, self.aggregation) if totals else None,
            outcome=outcome.total if outcome else None,
            event_scores=totals,
            event_reviews=events,
            outcome_review=outcome,
            model=self.model,
        )

    def _ask(self, episode: JudgedEpisode, position: int | None) -> Ask[Review]:
        """position: of the turn that is judged; None: the episode is."""
        part = self._rubric.outcome if position is None else self._rubric.event
        assert part is not None
        turn = None if position is None else episode.turns[position].t
        system, user = ask_for(part, episode, position)
        form = schema(part.criteria, limits=self._who.own_server)
        body = self._who.wire.body(self._who.model, system, user, form)
        return Ask(
            episode=episode,
            kind="outcome" if turn is None else "event",
            turn=turn,
            # aggregation and weights are ours, not the model's: they change no answer, and so no key
            key=request_key(self._who.url, body),
            send=lambda: self._send(body),
            read=_reader(part, self._rubric.weights, turn),
            note=_note,
            keep=lambda text, review: text if len(text) <= EVIDENCE_CHARS else _short(review, part),
        )

    async def _send(self, body: Json) -> Said:
        """One try. A field that the server does not take is left out at once, and from then on."""
        weaker = self._who.wire.weaker
        while True:
            now, left_out = body, len(self._weaker)
            for number in self._weaker:
                now = weaker[number][1](now)
            answer = await self._http.post(now, self._timeout_s)
            if answer.status == 200:
                return self._read(answer)
            if answer.status not in (400, 422) or _NOT_JSON in answer.text:
                raise self._failure(answer)
            if len(self._weaker) > left_out:  # another call found out meanwhile
                continue
            text = _message(answer).lower()
            refused = (
                number
                for number, (words, change) in enumerate(weaker)
                if number not in self._weaker and any(word in text for word in words) and change(now) != now
            )
            if (first := next(refused, None)) is None:
                raise self._failure(answer)
            self._weaker.append(first)

    def _read(self, answer: Answer) -> Said:
        body = answer.json()
        if not isinstance(body, dict):
            raise CallFailed("judge_unparsable", "the answer is not a JSON object", http=200, reply=answer.text)
        said = self._who.wire.read(body)
        return msgspec.structs.replace(said, text=self._http.masked(said.text))  # whose blocks may each hold a half

    def _failure(self, answer: Answer) -> Exception:
        """What a status means: some will be the same for every episode."""
        who, status, url = self._who, answer.status, shown(self._who.base_url)
        said = clean(_message(answer), 200)
        if status in (401, 403) or (status == 400 and "api key" in said.lower()):  # gemini answers 400
            what = f"the judge at {url} rejects the key ({status}): {said}"
            return JudgeMisconfigured(
                "judge_auth", what, f"Correct the variable {who.key_name}", answer.text, http=status
            )
        if status in (404, 405):
            what = f"the judge at {url} answered {status} for the model {clean(who.model, 80)}: {said}"
            where = "judge.options.base_url" if who.own_server else "judge.options.provider"
            return JudgeMisconfigured(
                "judge_route", what, f"Correct judge.options.model, or {where}", answer.text, http=status
            )
        if status == 400 and _NOT_JSON in answer.text:
            return CallFailed(
                "judge_unparsable", f"the model wrote no such JSON: {said}", http=status, reply=answer.text
            )
        about: Json = {"http": status, "reply": answer.text, "retry_after": answer.retry_after}
        if status == 429:
            return CallFailed("judge_rate_limited", f"429 from the judge: {said}", **about)
        if status in _TRANSIENT or status >= 500:
            return CallFailed("judge_transient", f"{status} from the judge: {said}", **about)
        return CallFailed("judge_request", f"the judge refused the request with {status}: {said}", again=False, **about)


def _message(answer: Answer) -> str:
    """What a server says of an error, in the shapes that they use."""
    body = answer.json()
    if isinstance(body, list) and body:
        body = body[0]
    error = mapping(body).get("error")
    message = mapping(error).get("message") or (error if isinstance(error, str) else None)
    message = message or mapping(body).get("message") or mapping(body).get("detail") or answer.text
    param = mapping(error).get("param")
    return f"{str(message)[:_MESSAGE_CHARS]}{f' ({param})' if isinstance(param, str) else ''}"


def _reader(part: RubricPart, weights: dict[str, float], turn: int | None) -> Callable[[str], Review]:
    def read(text: str) -> Review:
        scores = read_scores(text, part.criteria)
        total, tracks = combine(part, {id: given.score for id, given in scores.items()}, weights)
        return Review(total=total, criteria=scores, tracks=tracks, turn=turn)

    return read


def _short(review: Review, part: RubricPart) -> str:
    return write_scores(review.criteria, part.criteria, EVIDENCE_CHARS)


def _note(review: Review) -> Json:
    criteria = {id: given.score for id, given in review.criteria.items()}
    return {"total": review.total, "criteria": criteria, "tracks": review.tracks}


def _with_costs(judgement: Judgement, got: list[Got[Review]]) -> Judgement:
    costs = [item.cost_usd for item in got]
    judgement.tokens_in = sum(item.tokens_in for item in got)
    judgement.tokens_out = sum(item.tokens_out for item in got)
    judgement.cost_usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    judgement.cached = all(item.cached for item in got)
    judgement.calls = [item.place for item in got]
    return judgement
