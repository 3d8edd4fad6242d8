"""A bar of one line: what is on the screen is what was last compared, whatever has changed before it was drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Region

from rltui.look import default_look
from rltui.widgets.bar import Bar, Part


class Told(Bar):
    text = "step 36/38  elapsed 1 s"
    sent: list[Region] | None = None

    def parts(self, width: int) -> Sequence[Part]:
        return [(self.text, Style())]

    def refresh(self, *regions: Region, **options: object) -> object:
        if self.sent is not None:
            self.sent += regions or [Region(0, 0, *self.size)]
        return super().refresh(*regions, **options)


class Screenful(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.look = default_look()

    def compose(self) -> ComposeResult:
        yield Told()


async def test_a_value_that_changes_before_it_is_drawn_is_sent_with_the_next_update() -> None:
    async with Screenful().run_test(size=(40, 3)) as pilot:
        bar = pilot.app.query_one(Told)
        screen = bar.render_line(0).text
        bar.sent = []

        def draw() -> str:
            line, cells = bar.render_line(0).text, list(screen)
            for region in bar.sent or []:
                cells[region.x : region.right] = line[region.x : region.right]
            bar.sent = []
            return "".join(cells)

        bar.text = "step 36/38  elapsed 2 s"
        bar.update_bar()
        bar.text = "step 26/38  elapsed 2 s"  # the model moves on before the line is asked for
        screen = draw()
        bar.update_bar()
        screen = draw()
        assert screen.rstrip() == bar.text
