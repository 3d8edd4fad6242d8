"""Screen 2: configs. What is opened, the person's own editor, and sending a config on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.config.filing import FilingScreen, signature
from rltui.screens.config.messages import Answer, NotOpened, Opened, Starts
from rltui.screens.config.starts import StartsScreen
from rltui.screens.config.verdicts import wants_care
from rltui.screens.own_app import own_app
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.form import Form
    from rltui.model.form_starts import Start
    from rltui.sources.base import RunSource

_NEED_FORM = frozenset(
    "find problem fix undo redo diff save editor migrate launch smoke unset reach save_as copy reload "
    "next_section previous_section next_hit previous_hit back".split()
)
_WHILE_BROKEN = frozenset("undo redo diff save editor save_as reload".split())
DISK_S = 2.0  # between two looks at the file


class ConfigScreen(FilingScreen):
    BINDINGS: ClassVar[list[BindingType]] = bindings("config")

    def __init__(self) -> None:
        super().__init__()
        self._question = 0  # the number of the last one to a thread, what to open; 0: there was none
        self.arrives: str | None = None  # with what is being opened the app comes here; what escape leads to then
        self._of_run: str | None = None  # the run whose config it began with

    def on_mount(self) -> None:
        self.set_interval(DISK_S, self._look_at_disk)
        if not self._question:
            last = own_app(self).memory.get("config")
            if isinstance(last, str) and Path(last).is_file() and Path(last).is_relative_to(Path.cwd()):
                self.open(Path(last))
            else:
                self._ask_starts()

    def on_unmount(self) -> None:
        self.keep_edits()

    def keep_edits(self) -> None:
        """The interface ends: whatever is unsaved becomes a draft now, whether or not its time has come."""
        if self._draft_timer is not None:
            self._draft_timer.stop()
        if self.form is not None and (self._draft_timer is not None or self.form.dirty):
            self._keep_draft(self.form, self._aside)  # a thread that was to write it may not have come to it
        if self.form is not None and self.form.dirty and self.has_draft(self.form):
            own_app(self).unsaved = self.form.name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what works now is offered."""
        return self._works(action) and super().check_action(action, parameters)

    def _works(self, action: str) -> bool:
        form, view = self.form, self.view
        if action not in _NEED_FORM:
            return True
        if form is None or view is None:
            return False
        if view.broken is not None:
            return action in _WHILE_BROKEN
        moved = any(row.state == "moved" for row in view.rows) if action == "migrate" else True
        wrong = wants_care(view) if action in ("problem", "fix") else True
        undo = bool(form.done) if action == "undo" else bool(form.undone) if action == "redo" else True
        return moved and wrong and undo

    # Opening

    def open(self, path: Path, key: str = "") -> bool:
        """Edit a file; unsaved edits of the config that is open are kept as a draft. Whether it is there already."""
        if self.form is not None and self.form.path == path:
            self._ask()
            if key:
                self.go_to(key)
            return True
        self._begin(partial(self._open_file, path, key))
        return False

    def begin(self, start: Start) -> None:
        """Open, or begin with, what was chosen."""
        self._begin(partial(self._open_start, start))

    def begin_anew(self) -> None:
        """Choose what to begin with."""
        if self.form is None:
            self._ask()  # not the config of the last time
            self._ask_starts()
        else:
            self.call_after_refresh(self.action_preset)

    def copy_of_run(self, run: str, key: str = "") -> bool:
        """Begin with the config of a run, with the cursor on `key`; one that was begun already is shown as it is.
        Whether it is there already."""
        if key and self.form is not None and self._of_run == run:
            self._ask()
            self.go_to(key)
            return True
        self._begin(partial(self._open_run, run, key))
        self._of_run = run
        return False

    def _ask(self) -> int:
        """The number of a new question; what was asked before is not wanted any more."""
        self._question, self.arrives = self._question + 1, None
        return self._question

    def _begin(self, job: Callable[[], Answer]) -> None:
        self._flush_draft()
        question, self._of_run = self._ask(), None

        def work() -> None:
            answer = job()
            answer.question = question
            self.post_message(answer)

        self.run_worker(work, thread=True, exclusive=True, group="open", exit_on_error=False)

    def _open_run(self, run: str, key: str) -> Answer:
        from rltui.launch.runs import config_of, find
        from rltui.model.form_starts import Start
        from rltui.sources.find import NoSuchRun

        try:
            path, source = config_of(run), find(run).source
        except NoSuchRun as error:
            return NotOpened(str(error))
        return self._open_start(Start("run", path.parent.name, path), key, source)

    def _open_file(self, path: Path, key: str) -> Answer:
        from rltui.model.form_starts import Start

        return self._open_start(Start("file", path.name, path), key)

    def _open_start(self, start: Start, key: str = "", run: RunSource | None = None) -> Answer:
        """In a thread: read it, look at it. `run`: whose config it is."""
        from rltui.cli.configs import refuse_record
        from rltui.cli.output import CliError
        from rltui.model import drafts
        from rltui.model.form_check import check
        from rltui.model.form_rows import view
        from rltui.model.form_starts import begin, copy_of, free_name, from_draft
        from trainer.config import ConfigError

        try:
            draft = None
            if start.kind == "draft" and not start.path.is_absolute():
                found = drafts.of("", start.name)
                form = from_draft(found) if found is not None else begin(start)
            elif start.kind in ("file", "draft"):
                try:
                    refuse_record(start.path)
                    form = begin(start)
                    draft = drafts.of(str(start.path.absolute()), "")
                except CliError:  # the record of a run: a copy of it
                    form = copy_of(start.path, free_name("config.toml"))
            else:
                form = begin(start, run)
        except ConfigError as error:
            return NotOpened("; ".join(problem.why for problem in error.problems) + f": {start.path}")
        if draft is not None and draft.text == form.text:
            draft = None
        checked = check(form.text, form.name)
        picture = view(form.text, form.base, form.name, checked)
        return Opened(form, checked, picture, draft, key)

    @on(NotOpened)
    def _not_opened(self, event: NotOpened) -> None:
        if event.question != self._question:
            return
        own_app(self).say(event.why, "act")
        self.arrives = None
        if self.form is None:
            self._ask_starts()

    @on(Opened)
    async def _opened(self, event: Opened) -> None:
        if event.question != self._question:
            return
        if self.arrives is not None and self.app.screen is own_app(self).frame:  # no dialog is open
            back = self.arrives
            own_app(self).go("config")
            self.back = back
        self.arrives = None
        self.form, self.checked, self.outside = event.form, event.checked, False
        self.said_of_draft, self._signature, self._aside = "", signature(event.form.path), event.draft
        self.remove_class("-none")
        self.search = ""
        self.picture(event.view)
        focus_now(self.fields if event.view.broken is None else self.query_one("#raw"))
        if event.key:
            self.go_to(event.key)
        self.follow()
        self.in_hand()
        if event.draft is not None:
            await self._offer(event)

    async def _offer(self, event: Opened) -> None:
        from rltui.model.form_starts import take_draft
        from rltui.words import duration

        draft, form = event.draft, event.form
        assert draft is not None
        age = duration(max(0.0, time.time() - draft.saved))

        def chosen(value: str | None) -> None:
            if value is None:
                self.say("not taken: it is kept, together with what you edit now")
                return
            self._aside = None
            if value == "use":
                if said := take_draft(form, draft):
                    self.say(said, "watch")
                self.outside = form.outside() is not None
                self.changed()
            else:
                self._drop_draft(form)

        choices = [
            Choice("use", "use them", "as one edit: u takes it back"),
            Choice("drop", "drop them", "they are gone then"),
        ]
        intro = [f"Edits of {form.name} from {age} ago were not saved."]
        await self.app.push_screen(ChoiceScreen("Draft", choices, intro=intro), chosen)

    def _ask_starts(self) -> None:
        self.run_worker(self._find_starts, thread=True, exclusive=True, group="starts", exit_on_error=False)

    def _find_starts(self) -> None:
        from rltui.model.form_starts import starts

        self.post_message(Starts(starts(Path(), self.runs_here())))

    @on(Starts)
    def _show_starts(self, event: Starts) -> None:
        if self.form is not None:
            return
        self.start_rows.starts = event.starts
        found = self.query_one("#start_list", VirtualList)
        found.update_rows()
        pane = self.query_one("#starts", Pane)
        pane.set_title("Config: open a file, or begin with a preset or a run")
        pane.set_subtitle("enter takes it")
        focus_now(found)

    @on(VirtualList.Selected, "#start_list")
    def _start_chosen(self, event: VirtualList.Selected) -> None:
        event.stop()
        self.begin(self.start_rows.starts[event.index])

    async def action_preset(self) -> None:
        from rltui.model.form_starts import starts

        def chosen(start: Start | None) -> None:
            if start is not None:
                self.begin(start)

        await self.app.push_screen(StartsScreen("Open or begin with", starts(Path(), self.runs_here())), chosen)

    # Elsewhere

    async def action_editor(self) -> None:
        from textual.app import SuspendNotSupported

        from rltui.terminal.editor import EditorError, edited

        form, view = self.form, self.view
        if form is None or view is None:
            return
        try:
            with self.app.suspend():
                text = edited(form.text, form.name, self._line_of_cursor())
        except SuspendNotSupported:
            self.say("this terminal cannot be handed to an editor", "act")
            return
        except EditorError as error:
            self.say(str(error), "act")
            return
        if text == form.text:
            return
        form.replace(text, "$EDITOR")
        self.changed()
        await self._ask_if_broken(form)

    async def _ask_if_broken(self, form: Form) -> None:
        from rltui.model.form_check import check

        checked = check(form.text, form.name)
        if checked.broken is None:
            return
        self.checked = checked
        problem = checked.broken

        def chosen(value: str | None) -> None:
            if value == "undo":
                self.action_undo()
            elif value == "edit":
                self.call_later(self.action_editor)

        choices = [
            Choice("edit", "edit on", f"at line {problem.line}"),
            Choice("undo", "go back", "to what it was before the editor"),
        ]
        intro = [f"It is no TOML: line {problem.line}, column {problem.column}: {problem.why}"]
        await self.app.push_screen(ChoiceScreen("A mistake in it", choices, intro=intro), chosen)

    def _line_of_cursor(self) -> int:
        view, row, form = self.view, self.row, self.form
        assert view is not None and form is not None
        if view.broken is not None:
            return view.broken.line or 1
        if row is None or row.line is not None:
            return row.line or 1 if row is not None else 1
        lines = form.text.splitlines()
        head = f"[{row.section}]"
        return next((i for i, line in enumerate(lines, 1) if line.strip().startswith(head)), 1)

    # Sending on

    def _ready(self) -> Path | None:
        """The saved config; None, and why, where it is not fit to be sent on."""
        form, view = self.form, self.view
        if form is None or view is None:
            self.say("no config is open")
        elif view.broken is not None or view.errors:
            self.say("it has problems: ! goes to them", "act")
        elif form.dirty or form.path is None:
            self.say("it has unsaved edits: s saves them", "watch")
        else:
            return form.path
        return None

    def action_launch(self) -> None:
        path = self._ready()
        if path is not None:
            own_app(self).launch_config(path)

    def action_smoke(self) -> None:
        path = self._ready()
        if path is not None:
            own_app(self).go("smoke")
            own_app(self).copy(f"rltui smoke {path}", "command")
