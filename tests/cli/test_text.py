"""Hostile text against the cleaner: nothing a terminal would obey may pass."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.text import ELLIPSIS, MARK, clean, fit, width

CORPUS = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "clear screen": ("a\x1b[2J\x1b[Hb", "ab"),
    "private mode": ("a\x1b[?1049hb", "ab"),
    "window title": ("a\x1b]0;owned\x07b", "ab"),
    "clipboard": ("a\x1b]52;c;aGVsbG8=\x1b\\b", "ab"),
    "hyperlink": ("\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"),
    "device control": ("a\x1bP+q544e\x1b\\b", "ab"),
    "unfinished osc ends at the line": ("a\x1b]52;c;AAAA\nb", "a b"),
    "lone escape at the end": ("a\x1b", "a"),
    "c1 csi": ("a\x9b31mb", "ab"),
    "c1 osc": ("a\x9d0;title\x9cb", "ab"),
    "c1 next line": ("a\x85b", "a b"),
    "carriage return cannot overwrite": ("reward 0.0\rreward 1.0", "reward 0.0 reward 1.0"),
    "backspace": ("no\b\bok", "nook"),
    "bell and null": ("a\x07\x00b", "ab"),
    "newlines and tabs": ("a\n\n\tb\r\nc", "a b c"),
    "line separator": ("a\u2028b\u2029c", "a b c"),
    "bidi override": ("user\u202egpj.exe", f"user{MARK}gpj.exe"),
    "bidi isolate": ("\u2066x\u2069", f"{MARK}x{MARK}"),
    "zero width": ("a\u200bb\ufeffc\u2060d", "abcd"),
    "soft hyphen": ("a\u00adb", "ab"),
    "tag characters": ("a\U000e0041\U000e0042b", "ab"),
    "lone surrogate": ("a\ud800b", f"a{MARK}b"),
    "private use": ("a\ue000b", f"a{MARK}b"),
    "stacked marks": ("a" + "\u0301" * 50 + "b", "a" + "\u0301" * 4 + "b"),
    "honest text stays": ("Ça va ? 你好 — नमस्ते 👩\u200d💻", "Ça va ? 你好 — नमस्ते 👩\u200d💻"),
    "not a string": (None, "None"),
    "number": (0.5, "0.5"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name):
    dirty, wanted = CORPUS[name]
    assert clean(dirty) == wanted


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(1, 80))
def test_nothing_unprintable_survives(text, limit):
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit + 1
    for char in cleaned:
        assert unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
        assert char in "\u200c\u200d" or unicodedata.category(char) != "Cf"
    cleaned.encode("utf-8")
    assert clean(cleaned, limit + 1) == cleaned


@given(st.text(max_size=60), st.integers(0, 30))
def test_fit_never_takes_more_cells(text, cells):
    assert width(fit(clean(text), cells)) <= cells


def test_a_cut_is_shown():
    assert clean("x" * 100, 10) == "x" * 9 + ELLIPSIS
    assert fit("你好吗", 4) == "你" + ELLIPSIS
    assert fit("abc", 3) == "abc"


def test_the_cost_is_capped_before_any_matching():
    assert clean("\x1b]" + "A" * 5_000_000, 20).endswith(ELLIPSIS)
