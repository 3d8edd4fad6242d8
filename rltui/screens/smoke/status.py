"""The line above the panes: what is tested, who plays, how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from rich.cells import cell_len

from rltui.model.smoke_test import SmokeModel
from rltui.smoke.asked import Asked
from rltui.text import clean
from rltui.text_lines import crop, printable
from rltui.widgets.bar import Bar, Part
from rltui.widgets.lines import look_of

MOST_TARGET = 44
GAP = 2


class SmokeBar(Bar):
    """`clock`: seconds, as the model was told them."""

    def __init__(self, model: SmokeModel, clock: Callable[[], float]) -> None:
        super().__init__()
        self._model, self._clock = model, clock
        self.asked = Asked()

    def parts(self, width: int) -> list[Part]:
        look = look_of(self)
        if self.asked.config is None and self.asked.url is None:
            return []
        right, style = self._state()
        found = list(self._left())
        for wordy in (True, False):
            left = [(f"{name} " if wordy else "", text) for name, text in found]
            used = sum(cell_len(name + text) + 3 for name, text in left)
            if used + cell_len(right) + 2 <= width:
                break
        parts: list[Part] = [(" ", look.style("text"))]
        for name, text in left:
            parts += [(name, look.style("dim")), (text, look.style("text")), ("   ", look.style("text"))]
        room = width - cell_len(right) - 2
        return [*_cut(parts[:-1], room, look.glyph("ellipsis")), (right, look.style(style)), (" ", look.style("text"))]

    def _left(self) -> Iterator[tuple[str, str]]:
        settings, asked = self._model.settings, self.asked
        app = asked.url or (settings.app if settings is not None else "")
        if not app and asked.config is not None:
            app = asked.config.name
        if app.endswith(".py"):
            app = PurePath(app).name
        if self._model.url and app and not app.startswith("http"):
            app = f"{app} at {self._model.url.removeprefix('http://')}"
        yield "target", crop(printable(clean(app, 300)), MOST_TARGET)
        by_hand = self._model.by_hand or self._model.call is not None
        policy = "you" if by_hand else asked.policy or (settings.policy if settings else "")
        yield "policy", printable(clean(policy or ("as configured" if asked.config else "mock"), 40))
        if settings is not None:
            yield "seeds", f"{ranges(settings.seeds)} × {settings.group_size}"

    def _state(self) -> tuple[str, str]:
        model = self._model
        if model.phase == "starting":
            return f"starting   {self._time(self._clock())}", "live"
        if model.phase == "running":
            if model.by_hand and model.call is None and not (model.stopping or model.paused or model.plays):
                return f"wait: your turn comes   {self._time(self._clock())}", "live"
            at = next((i for i, row in enumerate(model.stages) if row.state == "running"), None)
            where = f"stage {at + 1} of {len(model.stages)}" if at is not None else "playing an episode"
            if model.stopping:
                return f"STOPPING   {self._time(self._clock())}", "watch"
            if model.paused:
                return f"PAUSED   {where}", "watch"
            return f"{where}   {self._time(self._clock())}", "live"
        if model.phase == "failed":
            return "not tested", "act"
        if (report := model.whole) is not None:
            style = {"ready": "good", "ready_with_warnings": "watch", "not_ready": "act"}[report.verdict]
            return f"{report.verdict.replace('_', ' ')}   {self._time(model.ended)}", style
        if model.report is not None and model.report.interrupted:
            return "stopped", "watch"
        return "" if model.phase == "idle" else "not tested yet: r runs it", "dim"

    def _time(self, now: float) -> str:
        seconds = max(0, int(now - self._model.began))
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


def tested(asked: Asked) -> str:
    """What is tested, in short: the app where one is named, else the config."""
    if asked.url is None:
        return asked.config.name if asked.config is not None else ""
    name = PurePath(asked.url).name if asked.url.endswith(".py") else asked.url
    return crop(printable(clean(name, 300)), MOST_TARGET)


def _cut(parts: list[Part], room: int, more: str) -> list[Part]:
    """Exactly `room` cells, the last of them a gap."""
    room -= GAP
    found: list[Part] = []
    for text, style in parts:
        text = crop(text, room, more=more)
        room -= cell_len(text)
        found.append((text, style))
    return [*found, (" " * (room + GAP), parts[0][1])]


def ranges(numbers: Sequence[int]) -> str:
    """`0-7`, or `0,3,9…`."""
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers[:4])) + ("…" if len(numbers) > 4 else "")
