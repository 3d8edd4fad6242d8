"""An episode as text: what stands above, turns that fold, columns, search; and how little of it is laid out."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult

from rltui.look import Look, default_look
from rltui.model.transcript import Transcript as Model
from rltui.widgets.finding import FindPane
from rltui.widgets.transcript import Transcript


def _turn(t: int, text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "text": f"question {t}"}, {"role": "assistant", "text": text}]
    return {"t": t, "messages": messages, "branch": 0, "finish_reason": "stop", **more}


def episode(turns: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A text line of WIRE 5.6."""
    top = {"n": 3, "cid": "rl_x-3", "attempt": 1, "step": 411, "iteration": 206, "split": "train", "seed": 1187}
    rest = {"group": 12, "member": 1, "ver": [409, 410], "tok": [812, 214], "R": 0.85, "O": 1.0, "stop": "completed"}
    return {**top, **rest, "turns": turns, "exclusion": None, "excl": None, **more}


def _texts(model: Model) -> list[str]:
    return [f"{item.paragraph.label}|{item.paragraph.text}" for item in model.items]


def test_the_top_says_reward_place_end_and_training() -> None:
    record = episode(
        [_turn(0, "hi")], je=0.5, jo=0.8, rewards={"weights": {"env": 0.7, "event": 0.1, "outcome": 0.2}}, wall=6.21
    )
    updates = {"adv": 1.0, "branches": {"0": {"s": 1.0043, "clip": "high", "lag": 1, "step": 411}}}
    said = _texts(Model(record, updates))
    assert said[0] == "reward|0.850 · env 1.000 × 0.70 · judge events 0.500 × 0.10 · judge outcome 0.800 × 0.20"
    assert said[1] == "episode|seed 1187 · group 12 · member 1 · training · iteration 206 · step 411"
    assert said[2] == "ended|completed · 1 turn · 812 + 214 tokens · 6.2 s · v409→v410"
    assert said[3] == "trained|advantage +1.000 · s 1.0043 clipped high, lag 1, in step 411"


@pytest.mark.parametrize(
    ("exclusion", "updates", "sentence"),
    [
        ({"code": "http_error", "detail": {"status": 502, "tries": 3}}, {}, "task app answered 502 3 times"),
        (None, {"excl": "zero_variance"}, "all the group's rewards were 0.850: nothing to compare"),
        (
            None,
            {"branches": {"0": {"excl": "stale", "detail": {"version": 405, "lag": 5, "limit": 4}}}},
            "made with v405, 5 steps behind, limit 4",
        ),
        ({"code": "made_up"}, {}, "excluded: made_up"),
    ],
)
def test_an_exclusion_is_a_sentence(exclusion: Any, updates: Any, sentence: str) -> None:
    said = _texts(Model(episode([], exclusion=exclusion), updates))
    assert f"excluded|{sentence}" in said


def test_the_numbers_of_turns_stand_in_columns() -> None:
    branches = [
        {"spans": [{"start": 0, "end": 100, "weight_version": 9}, {"start": 100, "end": 900, "weight_version": 10}]}
    ]
    turns = [
        _turn(0, "a", span=[80, 123], reward=0.0, t_start=1.0, t_end=1.214),
        _turn(1, "b", span=[150, 1160], reward=-0.25, t_start=2.0, t_end=33.9, finish_reason="length"),
    ]
    heads = [fold.head.right for fold in Model(episode(turns, branches=branches)).turns()]
    assert heads[0].split() == ["43", "tok", "214", "ms", "reward", "0.000", "stop", "v9→v10"]
    assert heads[1].split() == ["1010", "tok", "31.9", "s", "reward", "-0.250", "length", "v10"]
    assert len(heads[0]) == len(heads[1])


def test_calls_read_as_calls_and_long_thinking_is_folded() -> None:
    call = {"function": {"name": "guess", "arguments": '{"number": 512, "why": "half"}'}}
    broken = {"function": {"name": "guess", "arguments": '{"number": '}}
    message = {"role": "assistant", "text": "", "reasoning": "long thought " * 100, "tool_calls": [call, broken]}
    short = {"role": "assistant", "text": "done", "reasoning": "brief"}
    model = Model(episode([{"t": 0, "messages": [message]}, {"t": 1, "messages": [short]}]))
    said = _texts(model)
    assert 'call|guess(number=512, why="half")' in said and 'call|guess({"number": )' in said
    assert said.count("|brief") == 1  # open, for it is short
    assert not any(text.startswith("|long thought") for text in said)
    model.open_all()
    assert any(text.startswith("|long thought") for text in _texts(model))
    model.close_all()
    assert [item.fold.turn for item in model.items if item.fold is not None and item.fold.turn is not None] == [0, 1]
    assert not any(text.startswith("assistant|") for text in _texts(model))


def test_a_fork_is_marked_with_the_weight_of_its_branch() -> None:
    turns = [_turn(0, "a"), {**_turn(1, "b"), "branch": 1}]
    said = _texts(Model(episode(turns, branches=[{"weight": 0.5}, {"weight": 0.5}])))
    assert "fork|does not continue the recorded tokens: branch 1 begins, which weighs 0.50" in said


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"turns": None, "rewards": 3, "judge": [], "branches": {}, "exclusion": "x", "warnings": {"a": 1}},
        {"turns": [None, 3, {"messages": [None, {"role": 3, "text": None, "tool_calls": [4, {"function": 5}]}]}]},
        {"turns": [{"span": ["a", None], "reward": "NaN", "t_start": {}, "branch": 7, "t": "x", "tools": [1]}]},
        {
            "R": float("nan"),
            "ver": [None],
            "tok": [1, 2, 3],
            "judge": {"event": [3], "outcome": {"criteria": {"a": 1}}},
        },
        {"turns": [{"messages": [{"role": "user", "text": ["head", {"cut": 9}, "tail"]}]}]},
    ],
)
def test_no_record_breaks_it(record: dict[str, Any]) -> None:
    model = Model(record)
    model.open_all()
    for item in model.all_items():
        model.reveal(item)
    assert model.items


class TranscriptApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.view = Transcript()
        self.copied: list[tuple[str, str]] = []
        self.drawn: list[int] = []

    def compose(self) -> ComposeResult:
        yield FindPane(self.view, title="Episode")

    def copy(self, text: str, what: str) -> None:
        self.copied.append((text, what))

    def rows(self) -> list[str]:
        strips = self.screen._compositor.render_strips()[1:-1]
        return ["".join(segment.text for segment in strip)[1:-1].rstrip() for strip in strips]

    @property
    def here(self) -> str:
        model = self.view.model
        assert model is not None
        return model.items[self.view.cursor[0]].paragraph.text


async def test_a_long_turn_lays_out_only_what_is_visible() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        prose = "\n".join("many words in a line " * 12 for _ in range(400))
        app.view.show(episode([_turn(0, prose), _turn(1, "x" * 3_000_000)]))
        await pilot.pause()
        assert len(prose) > 100_000 and app.rows()[0].startswith("  reward")
        assert app.view.rows_laid_out < 300  # the page, and the last piece, which says where scrolling ends
        await pilot.press("e", "G")
        await pilot.pause()
        assert app.rows()[-1].endswith("xxx")
        assert app.view.rows_laid_out < 400


async def test_enter_folds_where_the_cursor_is() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        app.view.show(episode([_turn(i, f"answer {i}") for i in range(5)]))
        app.view.go_to_turn(2)
        await pilot.press("j", "j")
        assert app.here == "answer 2"
        await pilot.press("enter")
        await pilot.pause()
        assert app.here == "turn 2" and not any("answer 2" in row for row in app.rows())
        assert any("answer 3" in row for row in app.rows())
        await pilot.press("enter")
        await pilot.pause()
        assert any("answer 2" in row for row in app.rows())
        await pilot.press("x")
        await pilot.pause()
        assert app.view.turn == 2 and not any("assistant" in row for row in app.rows())
        await pilot.press("e")
        await pilot.pause()
        assert app.view.turn == 2 and any("answer 4" in row for row in app.rows())


async def test_a_move_of_the_cursor_draws_two_rows() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        app.view.show(episode([_turn(i, f"answer {i}") for i in range(5)]))
        await pilot.pause()
        render_line = app.view.render_line
        app.view.render_line = lambda y: (app.drawn.append(y), render_line(y))[1]  # type: ignore[method-assign]
        await pilot.press("j")
        await pilot.pause()
        assert app.drawn == [0, 1]


async def test_find_opens_what_it_finds() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        app.view.show(episode([_turn(i, "some line\n" * 30 + f"needle {i}") for i in range(5)]))
        app.view.action_close_all()
        await pilot.press("slash", *"needle", "enter")
        await pilot.pause()
        assert app.here == "needle 0"
        await pilot.press("n", "n")
        await pilot.pause()
        assert app.here == "needle 2" and any("needle 2" in row for row in app.rows())
        await pilot.press("N")
        await pilot.pause()
        assert app.here == "needle 1"


async def test_raw_shows_the_record_with_its_escapes_as_text() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        app.view.show(episode([_turn(0, "a\x1b[31mb")]))
        await pilot.press("V", "V")
        await pilot.pause()
        assert any('"text": "a\\u001b[31mb"' in row for row in app.rows())
        await pilot.press("V")
        await pilot.pause()
        assert any(row.endswith("assistant  ab") for row in app.rows())


async def test_the_same_episode_keeps_its_place_and_copy_takes_the_turn() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.pause()
        record = episode([_turn(i, f"answer {i}") for i in range(5)])
        app.view.show(record)
        app.view.go_to_turn(3)
        app.view.show(record, {"adv": 1.0})
        await pilot.pause()
        assert app.view.turn in (2, 3)  # a row came above
        app.view.go_to_turn(3)
        await pilot.press("y")
        assert app.copied == [("turn 3\nuser  question 3\nassistant  answer 3", "turn")]
        app.view.show(episode([_turn(0, "other")], cid="rl_y"))
        await pilot.pause()
        assert app.view.cursor == (0, 0) and app.rows()[0].startswith("  reward")


@pytest.mark.parametrize("width", [12, 30, 47, 48, 80, 200])
async def test_every_width_has_all_the_text(width: int) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(width, 60)) as pilot:
        await pilot.pause()
        app.view.show(episode([_turn(0, "alpha beta gamma delta", span=[1, 9], reward=1.0)]))
        await pilot.pause()
        text = " ".join(app.rows())
        assert all(word in text for word in ("reward", "turn 0", "alpha", "delta"))
