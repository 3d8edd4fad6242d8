"""The file of a config: drafts of what is unsaved, saving, what happens to it outside, and other configs beside it."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.timer import Timer

from rltui.screens.choice import Choice, ChoiceScreen
from rltui.screens.config.diff import Compared, DiffScreen
from rltui.screens.config.editing import EditingScreen
from rltui.screens.config.messages import Kept, Outside
from rltui.screens.config.starts import StartsScreen
from rltui.screens.own_app import own_app
from rltui.widgets.lines import focus_now
from rltui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from rltui.model.drafts import Draft
    from rltui.model.form import Form
    from rltui.model.form_starts import Start

DRAFT_S = 2.0  # after the last edit


class FilingScreen(EditingScreen):
    def __init__(self) -> None:
        super().__init__()
        self._draft_timer: Timer | None = None
        self._drafting = threading.Lock()
        self._signature: tuple[int, int] | None = None  # of the file when it was read
        self._aside: Draft | None = None  # edits of another time, neither taken nor dropped

    def runs_here(self) -> list[tuple[str, Path, str]]:
        """(name, folder, state) of the runs in the list."""
        from rltui.screens.runs import RunsScreen

        runs = own_app(self).get_screen("runs")
        rows = runs.rows.all() if isinstance(runs, RunsScreen) else []
        return [(row.name, Path(row.path), row.state) for row in rows]

    def in_hand(self) -> None:
        """Other screens, and the next start, know which config this is."""
        app, form = own_app(self), self.form
        path = form.path.absolute() if form is not None and form.path is not None else None
        app.config_path = path
        if path is not None:
            app.memory.put("config", str(path))

    # Drafts

    def keep_soon(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.stop()
        self._draft_timer = self.set_timer(DRAFT_S, self._draft_in_thread)

    def _draft_in_thread(self) -> None:
        self._draft_timer = None
        if self.form is not None:  # this one, whichever is open when the thread comes to it
            job = partial(self._keep_draft, self.form, self._aside)
            self.run_worker(job, thread=True, group="draft", exit_on_error=False)

    def _flush_draft(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.stop()
            self._draft_timer = None
            if self.form is not None:
                self._keep_draft(self.form, self._aside)

    def _keep_draft(self, form: Form, aside: Draft | None) -> None:
        """Write it, or take it away where there is nothing unsaved. `aside`: the draft that is kept with it."""
        if not own_app(self).options.readonly:
            with self._drafting:  # what is written last is what was edited last
                self._write_draft(form, aside)

    def _write_draft(self, form: Form, aside: Draft | None) -> None:
        from rltui.model import drafts
        from rltui.model.form_starts import joined

        if not form.dirty:
            _drop(form, aside)
            return
        path = str(form.path.absolute()) if form.path is not None else ""
        name = "" if path else form.name
        draft = drafts.Draft(path, name, form.text, form.disk, form.base, time.time())
        kept = drafts.keep(draft if aside is None else joined(aside, draft))
        said = (
            time.strftime("draft saved %H:%M:%S", time.localtime(time.time()))
            if kept
            else "no draft is kept: it holds a secret, or no room"
        )
        if self.is_attached:
            self.post_message(Kept(said))

    def has_draft(self, form: Form) -> bool:
        """Whether its edits are kept."""
        from rltui.model import drafts

        path = str(form.path.absolute()) if form.path is not None else ""
        return drafts.of(path, "" if path else form.name) is not None

    def _drop_draft(self, form: Form) -> None:
        with self._drafting:
            _drop(form, self._aside)

    @on(Kept)
    def _kept(self, event: Kept) -> None:
        self.said_of_draft = event.said
        if self.form is not None:
            self.tell_status()

    # The file

    def _look_at_disk(self) -> None:
        form = self.form
        if form is None or form.path is None or self.outside:
            return
        now = signature(form.path)
        if now != self._signature:
            self._signature = now
            self.run_worker(partial(self._read_outside, form), thread=True, group="disk", exit_on_error=False)

    def _read_outside(self, form: Form) -> None:
        text = form.outside()
        if text is not None:
            self.post_message(Outside(form, text))

    @on(Outside)
    def _changed_outside(self, event: Outside) -> None:
        form = event.form
        if form is not self.form or form.outside() is None:
            return
        if not form.dirty and event.text:
            form.rebase(event.text, event.text)
            self.changed()
            self.say(f"{form.name} changed outside and was read again")
        else:
            self.outside = True
            what = "changed outside: R merges or reads it" if event.text else "is gone: S saves it under a name"
            self.say(f"{form.name} {what}", "watch")
            self.tell_status()

    async def action_reload(self) -> None:
        form = self.form
        if form is None or form.path is None:
            self.say("it has no file yet")
            return
        theirs = form.outside()
        if theirs is None:
            self.say("the file is as it was read")
        elif not theirs:
            self.say(f"{form.name} is gone or cannot be read; S saves it under a name", "act")
        else:
            await self._ask_about(form, theirs)

    async def _ask_about(self, form: Form, theirs: str) -> None:
        from trainer.config.draft import EditError

        try:
            merged = form.merged(theirs)
        except EditError as error:
            merged, why = None, f"not possible: {error}"
        choices = []
        if merged is not None:
            both = f"; changed on both sides, yours stays: {', '.join(merged.conflicts)}" if merged.conflicts else ""
            about = f"your {len(merged.changed)} changed key{'s' * (len(merged.changed) != 1)} into it{both}"
            choices.append(Choice("merge", "merge", about))
        else:
            choices.append(Choice("merge", "merge", why_not=why))
            choices.append(
                Choice("mine", "keep yours", "what the file holds now is replaced by a save, which shows it")
            )
        choices.append(Choice("theirs", "take the file", "your edits go; u brings them back"))

        def chosen(value: str | None) -> None:
            if value == "merge" and merged is not None:
                form.rebase(theirs, merged.text)
            elif value == "mine":
                form.rebase(theirs, form.text)
            elif value == "theirs":
                form.rebase(theirs, theirs)
            if value is not None:
                self.outside, self._signature = False, signature(form.path)
                self.changed()

        intro = [f"{form.name} was changed outside since it was read. Nothing is written over it."]
        await self.app.push_screen(ChoiceScreen("The file changed", choices, intro=intro), chosen)

    async def action_save(self) -> None:
        form = self.form
        if form is None:
            return
        if form.path is None:
            self.action_save_as()
            return
        theirs = form.outside()
        if theirs:
            await self._ask_about(form, theirs)
            return
        if not form.dirty:
            self.say("nothing to save")
            return
        await self._confirm(form, form.path)

    async def _confirm(self, form: Form, path: Path) -> None:
        """The diff first, with what would still be wrong."""
        from rltui.model.form_check import check
        from rltui.model.form_diff import unified

        checked = check(form.text, form.name)
        intro = []
        if checked.broken is not None:
            intro.append(("It is no TOML. It can be saved; it cannot be launched.", "act"))
        elif errors := len(checked.errors):
            intro.append((f"{errors} problem{'s' * (errors != 1)} in it: it can be saved, not launched.", "act"))
        secret = next((problem for problem in checked.problems if problem.code == "secret"), None)
        if secret is not None:
            self.say(f"not saved: {secret.key} looks like a secret; {secret.fix}", "act")
            return
        new = path != form.path
        lines = unified("" if new else form.disk or "", form.text, "no file" if new else str(path), str(path))
        if not lines:
            intro.append(("Only blanks or line ends differ.", "dim"))

        def agreed(yes: bool | None) -> None:
            if yes:
                self._write(form, path)

        compared = Compared("the file", "the form", lines)
        await self.app.push_screen(DiffScreen(f"Save {path}", compared, question="writes it", intro=intro), agreed)

    def _write(self, form: Form, path: Path) -> None:
        from trainer.config.save import SaveError

        self._drop_draft(form)
        try:
            form.save(path)
        except SaveError as error:
            self.say(error.strerror or str(error), "act")
            self.keep_soon()
            return
        if self._draft_timer is not None:
            self._draft_timer.stop()
            self._draft_timer = None
        self.outside, self._signature, self.said_of_draft = False, signature(form.path), ""
        self.in_hand()
        self.changed()
        own_app(self).did(f"rltui config set {path}", "saved")
        self.say(f"saved {path}", "good")

    def action_save_as(self) -> None:
        form = self.form
        if form is not None:
            self.query_one("#save_as", Prompt).open(form.name if form.path is None else "")

    @on(Prompt.Submitted, "#save_as")
    async def _named(self, event: Prompt.Submitted) -> None:
        form, name = self.form, event.value.strip()
        if form is None or not name:
            return
        path = Path(name).expanduser()
        if path.is_dir() or (path.exists() and path != form.path):
            event.prompt.set_note("it exists: another name" if not path.is_dir() else "a folder: a file's name", "act")
            return
        event.prompt.close()
        focus_now(self.fields)
        await self._confirm(form, path)

    @on(Prompt.Cancelled, "#save_as")
    def _not_named(self) -> None:
        focus_now(self.fields)

    # Beside it

    async def action_diff(self) -> None:
        form = self.form
        if form is None:
            return
        choices = []
        if form.path is not None:
            about = "what a save would change" if form.dirty else "nothing is unsaved"
            choices.append(Choice("disk", "the file", about))
        elif form.base:
            choices.append(Choice("disk", "its beginning", "the preset or run that it is a copy of"))
        choices.append(Choice("other", "another config", "a file, a preset or a run"))

        def chosen(value: str | None) -> None:
            if value == "disk":
                self.call_later(self._show_diff, form.base, form.name, "as it was")
            elif value == "other":
                self.call_later(self._choose_other)

        await self.app.push_screen(ChoiceScreen("Compare with", choices), chosen)

    async def _choose_other(self) -> None:
        from rltui.model.form_starts import starts

        def chosen(start: Start | None) -> None:
            if start is not None:
                self.call_later(self._diff_with, start)

        await self.app.push_screen(StartsScreen("Compare with", starts(Path(), self.runs_here())), chosen)

    async def _diff_with(self, start: Start) -> None:
        from rltui.cli.configs import read_text
        from rltui.model.form_starts import draft_of
        from trainer.config import ConfigError

        draft = draft_of(start) if start.kind == "draft" else None
        if draft is not None:
            await self._show_diff(draft.text, f"draft of {start.name}", f"draft of {start.name}")
            return
        try:
            text = read_text(start.path)
        except ConfigError as error:
            self.say(f"{start.path}: {error.problems[0].why}", "act")
            return
        await self._show_diff(text, str(start.path), start.name)

    async def _show_diff(self, other: str, path: str, name: str) -> None:
        from rltui.model.form_diff import sides, unified

        form = self.form
        assert form is not None
        lines = unified(other, form.text, name, form.name)
        compared = Compared(name, form.name, lines, partial(sides, other, form.text, path, form.name))
        await self.app.push_screen(DiffScreen(f"{name} and {form.name}", compared))


def _drop(form: Form, aside: Draft | None) -> None:
    """Nothing of it is unsaved: what is left is what was kept with it."""
    from rltui.model import drafts

    path = str(form.path.absolute()) if form.path is not None else ""
    if aside is None:
        drafts.drop(path, "" if path else form.name)
    else:
        drafts.keep(aside)


def signature(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found is not None else None
