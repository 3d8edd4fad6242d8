"""Looks: every name works in every mode, glyphs are one cell, gradients hold their ends."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest
from rich.cells import cell_len
from rich.color import Color, ColorSystem

from rltui.look import ColorMode, Look, default_look
from rltui.look.colors import blend, contrast, distance, nearest_256
from rltui.look.glyphs import GLYPHS
from rltui.look.styles import STATES, STYLES

NAMES = """text dim strong border border_focus title accent selection selection_idle marked good watch act info live key
key_label match header header_active role_system role_user role_assistant role_tool level_debug level_info level_warning
level_error axis grid replay""".split()
SIGNS = """state_queued state_starting state_running state_paused state_stopping state_succeeded state_failed
state_cancelled state_unreadable cursor mark pin more up down left right ellipsis good watch act dot sep hline vline
bar_full bar_empty fold_open fold_closed unread clipped gap""".split()


def look(color: ColorMode, ascii: bool = False) -> Look:
    return Look(default_look().theme, color, ascii)


@pytest.mark.parametrize(("color", "ascii"), list(product(ColorMode, (False, True))))
def test_every_name_works_in_every_mode(color: ColorMode, ascii: bool) -> None:
    shown = look(color, ascii)
    assert all(shown.style(name) is not None for name in NAMES)
    signs = [shown.glyph(name) for name in SIGNS] + [shown.marker(i) for i in range(9)] + list(shown.bars)
    assert all(cell_len(sign) == 1 for sign in signs)
    assert not ascii or all(sign.isascii() for sign in signs)
    assert len(shown.bars) == 9
    assert len({shown.marker(i) for i in range(8)}) == 8
    assert shown.series(9) == shown.series(1) and shown.marker(9) == shown.marker(1)
    assert len({shown.state(state)[0] for state in STATES}) == len(STATES)
    assert shown.state("of tomorrow") == shown.state("unreadable")


def test_the_tables_hold_nothing_that_is_not_promised() -> None:
    assert set(STYLES) == set(NAMES)
    assert set(GLYPHS) == set(SIGNS)


def test_an_unknown_name_is_an_error_of_the_program() -> None:
    for call in (default_look().style, default_look().glyph):
        with pytest.raises(KeyError):
            call("teal")


def test_the_cursor_row_keeps_the_colours_of_its_words_where_they_can_be_read() -> None:
    word = default_look().style("act") + default_look().style("selection")
    assert word.color == default_look().style("act").color
    assert word.bgcolor == default_look().style("selection").bgcolor
    ansi = look(ColorMode.ANSI16)
    row = ansi.style("dim") + ansi.style("selection")
    assert row.color == Color.parse("black") and not row.dim


def test_a_gradient_holds_its_ends_and_takes_any_number() -> None:
    shown = default_look()
    for kind in ("sequential", "diverging"):
        stops = shown.theme.rgb.gradients[kind]
        ends = [shown.gradient(kind, x).color for x in (0.0, 1.0)]
        assert [end and end.triplet and end.triplet.hex for end in ends] == [stops[0], stops[-1]]
        assert shown.gradient(kind, -5.0) == shown.gradient(kind, 0.0)
        assert shown.gradient(kind, float("inf")) == shown.gradient(kind, 1.0)
        assert shown.gradient(kind, float("nan")) == shown.style("dim")
        assert look(ColorMode.ANSI16).gradient(kind, 1.0) != look(ColorMode.ANSI16).gradient(kind, 0.0)
    assert look(ColorMode.NONE).gradient("diverging", 0.0) != look(ColorMode.NONE).gradient("diverging", 1.0)


def test_contrast_and_distance_are_the_known_ones() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert distance("#000000", "#ffffff") == pytest.approx(1, abs=1e-3)
    assert blend(("#000000", "#ffffff"), 1.0) == "#ffffff"
    assert blend(("#102030", "#a0b0c0", "#405060"), 0.5) == "#a0b0c0"


def test_what_is_sent_for_256_colours_arrives_as_chosen() -> None:
    """rich converts at the output; a colour that it moves would show as another one."""
    for color in [*default_look().theme.rgb.colors.values(), "#000000", "#ffffff", "#0b2a47"]:
        sent = Color.parse(nearest_256(color))
        number = sent.downgrade(ColorSystem.EIGHT_BIT).number
        assert number is not None and number >= 16
        shown = Color.from_ansi(number).get_truecolor().hex
        assert distance(shown, nearest_256(color)) < 0.03
        assert distance(shown, color) < 0.1


def test_the_look_does_not_load_textual_or_anything_heavy() -> None:
    code = (
        "import sys, rltui.look, rltui.look.textual_app; rltui.look.default_look();"
        "print([m for m in ('textual', 'numpy', 'pydantic', 'trainer', 'rich.console') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
