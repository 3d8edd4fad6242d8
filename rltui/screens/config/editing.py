"""Changing values: the editor over a field, lists of choices, fixes, migration, undo."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.timer import Timer

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.config.diff import Compared, DiffScreen
from rltui.screens.config.editor import FieldEditor
from rltui.screens.config.messages import Live, Reached
from rltui.screens.config.searching import SearchingScreen
from rltui.screens.config.text_editor import TextScreen
from rltui.screens.config.verdicts import needs_care, severity, verdict, wanted
from rltui.screens.own_app import own_app
from rltui.widgets.lines import focus_now

if TYPE_CHECKING:
    from rltui.model.form import Form
    from rltui.model.form_rows import Row

SETTLE_S = 0.15  # after the last key a value is looked at
UNSET = "\0unset"  # the choice that takes a key away


class EditingScreen(SearchingScreen):
    def __init__(self) -> None:
        super().__init__()
        self._typing: Timer | None = None
        self._asked = ("", "")  # key and address of the last question whether it answers

    def changed(self, key: str = "", *, ask: bool = True) -> None:
        """The text is another one: show it, look at it, keep a draft of it."""
        form, checked = self.form, self.checked
        if form is None or checked is None:
            return
        if checked.broken is None:
            from rltui.model.form_rows import view

            old = tuple(problem for problem in checked.problems if not key or problem.key != key)
            self.picture(view(form.text, form.base, form.name, replace(checked, problems=old, broken=None), self.view))
        if key:
            self.go_to(key)
        self.extra = ("", "", "")
        self.keep_soon()
        self.check_now()

    def keep_soon(self) -> None:
        """A draft is to be written."""

    # One value

    async def edit_row(self) -> None:
        """Edit the value under the cursor, in the way of its kind."""
        row, form = self.row, self.form
        if row is None or form is None:
            return
        if row.kind == "flag":
            self.put(row, "false" if row.data is True else "true")
        elif row.kind == "choice":
            await self._choose(row)
        elif row.kind in ("list", "table") and isinstance(row.data, list | dict | None):
            await self._edit_text(row)
        else:
            self._open_editor(row)

    def put(self, row: Row, typed: str) -> bool:
        """Give the field what was typed. False: it is no value, which is said."""
        from rltui.model.form_values import FormError

        assert self.form is not None
        try:
            self.form.set(row.key, typed)
        except FormError as error:
            self.fields.set_live(str(error), "act")
            self.say(str(error), "act")
            return False
        self.changed(row.key)
        return True

    def _open_editor(self, row: Row) -> None:
        from rltui.model.form_values import shown_value

        self.fields.scroll_line_into_view(self.fields.cursor)
        x, y, cells = self.fields.place_of_value()
        value = row.value if row.given or row.data is not None else ""
        if row.value == "***":  # what cannot be shown is typed anew
            value = ""
        elif isinstance(row.data, str) and not row.given:
            value = shown_value(row.data)
        self.fields.set_live(wanted(row), "dim")
        choices = row.known.choices if row.known is not None else ()
        self.editor.open((x, y, cells), value, choices=choices, paths=row.kind == "path")

    @on(FieldEditor.Typed)
    def _typed(self, event: FieldEditor.Typed) -> None:
        event.stop()
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(SETTLE_S, partial(self._look_at, event.value))

    def _look_at(self, typed: str) -> None:
        row, form = self.row, self.form
        if row is not None and form is not None and self.editor.is_open:
            job = partial(self._judge, form, row, typed)
            self.run_worker(job, thread=True, exclusive=True, group="live", exit_on_error=False)

    def _judge(self, form: Form, row: Row, typed: str) -> None:
        """In a thread: what the whole config would say of this value."""
        note, style = verdict(form, row, typed)
        self.post_message(Live(row.key, typed, note, style))

    @on(Live)
    def _judged(self, event: Live) -> None:
        event.stop()
        row = self.row
        if self.editor.is_open and self.editor.value == event.typed and row is not None and row.key == event.key:
            self.fields.set_live(event.note, event.style)
            self.extra = (row.key, event.note, event.style) if event.style != "dim" else ("", "", "")
            self.follow()

    @on(FieldEditor.Done)
    async def _done(self, event: FieldEditor.Done) -> None:
        event.stop()
        row = self.row
        if row is None:
            return
        same = event.value.strip() == row.value if row.given else event.value.strip() in ("", row.value)
        if not same and not self.put(row, event.value):
            return
        self._close_editor()
        if event.go:
            self.fields.cursor += event.go
            self.follow()
            after = self.row
            if after is not None and after.key != row.key and after.kind not in ("flag", "choice", "list", "table"):
                await self.edit_row()

    @on(FieldEditor.Restored)
    def _restored(self, event: FieldEditor.Restored) -> None:
        event.stop()
        self._close_editor()

    def _close_editor(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        self.editor.close()
        self.fields.end_live()
        self.extra = ("", "", "")
        focus_now(self.fields)

    async def _choose(self, row: Row) -> None:
        known = row.known
        assert known is not None
        choices = [Choice(choice, choice, "the default" if choice == known.default else "") for choice in known.choices]
        if row.given and not known.required:
            choices.append(Choice(UNSET, "unset", "take it out of the file: its default counts again"))
        at = next((i for i, choice in enumerate(choices) if choice.value == row.data), 0)

        def chosen(value: str | None) -> None:
            if value is not None:
                self.put(row, "" if value == UNSET else value)

        await self.app.push_screen(ChoiceScreen(row.key, choices, intro=[known.summary], cursor=at), chosen)

    async def _edit_text(self, row: Row) -> None:
        from rltui.model.form_values import FormError, Kind, as_lines, from_lines

        form, kind = self.form, Kind(row.kind)
        assert form is not None

        def judge(text: str) -> str:
            try:
                value = from_lines(text, kind)
            except FormError as error:
                return str(error)
            note, style = verdict(form, row, value.text)
            return note if style in ("act", "watch") else ""

        def taken(text: str | None) -> None:
            if text is not None:
                empty = not text.strip() and not row.given
                self.put(row, "" if empty else from_lines(text, kind).text)

        hint = "an item a line" if kind is Kind.LIST else "a line of TOML for each key"
        known = row.known
        hint = f"{hint}; {known.allowed}" if known is not None else hint
        await self.app.push_screen(TextScreen(row.key, as_lines(row.data), hint, judge), taken)

    def action_unset(self) -> None:
        row, form = self.row, self.form
        if row is None or form is None or not row.given:
            return
        self.put(row, "")

    def action_copy(self) -> None:
        row = self.row
        if row is not None and row.value:
            from trainer.config.toml_values import format_value

            own_app(self).copy(f"{row.key} = {format_value(row.data)}", row.name)

    # Mending

    async def action_fix(self) -> None:
        row, form = self.row, self.form
        if row is None or form is None:
            return
        known = row.known
        if not row.given and row.state == "wrong" and known is not None and "example" in known.meta:
            from trainer.config.toml_values import format_value

            self.put(row, format_value(known.meta["example"]))
            return
        if any(form.fix(problem) for problem in row.problems):
            self.changed()
            self.go_to(row.key)
            self.say(f"mended {row.key}; u takes it back", "good")
        elif row.problems:
            self.say(f"no edit mends {row.key} by itself: the help says what to do", "watch")
        else:
            self.say(f"nothing is wrong with {row.key}")

    async def action_migrate(self) -> None:
        view, form, row = self.view, self.form, self.row
        if view is None or form is None or view.broken is not None:
            return
        moved = [one for one in view.rows if one.state == "moved"]
        if not moved:
            self.say("no old spellings")
            return
        old = row.written if row is not None and row.state == "moved" and row.written != row.key else ""
        choices = [Choice("all", "all of them", f"{len(moved)} old spelling{'s' * (len(moved) != 1)}")]
        if old:
            assert row is not None
            choices.insert(0, Choice(old, "this one", f"{old} becomes {row.key}"))
        if len(choices) == 1:
            await self._migrate("all")
            return
        await self.app.push_screen(
            ChoiceScreen("Migrate", choices, intro=["The change is shown before it is made."]),
            lambda value: self.call_later(self._migrate, value),
        )

    async def _migrate(self, which: str | None) -> None:
        form = self.form
        if which is None or form is None:
            return
        text, left = form.migrated("" if which == "all" else which)
        if text == form.text:
            why = left[0].why if left else "it must be moved by hand"
            self.say(f"nothing was moved: {why}", "watch")
            return
        from rltui.model.form_diff import unified

        def agreed(yes: bool | None) -> None:
            if yes:
                form.replace(text, "migrated")
                self.changed()

        intro = [(f"{problem.key}: {problem.why}", "watch") for problem in left]
        lines = unified(form.text, text, form.name, "migrated")
        compared = Compared(form.name, "migrated", lines)
        await self.app.push_screen(DiffScreen("Migrate", compared, question="makes the change", intro=intro), agreed)

    def action_undo(self) -> None:
        self._step("undo")

    def action_redo(self) -> None:
        self._step("redo")

    def _step(self, way: str) -> None:
        if self.form is None:
            return
        step = self.form.undo() if way == "undo" else self.form.redo()
        if step is None:
            self.say(f"nothing to {way}")
            return
        self.changed()
        if step.key:
            self.go_to(step.key)
        self.say(f"{'taken back' if way == 'undo' else 'done again'}: {step.what}")

    # Going through what is wrong

    def action_problem(self) -> None:
        self._walk(1)

    def action_next_hit(self) -> None:
        if self.search:
            self.fields.action_down()
        else:
            self._walk(1)

    def action_previous_hit(self) -> None:
        if self.search:
            self.fields.action_up()
        else:
            self._walk(-1)

    def _walk(self, by: int) -> None:
        view = self.view
        if view is None:
            return
        rows = sorted((row for row in view.rows if needs_care(row)), key=severity)
        if not rows:
            self.say("; ".join(problem.why for problem in view.loose) or "no problems", "act" if view.loose else "good")
            return
        here = next((i for i, row in enumerate(rows) if self.row is not None and row.key == self.row.key), None)
        at = (here + by) % len(rows) if here is not None else 0 if by > 0 else -1
        self.go_to(rows[at].key)
        focus_now(self.fields)

    # Addresses

    def action_reach(self) -> None:
        row = self.row
        if row is None or row.kind != "url" or not isinstance(row.data, str):
            self.say("the field holds no address")
            return
        self.extra = (row.key, "asking whether it answers", "dim")
        self.follow()
        self._asked = (row.key, row.data)
        job = partial(self._reach, self._asked)
        self.run_worker(job, thread=True, exclusive=True, group="reach", exit_on_error=False)

    def _reach(self, asked: tuple[str, str]) -> None:
        from rltui.model.reach import reach

        self.post_message(Reached(asked, *reach(asked[1])))

    @on(Reached)
    def _reached(self, event: Reached) -> None:
        event.stop()
        if event.asked == self._asked:  # an older question may be answered later
            self.extra = (event.asked[0], event.said, "good" if event.good else "act")
            self.follow()
