import string

import pytest

from trainer.taskapp.codes import CODES, clean, sentence


def test_sentences_are_filled_from_the_detail():
    assert sentence("http_error", {"status": 502, "tries": 3}) == "task app answered 502 3 times"
    assert sentence("http_error", {"status": 502, "tries": 1}) == "task app answered 502 once"
    stale = {"version": 405, "lag": 5, "limit": 4}
    assert sentence("stale", stale) == "made with v405, 5 steps behind, limit 4"
    assert sentence("zero_variance", {"n": 4, "value": 1.0}) == "all 4 rewards were 1.0: nothing to compare"


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
