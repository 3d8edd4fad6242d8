"""Exclusion codes and warnings of an episode (WIRE 1.6): the one table from which every sentence is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Stage = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Code:
    """Why an episode is excluded.

    stage: `b` is before advantages (the member is replayed, else its group is dropped), `a` is after (only
    this member is masked). retryable: tried again first, under a new cid. template: the sentence, whose `{}`
    are filled from the record's `detail`.
    """

    stage: Stage
    retryable: bool
    template: str


_TOKEN_RECORD = "token record broken: {what} at token {at}"

CODES: dict[str, Code] = {
    "http_error": Code("b", True, "task app answered {status} {tries} times"),
    "http_rejected": Code("b", False, "task app refused the request with {status}"),
    "timeout": Code("b", True, "no answer within {limit_s} s"),
    "bad_json": Code("b", True, "the answer is not JSON (byte {at})"),
    "wrong_shape": Code("b", False, "the answer has none of the known fields"),
    "reward_missing": Code("b", False, "no outcome reward in the answer"),
    "reward_not_finite": Code("b", False, "the reward at {path} is {value}"),
    "no_steps": Code("b", False, "the episode has no step"),
    "multiple_trajectories": Code("b", False, "{count} trajectories in one answer"),
    "aborted": Code("b", True, "the app gave up: {status_detail}"),
    "call_aborted": Code("b", True, "the last answer was cut off"),
    "app_error": Code("b", True, "call {call} failed with {status}, yet a reward came back"),
    "no_recorded_call": Code("b", False, "the app never called the given address"),
    "cid_mismatch": Code("b", False, "the answer belongs to episode {other}"),
    "engine_error": Code("b", True, "the inference engine failed: {cause}"),
    "judge_failed": Code("b", False, "the judge gave no score: {cause}"),
    "turn_mapping": Code("b", False, "{steps} steps do not match {calls} calls"),
    "length_mismatch": Code("b", False, _TOKEN_RECORD),
    "no_logprobs": Code("b", False, _TOKEN_RECORD),
    "logprob_not_finite": Code("b", False, _TOKEN_RECORD),
    "no_trained_token": Code("b", False, _TOKEN_RECORD),
    "span_gap": Code("b", False, _TOKEN_RECORD),
    "version_unknown": Code("b", False, _TOKEN_RECORD),
    "group_dropped": Code("b", False, "dropped with its group: member {member} had {code}"),
    "zero_variance": Code("a", False, "all {n} rewards were {value}: nothing to compare"),
    "stale": Code("a", False, "made with v{version}, {lag} steps behind, limit {limit}"),
    "too_long": Code("a", False, "{tokens} tokens, limit {limit}"),
    "unsupported_modality": Code("a", False, "the prompt holds {count} images, the learner reads text"),
    "truncated": Code("a", False, "cut at {tokens} tokens ({stop}); cut episodes are left out"),
    "proximal_mask": Code("a", False, "mean ratio {ratio} outside {low}–{high}"),
    "step_skipped": Code("a", False, "step {step} was skipped: {what} is not finite"),
}

# Those that are the task app's doing.
THE_APPS = tuple(
    "http_error http_rejected timeout bad_json wrong_shape reward_missing reward_not_finite no_steps "
    "multiple_trajectories aborted call_aborted app_error no_recorded_call cid_mismatch".split()
)

WARNINGS: dict[str, str] = {
    "no_id_echo": "the app does not echo the correlation id",
    "no_inference_url_echo": "the app does not echo the inference URL",
    "inference_url_without_cid": "the echoed inference URL has no ?cid=",
    "step_meta_missing": "steps[].info.meta is missing",
    "malformed_step": "a step of the trajectory is not an object and counts as an empty step",
    "empty_event_history": "the trace has an empty event_history",
    "multiple_episodes": "more than one return in one answer: the mean is used",
    "info_error": "info.error without a failed model call (may be game feedback)",
    "defaulted_reward_mean": "the outcome is a reward_mean of 0.0, which may be its unset default",
    "sampling_forced": "the app asks for other sampling than training allows; what was forced is recorded",
    "num_steps_mismatch": "num_steps differs from the recorded model calls",
    "more_calls_than_turns": "more model calls than max_turns",
    "turns_unmatched": "{steps} steps do not match {calls} calls: step rewards count as a sum over the episode",
    "steps_count_twice": "the outcome {outcome} is itself the sum of the environment's step rewards ({sum}), which "
    "env_sparse adds once more",
    "achievements_unnamed": "the app says how many achievements are new and not which: each weighs 1",
}

_TOO_LARGE = "the answer is too large: over {over}"  # of a bad_json that was not read as JSON at all

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")


def clean(text: str, limit: int = 200) -> str:
    """Text of a task app on one line: no control, direction or surrogate characters, at most `limit` long."""
    text = _UNSAFE.sub(" ", text[: 4 * limit]).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def sentence(code: str, detail: Mapping[str, object]) -> str:
    """The sentence of `code` filled from `detail`; a value that is not there reads `?`. Never raises.

    `said`, where it is there, is the other side's own reason and follows the sentence.
    """
    known = CODES.get(code)
    if known is None:
        return f"excluded: {clean(code)}"
    text = _filled(_TOO_LARGE if code == "bad_json" and "over" in detail else known.template, detail)
    text = text[: -len(" 1 times")] + " once" if text.endswith(" 1 times") else text
    return f"{text}: {clean(str(detail['said']))}" if detail.get("said") else text


def warning(kind: str, detail: Mapping[str, object]) -> str:
    """The text of a warning, likewise."""
    return _filled(WARNINGS.get(kind, clean(kind)), detail)


def _filled(template: str, detail: Mapping[str, object]) -> str:
    def fill(match: re.Match[str]) -> str:
        value = detail.get(match[1])
        return "?" if value is None else clean(str(value))

    return re.sub(r"\{(\w+)\}", fill, template)
