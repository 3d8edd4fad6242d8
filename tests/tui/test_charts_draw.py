"""A chart as text: exact size, nothing lost, and what it does not show is said."""

from __future__ import annotations

import re
from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltui.charts.canvas import Canvas, Level, plain
from rltui.charts.draw import Drawing, draw
from rltui.charts.parts import Axis, Ink, Mark, Options, Series
from rltui.charts.pyramid import Pyramid
from rltui.charts.smooth import Ema
from rltui.look import ColorMode, Look, ThemeFiles, default_look
from rltui.text import width

UNICODE = default_look()
ASCII = Look(ThemeFiles().load("dark"), ColorMode.NONE, ascii=True)
LEVELS: list[Level] = ["braille", "block", "ascii"]


def series(ys: list[float], index: int = 0, first: int = 1, ema: float = 0, name: str = "run") -> Series:
    pyramid = Pyramid()
    pyramid.extend(range(first, first + len(ys)), ys)
    if not ema:
        return Series(name, pyramid, index)
    smooth = Ema(pyramid, ema)
    smooth.update()
    return Series(name, pyramid, index, smooth.pyramid)


def drawn(*shown: Series, columns: int = 58, rows: int = 10, level: Level = "braille", **options: Any) -> Drawing:
    return draw(shown, Options(**options), columns, rows, level, ASCII if level == "ascii" else UNICODE)


def text(drawing: Drawing) -> str:
    return "\n".join(plain(drawing.lines))


NUMBERS = st.floats(-1e308, 1e308) | st.floats(0, 1) | st.sampled_from([nan, inf, -inf, 0.0])


@given(
    shown=st.lists(st.lists(NUMBERS, max_size=40), max_size=3),
    columns=st.integers(1, 70),
    rows=st.integers(1, 12),
    level=st.sampled_from(LEVELS),
    ema=st.sampled_from([0, 0.6]),
    options=st.fixed_dictionaries(
        {
            "growing": st.booleans(),
            "log_x": st.booleans(),
            "log_y": st.booleans(),
            "clip": st.booleans(),
            "limits": st.sampled_from([(None, None), (0.0, None), (2.0, 1.0), (None, 0.5)]),
            "view": st.sampled_from([None, (3.0, 9.0), (-50.0, -40.0)]),
            "cursor": st.sampled_from([None, 5.0, 1e9]),
            "marks": st.sampled_from([(), (Mark(4, "step_4"), Mark(4, "eval"), Mark(7, "改行"))]),
            "band": st.sampled_from([None, (0.0, 0.5)]),
        }
    ),
)
def test_lines_are_exactly_as_wide_and_as_many_as_asked(
    shown: list[list[float]], columns: int, rows: int, level: Level, ema: float, options: dict[str, Any]
) -> None:
    several = [series(ys, i, ema=ema, name=f"run {i}") for i, ys in enumerate(shown)]
    drawing = drawn(*several, columns=columns, rows=rows, level=level, **options)
    lines = plain(drawing.lines)
    assert [width(line) for line in lines] == [columns] * rows
    if level == "ascii":
        assert "改" in text(drawing) or "…" in text(drawing) or text(drawing).isascii()


@pytest.mark.parametrize("level", LEVELS)
def test_a_spike_among_many_points_reaches_its_height(level: Level) -> None:
    ys = [0.1] * 20_000
    ys[12_345] = 5.0
    lines = plain(drawn(series(ys), level=level).lines)
    top = next(i for i, line in enumerate(lines) if line.startswith("4"))
    assert any(all(line[column] != " " for line in lines[top:-1]) for column in range(34, 39))


def test_ascii_has_only_ascii() -> None:
    noisy = [i % 7 / 7 for i in range(300)]
    options = {"marks": (Mark(50, "step_50"),), "band": (0.1, 0.2), "cursor": 100, "clip": True, "view": (20, 250)}
    drawing = drawn(series([*noisy, nan], ema=0.6), series(noisy, 1), level="ascii", **options)
    assert text(drawing).isascii()
    assert all(note.isascii() for note in drawing.description.notes)


def test_labels_of_marks_that_lie_close_are_no_one_word_and_a_value_is_named_before_an_evaluation() -> None:
    labels = ("checkpoint", "evaluate", "max_concurrent_rollouts 4", "pause", "resume")
    marks = tuple(Mark(20 + 2 * i, label) for i, label in enumerate(labels))
    for columns in range(40, 130):
        lines = text(drawn(series([0.0] * 40), columns=columns, rows=6, marks=marks)).splitlines()
        words = {word for line in lines for word in re.split(r"[^a-z_]+", line)}
        assert words <= {"", "step", "max_concurrent_rollouts", *labels}, words
        assert not any(f"{one}┊{other}" in line for line in lines for one in labels for other in labels)
        assert columns < 60 or "max_concurrent_rollouts 4" in "\n".join(lines)


def test_values_that_are_not_finite_are_gaps_with_a_marker_and_a_count() -> None:
    drawing = drawn(series([1.0] * 20 + [nan, inf] + [2.0] * 20))
    assert drawing.description.gaps == 2
    assert "2 NaN or Inf" in drawing.description.notes
    assert "×" in text(drawing)
    assert text(drawing).splitlines()[0].startswith("2.0┤")  # Inf is no bound


def test_a_series_without_a_number_says_so() -> None:
    assert "no values yet" in text(drawn(series([]), growing=True))
    ended = text(drawn(series([])))
    assert "no values" in ended and "yet" not in ended
    assert "3 values in view, none a finite number" in text(drawn(series([nan, nan, inf])))


def test_the_right_label_of_a_growing_chart_is_that_of_the_last_point_and_stands_below_it() -> None:
    drawing = drawn(series([0.0] * 168, first=0), growing=True, columns=100)
    last = text(drawing).splitlines()[-1]
    assert drawing.x is not None and drawing.x.high == 176 and last.split()[-1] == "167"
    assert len(last.rstrip()) == drawing.left + drawing.x.dot(167, drawing.plot_width) + 1
    assert text(drawn(series([1.0, 2.0, 3.0]), growing=True, view=(0, 9))).splitlines()[-1].split()[-1] == "9"


def test_why_log_is_refused_fits_a_narrow_chart() -> None:
    assert "log y needs > 0, lowest is -0.25" in text(drawn(series([-0.25, 1.0, 2.0]), columns=40, log_y=True))


def test_log_is_refused_with_a_sentence_and_drawn_linear() -> None:
    ys = [i / 10 for i in range(30)]
    refused = drawn(series(ys), log_y=True)
    assert "log y needs > 0, lowest is 0" in text(refused)
    assert refused.lines[:-1] == drawn(series(ys)).lines[:-1]
    assert "log x needs > 0, lowest is 0" in drawn(series(ys, first=0), log_x=True).description.notes
    assert drawn(series([10.0**i for i in range(6)]), log_y=True).description.notes == ()


def test_the_clip_says_how_many_points_it_hides() -> None:
    few = [float(i % 10) for i in range(1000)]
    few[500] = 1e6
    drawing = drawn(series(few), clip=True)
    assert (drawing.description.hidden, drawing.description.exact) == (1, True)
    assert "1 point hidden (clip 1-99 %)" in text(drawing)
    many = [float(i % 7) for i in range(100_000)]
    many[::1000] = [1e6] * 100
    description = drawn(series(many), clip=True).description
    assert (description.hidden, description.exact) == (100, True)
    many[::125] = [1e6] * 800
    description = drawn(series(many), clip=True).description
    assert not description.exact and 500 <= description.hidden <= 1100
    assert description.notes[0].startswith("about ")


def test_manual_limits_say_what_they_hide() -> None:
    drawing = drawn(series([0.1, 0.2, 0.9]), limits=(0.0, 0.5))
    assert drawing.description.notes == ("1 point hidden (limits)",)


def test_a_zoom_says_that_it_does_not_follow() -> None:
    drawing = drawn(series([float(i) for i in range(100)]), view=(10, 20))
    assert "zoom, not following" in text(drawing)
    assert text(drawing).splitlines()[-1].endswith("20")


def test_the_average_is_in_front_of_faint_raw_data() -> None:
    drawing = drawn(series([float(i % 2) for i in range(100)], index=3, ema=0.9))
    inks = {style for line in drawing.lines for _, style in line}
    assert {Ink(3), Ink(3, faint=True)} <= inks


def test_runs_keep_ink_and_marker_in_any_order_and_company() -> None:
    a, b = series([1.0] * 50, 0, name="a"), series([2.0] * 50, 4, name="b")
    for shown in ((a, b), (b, a)):
        drawing = drawn(*shown)
        ends = {(style, char) for line in drawing.lines[1:] for run, style in line for char in run if char in "●■▲◆▼"}
        assert ends == {(Ink(0), UNICODE.marker(0)), (Ink(4), UNICODE.marker(4))}


def test_a_label_of_a_mark_is_cut_at_a_word_or_left_out() -> None:
    """ "lear…" between two marks tells nothing."""
    shown, labels = series([0.0] * 40), ("max_concurrent_rollouts 8", "learning_rate 1.0e-04")
    for columns in (20, 30, 40, 60, 120):
        lines = text(drawn(shown, columns=columns, marks=(Mark(12, labels[0]), Mark(30, labels[1])))).splitlines()
        words = " ".join("".join(char if char.isalnum() or char in "_.-" else " " for char in line) for line in lines)
        for label in labels:
            whole = label.partition(" ")[0]
            assert words.count(whole[:4]) == words.count(whole) <= 1, columns
    assert all(label in text(drawn(shown, columns=120, marks=(Mark(12, label),))) for label in labels)


def test_the_cursor_reads_value_raw_value_and_mark() -> None:
    shown = series([0.0, 1.0, 0.0, 1.0], ema=0.5)
    axis = Axis("time", lambda x: f"{x:.0f} min")
    last = text(drawn(shown, cursor=2.2, marks=(Mark(2, "step_2"),), axis=axis)).splitlines()[-1]
    assert "time 2 min  0.667  raw 1  step_2" in last


@pytest.mark.parametrize(("step", "ends"), [(0, ("0", "1")), (1, ("0", "2"))])
def test_a_single_step_has_no_step_below_zero(step: int, ends: tuple[str, str]) -> None:
    labels = text(drawn(series([0.5], first=step))).splitlines()[-1].split()
    assert (labels[labels.index("step") + 1], labels[-1]) == ends


def test_the_title_has_value_and_trend() -> None:
    rising = drawn(series([i / 100 for i in range(101)]))
    assert rising.description.title(UNICODE) == "1  ↑ +0.50 / 50 steps"
    assert drawn(series([0.5])).description.title(UNICODE) == "0.500"
    assert drawn(series([])).description.title(UNICODE) == ""


@given(data=st.data(), level=st.sampled_from(LEVELS))
def test_a_joined_line_has_no_hole(data: st.DataObject, level: Level) -> None:
    canvas = Canvas(10, 6, level)
    x0 = data.draw(st.integers(0, canvas.dots_x - 2))
    x1 = data.draw(st.integers(x0 + 1, canvas.dots_x - 1))
    y0, y1 = (data.draw(st.integers(0, canvas.dots_y - 1)) for _ in range(2))
    spans: list[tuple[int, int, int]] = []
    canvas.span = lambda x, top, bottom, ink: spans.append((x, top, bottom))  # type: ignore[method-assign]
    canvas.join(x0, y0, x1, y1, Ink(0))
    assert [x for x, _, _ in spans] == list(range(x0, x1 + 1))
    assert spans[0][1] <= y0 <= spans[0][2] and spans[-1][1] <= y1 <= spans[-1][2]
    for (_, top, bottom), (_, next_top, next_bottom) in pairwise(spans):
        assert top <= bottom and next_top <= bottom + 1 and top <= next_bottom + 1
