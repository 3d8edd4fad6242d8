"""The themes that ship: readable, told apart by the colour blind, complete in every colour mode."""

from __future__ import annotations

from itertools import combinations

import pytest

from rltui.data import data_dir
from rltui.look import ColorMode, Look, ThemeFiles
from rltui.look.colors import blend, contrast, distance, rgb
from rltui.look.styles import STATES, STYLES
from rltui.look.theme import GRADIENTS, Theme

SHIPPED = ThemeFiles(user=data_dir("themes") / "none")
NAMES = list(SHIPPED.list())
FILLS = ("background", "surface", "selection", "selection_idle")
MARKS = ("border", "dim")
WORDS = tuple(
    "text strong accent marked good watch act info live role_system role_user role_assistant role_tool".split()
)
_SEEN_BY = {  # Machado, Oliveira and Fernandes 2009, full strength, on linear light
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@pytest.fixture(params=NAMES)
def theme(request: pytest.FixtureRequest) -> Theme:
    return SHIPPED.load(request.param)


def seen_by(eye: str, color: str) -> str:
    light = [(channel / 255) ** 2.2 for channel in rgb(color)]
    mixed = [sum(a * b for a, b in zip(row, light, strict=True)) for row in _SEEN_BY[eye]]
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part)) ** (1 / 2.2)):02x}" for part in mixed)


def test_the_folder_holds_the_promised_themes() -> None:
    assert {"dark", "light", "contrast-dark", "contrast-light"} <= set(NAMES)


def test_words_are_readable_on_everything_they_stand_on(theme: Theme) -> None:
    least = 7 if theme.name.startswith("contrast") else 4.5
    colors = theme.rgb.colors
    poor = {
        (word, fill): round(ratio, 2)
        for word in WORDS
        for fill in FILLS
        if (ratio := contrast(colors[word], colors[fill])) < least
    }
    assert not poor


def test_lines_and_marks_can_be_seen(theme: Theme) -> None:
    colors = theme.rgb.colors
    marks = {name: colors[name] for name in MARKS} | {str(i): color for i, color in enumerate(theme.rgb.series)}
    for kind in GRADIENTS:
        marks |= {f"{kind} {i}": blend(theme.rgb.gradients[kind], i / 32) for i in range(33)}
    grounds = ("background", "surface")
    poor = {(name, g): round(r, 2) for name, c in marks.items() for g in grounds if (r := contrast(c, colors[g])) < 3}
    assert not poor


def test_blocks_of_colour_carry_readable_text(theme: Theme) -> None:
    for color in (ColorMode.TRUECOLOR, ColorMode.ANSI256):
        look = Look(theme, color, ascii=False)
        for style in (look.style("match"), look.style("replay")):
            assert style.color and style.color.triplet and style.bgcolor and style.bgcolor.triplet
            assert contrast(style.color.triplet.hex, style.bgcolor.triplet.hex) >= 4.5


@pytest.mark.parametrize("eye", ["normal", *_SEEN_BY])
def test_series_stay_apart_for_every_eye(theme: Theme, eye: str) -> None:
    colors = [color if eye == "normal" else seen_by(eye, color) for color in theme.rgb.series]
    close = {
        (i, j): round(d, 3) for (i, a), (j, b) in combinations(enumerate(colors), 2) if (d := distance(a, b)) < 0.05
    }
    assert not close


def test_the_twin_is_for_the_other_background_and_leads_back(theme: Theme) -> None:
    twin = SHIPPED.load(theme.twin)
    assert twin.dark is not theme.dark
    assert twin.twin == theme.name


def test_the_background_is_as_dark_as_the_theme_says(theme: Theme) -> None:
    colors = theme.rgb.colors
    assert (contrast(colors["background"], "#000000") < contrast(colors["background"], "#ffffff")) is theme.dark


@pytest.mark.parametrize("color", [ColorMode.TRUECOLOR, ColorMode.ANSI256])
def test_the_cursor_row_is_seen_in_both_kinds_of_pane(theme: Theme, color: ColorMode) -> None:
    look = Look(theme, color, ascii=False)
    ground = look.textual_theme()["background"]
    fills = [str(look.style(name).bgcolor.triplet.hex) for name in ("selection", "selection_idle")]
    assert len({ground, *fills}) == 3


def test_sixteen_colours_keep_states_and_roles_apart(theme: Theme) -> None:
    look = Look(theme, ColorMode.ANSI16, ascii=False)
    assert len({look.style(name).color for name in ("good", "watch", "act")}) == 3
    roles = [look.style(f"role_{role}") for role in ("system", "user", "assistant", "tool")]
    assert len(set(roles)) == 4
    assert len({look.series(i).color for i in range(8)}) == 8
    assert all(not style.color or style.color.is_system_defined for style in map(look.style, STYLES))


def test_without_colour_no_style_has_one(theme: Theme) -> None:
    look = Look(theme, ColorMode.NONE, ascii=False)
    styles = [look.style(name) for name in STYLES] + [look.series(i) for i in range(8)]
    styles += [look.gradient(kind, x / 10) for kind in ("sequential", "diverging") for x in range(11)]
    assert all(style.color is None and style.bgcolor is None for style in styles)
    assert len({look.state(state)[0] for state in STATES}) == len(STATES)
