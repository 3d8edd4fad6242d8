import string

import pytest

from trainer.taskapp.codes import CODES, WARNINGS, clean, sentence, warning
from trainer.taskapp.errors import RolloutFailure


def test_sentences_are_filled_from_the_detail():
    assert sentence("http_error", {"status": 502, "tries": 3}) == "task app answered 502 3 times"
    assert sentence("http_error", {"status": 502, "tries": 1}) == "task app answered 502 once"
    said = {"status": 500, "tries": 1, "said": "no\nreward"}
    assert sentence("http_error", said) == "task app answered 500 once: no reward"
    stale = {"version": 405, "lag": 5, "limit": 4}
    assert sentence("stale", stale) == "made with v405, 5 steps behind, limit 4"
    assert sentence("zero_variance", {"n": 4, "value": 1.0}) == "all 4 rewards were 1.0: nothing to compare"


def test_every_code_of_the_contract_has_its_sentence():
    assert set(CODES) == {
        "http_error", "http_rejected", "timeout", "bad_json", "wrong_shape", "reward_missing", "reward_not_finite",
        "no_steps", "multiple_trajectories", "aborted", "call_aborted", "app_error", "no_recorded_call", "cid_mismatch",
        "engine_error", "judge_failed", "turn_mapping", "length_mismatch", "no_logprobs", "logprob_not_finite",
        "no_trained_token", "span_gap", "version_unknown", "group_dropped", "zero_variance", "stale", "too_long",
        "unsupported_modality", "truncated", "proximal_mask", "step_skipped",
    }  # fmt: skip
    assert sentence("no_recorded_call", {}) == "the app never called the given address"
    bad = {"path": "metrics.outcome_reward", "value": "nan"}
    assert sentence("reward_not_finite", bad) == "the reward at metrics.outcome_reward is nan"


def test_a_failure_counts_the_tries_that_are_known_when_it_is_told():
    failure = RolloutFailure("http_error", {"status": 500, "tries": 1}, "body")
    failure.detail["tries"] = 2  # by whoever tried again
    assert str(failure) == "task app answered 500 2 times" and failure.evidence == "body"


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_sentence_even_without_detail(code):
    text = sentence(code, {})
    assert text and "{" not in text
    names = [name for _, name, _, _ in string.Formatter().parse(CODES[code].template) if name]
    assert text.count("?") == len(names)


def test_the_stages_and_retries_of_the_contract():
    retried = {code for code, entry in CODES.items() if entry.retryable}
    assert retried == {
        "http_error", "timeout", "bad_json", "aborted", "call_aborted", "app_error", "engine_error",
    }  # fmt: skip
    after = {code for code, entry in CODES.items() if entry.stage == "a"}
    assert after == {
        "zero_variance", "stale", "too_long", "unsupported_modality", "truncated", "proximal_mask",
        "step_skipped",
    }  # fmt: skip


def test_hostile_values_stay_one_short_harmless_line():
    text = sentence("aborted", {"status_detail": "\x1b[31mred\x07\n\u202eback {cause} " + "x" * 10_000})
    assert "\x1b" not in text and "\n" not in text and "\u202e" not in text
    assert "{cause}" in text and len(text) < 300
    assert sentence("\x1bnope", {}) == "excluded: nope"
    clean("\ud800" * 50).encode()


def test_warnings_are_filled_likewise():
    assert warning("turns_unmatched", {"steps": 5, "calls": 2}).startswith("5 steps do not match 2 calls")
    assert warning("\x1bnew", {}) == "new"
    assert all("{" not in warning(kind, {}) for kind in WARNINGS)
