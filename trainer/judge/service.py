"""A judge service: one call scores one episode, its turns and its outcome (WIRE 1.8)."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec

from trainer.config.schema import JudgeOptionsConfig
from trainer.judge.answer import Unparsable, plain
from trainer.judge.cache import request_key
from trainer.judge.calls import Ask, Calls
from trainer.judge.errors import EVIDENCE_CHARS, JudgeFailed, JudgeMisconfigured
from trainer.judge.http import Answer, CallFailed, JudgeHttp, is_loopback, shown
from trainer.judge.providers import Said
from trainer.judge.remote import HttpJudge
from trainer.judge.reviews import Reviews, read_reviews
from trainer.judge.rubric import KINDS, Rubric
from trainer.judge.score import of_events
from trainer.judge.types import JudgedEpisode, JudgedTurn, Judgement
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import count, finite, mapping

Json = dict[str, Any]
KEY_NAME = "SYNTH_API_KEY"


def score_url(judge_url: str) -> str:
    """Where a service is posted to."""
    base = judge_url.rstrip("/")
    return f"{base if base.endswith('/api') else base + '/api'}/judge/v1/score"


class ServiceJudge(HttpJudge):
    """Passes the episode on; the service scores."""

    source = "service"

    def __init__(
        self,
        rubric: Rubric | None,
        aggregation: str,
        *,
        judge_url: str,
        key: str | None,
        options: JudgeOptionsConfig,
        timeout_s: float,
        policy_name: str,
        task_app: Json,
        calls: Calls,
    ) -> None:
        """
        Args:
            rubric: None: the service has it.
            timeout_s: of one try.
            task_app: {id, base_url}; an address on this machine is left out.
        """
        headers = {"authorization": f"Bearer {key}"} if key else {}
        http = JudgeHttp(score_url(judge_url), headers, [key] if key else [], options.max_concurrency)
        super().__init__(rubric, aggregation, calls, http)
        self.provider, self.model = options.provider, options.model
        self._options, self._timeout_s = options, timeout_s
        base = task_app.get("base_url")
        self._about = {"id": task_app.get("id")} | ({"base_url": shown(base)} if base and not is_loopback(base) else {})
        self._policy_name = policy_name

    async def judge(self, episode: JudgedEpisode) -> Judgement:
        if not episode.turns:
            raise JudgeFailed("judge_no_turns", "the episode has no turn to judge")
        began = time.monotonic()
        event, outcome = self._options.event, self._options.outcome
        body = self._body(episode)

        def read(text: str) -> Reviews:
            try:
                answer = json.loads(text)
            except (ValueError, RecursionError):
                raise Unparsable("the answer is not JSON") from None
            turns = [turn.t for turn in episode.turns] if event else []
            return read_reviews(answer, turns=turns, outcome=outcome, rubric=self.rubric)

        got = await self._calls.ask(
            Ask(
                episode=episode,
                kind="both" if event and outcome else "event" if event else "outcome",
                turn=None,
                key=request_key(self._http.url, _without_ids(body)),
                send=lambda: self._send(body),
                read=read,
                note=_note,
                keep=lambda text, reviews: text if len(text) <= EVIDENCE_CHARS else reviews.short(),
            )
        )
        reviews = got.value
        totals = [review.total for review in reviews.events]
        return Judgement(
            event=of_events(totals, self.aggregation) if totals else None,
            outcome=reviews.outcome.total if reviews.outcome else None,
            event_scores=totals,
            event_reviews=reviews.events,
            outcome_review=reviews.outcome,
            model=self.model,
            tokens_in=got.tokens_in,
            tokens_out=got.tokens_out,
            cost_usd=got.cost_usd,
            seconds=time.monotonic() - began,
            cached=got.cached,
            calls=[got.place],
        )

    def _body(self, episode: JudgedEpisode) -> Json:
        options = self._options
        sent = {
            "provider": options.provider,
            "model": options.model,
            "rubric_id": options.rubric_id,
            "event": options.event,
            "outcome": options.outcome,
            "timeout_s": self._timeout_s,
            "max_concurrency": options.max_concurrency,
            "metadata": options.metadata,
            "rubric_overrides": options.rubric_overrides,
        }
        body: Json = {
            "policy_name": self._policy_name,
            "task_app": self._about,
            "trace": {
                "event_history": [_event(turn) for turn in episode.turns],
                "markov_blanket_message_history": [_chat(m) for turn in episode.turns for m in turn.messages],
                "metadata": {"cid": episode.cid, "seed": episode.seed, "env_name": episode.env_name},
            },
            "options": {name: value for name, value in sent.items() if value not in (None, {})},
        }
        if self.rubric is not None:
            parts = {kind: self.rubric.part(kind) for kind in KINDS}
            body["rubric"] = {
                kind: [_criterion(c) for c in part.criteria] for kind, part in parts.items() if part is not None
            }
        return body

    async def _send(self, body: Json) -> Said:
        answer = await self._http.post(body, self._timeout_s)
        if answer.status != 200:
            raise self._failure(answer)
        said = answer.json()
        if not isinstance(said, dict):
            raise CallFailed("judge_unparsable", "the answer is not a JSON object", http=200, reply=answer.text)
        about = mapping(said.get("metadata"))
        problem = None
        if said.get("status") == "failed":
            problem = ("judge_refused", f"the service failed: {clean(_words(said.get('details')))}")
        return Said(
            text=answer.text,
            tokens_in=count(about.get("tokens_in")),
            tokens_out=count(about.get("tokens_out")),
            cost_usd=finite(about.get("cost_usd")),
            problem=problem,
        )

    def _failure(self, answer: Answer) -> Exception:
        status, url, said = answer.status, shown(self._http.url), clean(answer.text, 200)
        if status in (401, 403):
            what, hint = f"the judge service at {url} rejects the key ({status})", f"Correct the variable {KEY_NAME}"
            return JudgeMisconfigured("judge_auth", what, hint, answer.text, http=status)
        if status in (404, 405):
            rubric = clean(self._options.rubric_id or "", 60)
            what = (
                f"the judge service at {url} answered {status}{f' for the rubric {rubric}' if rubric else ''}: {said}"
            )
            hint = "Correct services.judge_url or judge.options.rubric_id"
            return JudgeMisconfigured("judge_route", what, hint, answer.text, http=status)
        about: Json = {"http": status, "reply": answer.text, "retry_after": answer.retry_after}
        if status == 429:
            return CallFailed("judge_rate_limited", f"429 from the judge service: {said}", **about)
        if status == 408 or status >= 500:
            return CallFailed("judge_transient", f"{status} from the judge service: {said}", **about)
        return CallFailed(
            "judge_request", f"the service refused the request with {status}: {said}", again=False, **about
        )


def _without_ids(body: Json) -> Json:
    """What an answer depends on: not how many calls are made at once, how long one may take, or the play's own id."""
    trace = body["trace"]
    metadata = {key: value for key, value in trace["metadata"].items() if key != "cid"}
    options = {k: v for k, v in body["options"].items() if k not in ("timeout_s", "max_concurrency")}
    return body | {"trace": trace | {"metadata": metadata}, "options": options}


def _event(turn: JudgedTurn) -> Json:
    heard = [message["text"] for message in turn.messages if message["role"] != "assistant"]
    return {
        "observation": heard[-1] if heard else None,
        "tool_calls": turn.tool_calls,
        "reward": turn.reward,
        "done": bool(turn.done),
        "truncated": bool(turn.truncated),
        "info": {},
    }


def _chat(message: Json) -> Json:
    kept = {name: message[name] for name in ("tool_calls", "name") if message.get(name)}
    return {"role": message["role"], "content": message["text"], **kept}


def _criterion(criterion: Any) -> Json:
    return {name: value for name, value in msgspec.to_builtins(criterion).items() if value is not None}


def _words(value: Any) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) or "no details"


def _note(reviews: Reviews) -> Json:
    """A line has room for one review: the outcome, else that of the only turn."""
    only = reviews.outcome or (reviews.events[0] if len(reviews.events) == 1 else None)
    if only is None:
        return {}
    return {"total": only.total, "criteria": {i: c.score for i, c in only.criteria.items()}, "tracks": only.tracks}
