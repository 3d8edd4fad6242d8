"""Cleaning and wrapping of many-line text by cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rltui.text_lines import PIECE, crop, cut, pad, pieces, printable, wrap

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]52;c;ZXZpbA==\x07clip",
    "\x1b]0;title\x1b\\x",
    "\x9b2Jcleared",
    "a\x00b\x07c\x08d\x7f",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "Z\u0351\u0352\u0353\u0354\u0355\u0356\u0357\u0358algo",
    "你好,世界" * 40,
    "👩‍👩‍👧 ❤️ 👍🏽 🇩🇪",
    "\ud800 lone \udfff",
    "[red]markup[/red] [@click=app.bell]x[/]",
    "\tindent\twith\ttabs",
    "line\u2028separator\u2029and\x85next",
    "\x1b[",
    "\x1b]no end",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [1, 2, 7, 40])
def test_hostile_text_has_no_control_and_exact_widths(text: str, width: int) -> None:
    for piece in pieces(text):
        shown = printable(piece)
        assert all(char.isprintable() for char in shown)
        for row in wrap(shown, width):
            assert cell_len(row) <= width
        assert cell_len(crop(shown, width)) <= width
        assert cell_len(pad(shown, width)) == width


@given(st.text(max_size=300), st.integers(min_value=1, max_value=30))
def test_any_text_fits_and_no_word_is_lost(text: str, width: int) -> None:
    shown = printable(text)
    assert all(char.isprintable() for char in shown)
    rows = wrap(shown, width)
    assert rows and all(cell_len(row) <= width for row in rows)
    if width >= 2:  # in a single column wide characters have no place
        assert "".join(rows).replace(" ", "") == shown.replace(" ", "")
    hard = wrap(shown, width, words=False)
    assert width < 2 or "".join(hard) == shown


def test_words_stay_whole_and_indentation_stays() -> None:
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrap("    return value_of_something", 12) == ["    return", "value_of_som", "ething"]
    assert wrap("", 5) == [""]
    assert wrap("a" * 12, 5) == ["aaaaa", "aaaaa", "aa"]
    assert wrap("你好世界", 5) == ["你好", "世界"]


def test_what_terminals_count_differently_is_left_out() -> None:
    """Letters of flags, fillers of Hangul, joiners, skin tones."""
    assert printable("a\U0001f1e9\U0001f1eab\u3164c\u115f\u1160d\uffa0e👍🏽") == "abcde👍"


def test_tabs_become_spaces_and_spaces_stay() -> None:
    assert printable("\tx = 1") == "    x = 1"
    assert printable("a  b   c") == "a  b   c"


def test_a_long_line_is_cut_into_pieces_and_nothing_is_lost() -> None:
    line = "x" * 10_000_000
    parts = list(cut(line))
    assert all(len(part) <= PIECE for part in parts) and "".join(parts) == line
    words = "word " * 5_000
    parts = list(cut(words))
    assert "".join(parts) == words and all(part.endswith(" ") for part in parts[:-1])


def test_only_the_pieces_that_are_taken_are_made() -> None:
    taken = cut("y" * 10_000_000)
    assert len(next(taken)) == PIECE  # a generator: the rest is never touched


def test_lines_end_as_on_any_system() -> None:
    assert list(pieces("a\r\nb\n\nc")) == ["a", "b", "", "c"]
