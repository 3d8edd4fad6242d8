"""Fields by words in their names, values and help; sections in turn."""

from __future__ import annotations

from textual import on

from rltui.screens.config.form_screen import FormScreen
from rltui.screens.own_app import own_app
from rltui.widgets.lines import focus_now
from rltui.widgets.prompt import Prompt


class SearchingScreen(FormScreen):
    def end_search(self) -> None:
        """All fields of the section show again."""
        self.search = ""
        prompt = self.query_one("#find", Prompt)
        prompt.close()
        key = self.row.key if self.row is not None else ""
        if key and self.view is not None and (row := self.view.find(key)) is not None:
            self.section = row.section
        self._put_rows()
        focus_now(self.fields)
        if key:
            self.go_to(key)
        self._tell()

    def action_find(self) -> None:
        if self.view is not None and self.view.broken is None:
            self._remember_cursor()
            if self.search:
                self._searched("")
            self.query_one("#find", Prompt).open("")

    @on(Prompt.Changed, "#find")
    def _search_typed(self, event: Prompt.Changed) -> None:
        self._searched(event.value)

    @on(Prompt.Submitted, "#find")
    def _search_taken(self, event: Prompt.Submitted) -> None:
        if event.value.strip():
            self._searched(event.value)
            focus_now(self.fields)
            self.follow()
        else:
            self.end_search()

    @on(Prompt.Cancelled, "#find")
    def _search_left(self) -> None:
        self.end_search()

    def _searched(self, text: str) -> None:
        self.search = text.strip()
        self._put_rows()
        self.fields.cursor = 0
        self._tell()

    def action_back(self) -> None:
        if self.search:
            self.end_search()
        elif self.back:
            back, self.back = self.back, ""
            own_app(self).go(back)
        elif self.form is not None:
            focus_now(self.fields)

    def action_next_section(self) -> None:
        self._turn_section(1)

    def action_previous_section(self) -> None:
        self._turn_section(-1)

    def _turn_section(self, by: int) -> None:
        if self.view is None or not self.view.sections:
            return
        if self.search:
            self.end_search()
        names = [section.name for section in self.view.sections]
        at = names.index(self.section) if self.section in names else 0
        self.show_section(names[(at + by) % len(names)])
