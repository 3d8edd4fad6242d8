from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.inference.stopping import StopStrings, cut_at_stop
from trainer.inference.streaming import safe_length


def decode(ids):
    return bytes(ids).decode(errors="replace")


@given(st.text("abé", max_size=30), st.lists(st.text("abé", min_size=1, max_size=4), min_size=1, max_size=3))
def test_found_at_the_first_token_that_completes_one(text, stops):
    ids = list(text.encode())
    whole = [i for i in range(1, len(ids) + 1) if any(s in decode(ids[:i]) for s in stops)]
    matcher = StopStrings(stops, decode)
    found = next((i for i in range(1, len(ids) + 1) if matcher.match(ids[:i])), None)
    assert found == (whole[0] if whole else None)


@given(st.text("ab#", max_size=20), st.lists(st.text("ab#", min_size=1, max_size=3), min_size=1, max_size=2))
def test_streamed_text_never_shows_a_stop(text, stops):
    shown = ""
    for i in range(len(text)):
        grown = text[: i + 1]
        if any(s in grown for s in stops):
            cut = min(grown.find(s) for s in stops if s in grown)
            assert grown[:cut].startswith(shown)
            break
        safe = safe_length(grown, stops)
        assert grown.startswith(shown) and safe >= len(shown)
        shown = grown[:safe]


def test_half_characters_wait_and_text_is_cut():
    assert safe_length("Gr\ufffd", ()) == 2
    assert cut_at_stop("a STOP b", "STOP") == "a "
    assert cut_at_stop("abc", None) == "abc"
