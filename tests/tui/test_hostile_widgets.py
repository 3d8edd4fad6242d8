"""What models, task apps and logs write cannot reach the terminal as commands, nor shift what stands beside it."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App, ComposeResult

from rltui.look import Look, default_look
from rltui.widgets.finding import FindPane
from rltui.widgets.log_view import LogView
from rltui.widgets.pane import Pane
from rltui.widgets.transcript import Transcript
from rltui.widgets.virtual_list import VirtualList

EVIL = [
    "\x1b[2J\x1b[H\x1b[31mcleared",
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x1b\\clip",
    "\x1bP+q544e\x1b\\\x90dcs\x9c\x9b31m",
    "\x00\x01\x08\x0b\x0c\x0e\x7f\x85\x9f nul",
    "\u202egnp.exe\u202c\u2066x\u2069\u200e\u061c",
    "Z" + "\u0351\u0352\u0353\u0354" * 50 + "algo",
    "[red]markup[/red] [@click=app.quit]x[/] [/] [[",
    "你好,世界" * 60,
    "👩‍👩‍👧 ❤️ 👍🏽 🇩🇪 \u200d\u200c\ufeff",
    "\ud800\udfff\ufffe\U000f0000",
    "tab\tand\r\rcarriage\rreturn",
    "\u2028\u2029\u3000wide space\xa0",
    "\x1b[999999999999999999A\x1b[5Bup",
    "e" * 10_000_000,
    "你" * 300_000,
]


class EvilApp(App[None]):
    def __init__(self, *widgets: Any) -> None:
        super().__init__()
        self.look: Look = default_look()
        self.widgets = widgets

    def compose(self) -> ComposeResult:
        yield from self.widgets

    def check(self, width: int, height: int) -> str:
        """Every row is exactly as wide as the screen, and nothing in it is a command; gives what stands there."""
        strips = self.screen._compositor.render_strips()
        assert len(strips) == height
        for strip in strips:
            text = "".join(segment.text for segment in strip)
            assert not any(segment.control for segment in strip)
            assert all(char.isprintable() for char in text), ascii(text)
            assert sum(cell_len(char) for char in text) == width
            assert not set("\u202a\u202e\u2066\u2069\u200e\u061c\u200d") & set(text)
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


@pytest.mark.parametrize("width", [20, 61, 120])
async def test_logs(width: int) -> None:
    view = LogView()
    app = EvilApp(FindPane(view, title=EVIL[0]))
    async with app.run_test(size=(width, 30)) as pilot:
        view.append(EVIL, "inference\x1b[2J" + "0" * 300)
        view.append([f"2026-01-01T14:02:03Z ERROR x: {text[:9_000]}" for text in EVIL], "\u202eother")
        await pilot.pause()
        app.check(width, 30)
        assert view.rows_laid_out < 4_000  # of 160,000
        for key in ("g", "W", "pagedown", "G", "pageup", "l", "l"):
            await pilot.press(key)
            await pilot.pause()
            app.check(width, 30)
        view.find("/[eZ]/")
        await pilot.pause()
        app.check(width, 30)


def _episode(text: str) -> dict[str, Any]:
    name = text[:20_000]  # nothing keeps a task app from such names either
    call = {"function": {"name": name, "arguments": name}}
    messages = [
        {"role": "user", "text": text},
        {"role": name, "text": name, "reasoning": name, "tool_calls": [call]},
        {"role": "tool", "name": name, "text": name},
    ]
    turn = {"t": name, "messages": messages, "finish_reason": name, "achievements": name, "tools": [{"name": name}]}
    judge = {"tracks": {name: 1.0}, "outcome": {"total": 1.0, "criteria": {name: {"score": 1.0, "reason": name}}}}
    top = {"cid": name, "stop": name, "split": name, "seed": name, "ver": [name], "warnings": [name, {"kind": name}]}
    return {**top, "turns": [turn], "judge": judge, "exclusion": {"code": name, "detail": {"status": name}}}


@pytest.mark.parametrize("width", [20, 61, 120])
async def test_transcripts(width: int) -> None:
    view = Transcript()
    app = EvilApp(FindPane(view, title="Episode"))
    async with app.run_test(size=(width, 40)) as pilot:
        await pilot.pause()
        for text in EVIL:
            laid_out = view.rows_laid_out
            view.show(_episode(text))
            await pilot.press("g", "e")
            await pilot.pause()
            app.check(width, 40)
            await pilot.press("G")
            await pilot.pause()
            app.check(width, 40)
            assert view.rows_laid_out - laid_out < 4_000  # of 160,000
        await pilot.press("v")
        await pilot.pause()
        app.check(width, 40)


class EvilRows:
    """A source that forgot to clean."""

    def __len__(self) -> int:
        return len(EVIL)

    def cells(self, i: int, width: int, look: Look) -> list[Segment]:
        return [Segment(EVIL[i][:2_000], look.style("text")), Segment(" beside", look.style("dim"))]


@pytest.mark.parametrize("width", [20, 120])
async def test_lists_and_titles(width: int) -> None:
    rows = VirtualList(EvilRows())
    pane = Pane(rows, title=EVIL[0])
    app = EvilApp(pane)
    async with app.run_test(size=(width, 20)) as pilot:
        for text in EVIL:
            pane.set_title(text)
            pane.set_info(text)
            pane.set_subtitle(text)
            await pilot.pause()
            shown = app.check(width, 20)
        assert "[red]markup" in shown


async def test_a_plain_terminal_gets_plain_signs() -> None:
    view = Transcript()
    app = EvilApp(FindPane(view, title="Episode"))
    app.look = Look(app.look.theme, app.look.color, ascii=True)
    async with app.run_test(size=(60, 30)) as pilot:
        await pilot.pause()
        turn = {"messages": [{"role": "user", "text": "a → b … " * 30, "reasoning": "long " * 100}], "span": [1, 9]}
        view.show({"turns": [turn], "R": 1.0, "O": 1.0, "ver": [1, 2], "judge": {"tracks": {"x": 1.0, "y" * 99: 1}}})
        await pilot.pause()
        assert app.check(60, 30).isascii()
