"""How a judgement fails: one episode, or the whole job."""

from __future__ import annotations

EVIDENCE_CHARS = 2_000


class JudgeFailed(Exception):
    """No score for one episode: it is excluded as `judge_failed` and counted, never scored 0.

    Args:
        code: one of WIRE 1.8 (judge_rate_limited, judge_transient, judge_request, judge_refused, judge_unparsable),
            or judge_rule, judge_reward_missing, judge_no_turns.
        text: what happened, in a phrase: it fills "the judge gave no score: {cause}".
        evidence: what the judge answered.
    """

    def __init__(self, code: str, text: str, evidence: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.evidence = code, text, evidence[:EVIDENCE_CHARS]


class JudgeMisconfigured(RuntimeError):
    """No episode can ever be judged like this, so the job stops. `message` says what happened, `hint` what to fix.

    Args:
        code: judge_auth, judge_route, judge_request, judge_rubric, judge_rule, judge_key, code_not_allowed.
        http: the status that says so.
    """

    def __init__(self, code: str, message: str, hint: str, evidence: str = "", *, http: int | None = None) -> None:
        super().__init__(f"{message}. {hint}")
        self.code, self.message, self.hint, self.http = code, message, hint, http
        self.evidence = evidence[:EVIDENCE_CHARS]
