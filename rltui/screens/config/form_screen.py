"""The frame of the editor: sections, fields, help and status, and how they follow the cursor. It edits nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.timer import Timer

from rltui.screens.base import AppScreen
from rltui.screens.config.about import About
from rltui.screens.config.editor import FieldEditor
from rltui.screens.config.fields import FieldList, safe
from rltui.screens.config.messages import Verdict
from rltui.screens.config.raw import RawText
from rltui.screens.config.sections import Crumb, SectionList
from rltui.screens.config.starts import StartRows
from rltui.screens.config.status import StatusLine
from rltui.widgets.header import Header
from rltui.widgets.key_bar import KeyBar
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from rltui.model.form import Form
    from rltui.model.form_check import Checked
    from rltui.model.form_rows import Row, SectionRows, View

NARROW, WIDE = 100, 150  # columns: below the first one pane; from the second on more room at the sides
PAUSE_S = 0.15  # that the cursor rests before the help follows: a held key sends the list alone


class FormScreen(AppScreen):
    DEFAULT_CSS = """
    FormScreen #columns { height: 1fr; }
    FormScreen #tree { width: 22; }
    FormScreen #help { width: 36; }
    FormScreen.-wide #tree { width: 30; }
    FormScreen.-wide #help { width: 56; }
    FormScreen #crumb { display: none; }
    FormScreen.-narrow #crumb { display: block; }
    FormScreen.-narrow #columns { layout: vertical; }
    FormScreen.-narrow #tree { display: none; }
    FormScreen.-narrow #help { width: 1fr; height: 5; }
    FormScreen #starts, FormScreen #raw { display: none; }
    FormScreen.-none #columns, FormScreen.-none #crumb { display: none; }
    FormScreen.-none #starts { display: block; }
    FormScreen.-broken #fields, FormScreen.-broken #find { display: none; }
    FormScreen.-broken #raw { display: block; }
    FormScreen.-broken #tree, FormScreen.-broken #crumb { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(name="config")
        self.form: Form | None = None
        self.back = ""  # the screen that escape leads to, once
        self.checked: Checked | None = None
        self.view: View | None = None
        self.section = ""
        self.search = ""
        self.said_of_draft = ""
        self.outside = False  # whether the file is another one than was read, and edits keep it from being read again
        self.extra: tuple[str, str, str] = ("", "", "")  # (key, text, style): about one field, beside what is known
        self.start_rows = StartRows()
        self._cursors: dict[str, str] = {}  # by section the key that the cursor was on
        self._pause: Timer | None = None

    def body(self) -> ComposeResult:
        yield Crumb()
        with Horizontal(id="columns"):
            with Pane(title="Sections", id="tree"):
                yield SectionList()
            with Pane(id="form"):
                yield FieldList(self.edit_row)
                yield RawText()
                yield Prompt("/", placeholder="words in name, value or help", id="find")
                yield Prompt("save as", placeholder="a path", id="save_as")
                yield FieldEditor()
            with Pane(id="help"):
                yield About()
        with Pane(title="Config", id="starts"):
            yield VirtualList(self.start_rows, id="start_list")
        yield StatusLine()

    def on_mount(self) -> None:
        self.add_class("-none")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW, "-narrow")
        self.set_class(event.size.width >= WIDE, "-wide")
        self.call_after_refresh(self._tell)

    @property
    def fields(self) -> FieldList:
        return self.query_one(FieldList)

    @property
    def editor(self) -> FieldEditor:
        return self.query_one(FieldEditor)

    @property
    def row(self) -> Row | None:
        """The field under the cursor."""
        return self.fields.row if self.form is not None and self.view is not None else None

    def end_search(self) -> None:
        """All fields of the section show again."""
        raise NotImplementedError

    async def edit_row(self) -> None:
        """Edit the value under the cursor."""
        raise NotImplementedError

    # Pictures of the form

    def picture(self, view: View) -> None:
        """Show another picture of the form; the cursor stays on its field."""
        self.view = view
        broken = view.broken
        was_broken = self.has_class("-broken")
        self.set_class(broken is not None, "-broken")
        if broken is not None and self.form is not None:
            from trainer.config.secrets import masked

            self.query_one(RawText).show(masked(self.form.text), broken.line or 1, broken.column or 1)
            focus_now(self.query_one(RawText))
            self._tell()
            return
        tree = self.query_one(SectionList)
        tree.source.sections = view.sections
        tree.update_rows()
        if not any(section.name == self.section for section in view.sections):
            self.section = view.sections[0].name if view.sections else ""
        self._put_rows()
        if was_broken:
            focus_now(self.fields)
        self._tell()

    def _current(self) -> SectionRows | None:
        view = self.view
        return None if view is None else next((one for one in view.sections if one.name == self.section), None)

    def _put_rows(self) -> None:
        """The rows of the section, or those that fit the search."""
        assert self.view is not None
        section = self._current()
        if self.search:
            terms = tuple(self.search.lower().split())
            found = sorted((row for row in self.view.rows if _fits(row, terms)), key=lambda row: _nearness(row, terms))
            self.fields.source.put(found, terms=terms, whole_keys=True)
        elif section is not None:
            rows = [row for row in section.rows if row.used or row.given or row.problems]
            self.fields.source.put(rows)
        self.fields.update_rows()

    def go_to(self, key: str) -> bool:
        """Put the cursor on a field, in whichever section. False: there is none of that name."""
        row = self.view.find(key) if self.view is not None else None
        if row is None:
            return False
        if self.search and not any(one.key == row.key for one in self.fields.source.rows):
            self.end_search()
        if not self.search:
            self.show_section(row.section)
        if not any(one.key == row.key for one in self.fields.source.rows):  # it is not used with these values
            section = self._current()
            self.fields.source.put(section.rows if section is not None else ())
            self.fields.update_rows()
        at = next((i for i, one in enumerate(self.fields.source.rows) if one.key == row.key), 0)
        self.fields.cursor = at
        self.follow()
        return True

    def show_section(self, name: str) -> None:
        """Show the fields of a section, with the cursor where it was there."""
        if name != self.section:
            self._remember_cursor()
            self.section = name
            self._put_rows()
            key = self._cursors.get(name, "")
            rows = self.fields.source.rows
            self.fields.cursor = next((i for i, row in enumerate(rows) if row.key == key), 0)
        tree = self.query_one(SectionList)
        at = next((i for i, one in enumerate(tree.source.sections) if one.name == name), 0)
        if tree.cursor != at:
            tree.cursor = at
        self._tell()
        self._follow_soon()

    def _remember_cursor(self) -> None:
        if self.row is not None and not self.search:
            self._cursors[self.section] = self.row.key

    @on(VirtualList.Highlighted, "#sections")
    def _section_chosen(self, event: VirtualList.Highlighted) -> None:
        event.stop()
        sections = self.query_one(SectionList).source.sections
        if event.list.has_focus and event.index < len(sections):
            if self.search:
                self.end_search()
            self.show_section(sections[event.index].name)

    @on(VirtualList.Selected, "#sections")
    def _section_entered(self, event: VirtualList.Selected) -> None:
        event.stop()
        focus_now(self.fields)

    @on(VirtualList.Highlighted, "#fields")
    def _field_chosen(self, event: VirtualList.Highlighted) -> None:
        event.stop()
        self._follow_soon()

    def _follow_soon(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE_S, self.follow)

    # Words around the fields

    def follow(self) -> None:
        """Help and titles are those of the field under the cursor."""
        row = self.row
        key, text, style = self.extra
        extra = ((text, style),) if row is not None and key == row.key and text else ()
        self.query_one(About).show(row, self.view, extra)
        self._tell()

    def _tell(self) -> None:
        """Titles, the crumb, the status line, and the name in the header."""
        form, view = self.form, self.view
        header = self.query_one(Header)
        if form is None or view is None:
            header.set_run("")
            return
        header.set_run(self._called())
        row = self.row
        help_pane = self.query_one("#help", Pane)
        if view.broken is not None:
            place = f"line {view.broken.line}, column {view.broken.column}"
            self.query_one("#form", Pane).set_title(f"{form.name} is no TOML: {place}")
            help_pane.set_title("What is wrong")
            self.query_one(About).tell((view.broken.why, "act"), (view.broken.fix or "", "text"), _LOCKED)
        else:
            self.query_one("#form", Pane).set_title(self._section_title())
            help_pane.set_title((row.key if self.has_class("-narrow") or self.search else row.name) if row else "")
        self.tell_status()
        self._tell_crumb()
        self.query_one(KeyBar).update_keys()

    def _called(self) -> str:
        form, view = self.form, self.view
        assert form is not None and view is not None
        changed = sum(row.state == "changed" or row.was is not None for row in view.rows)
        name = form.name if len(form.name) < 40 else form.name.rpartition("/")[2]
        if form.path is None:
            return f"{name} * new"
        return f"{name} * {changed or 'some'} unsaved" if form.dirty else name

    def _section_title(self) -> str:
        section = self._current()
        if self.search:
            return f"fields with {safe(self.search)}"
        if section is None:
            return ""
        unused = sum(not (row.used or row.given or row.problems) for row in section.rows)
        counts = {str(state): count for state, count in section.counts.items()}
        parts = [_counted(len(section.rows), "field")]
        if section.errors:
            parts.append(_counted(section.errors, "error"))
        parts += [f"{counts[state]} {state}" for state in ("moved", "changed") if counts.get(state)]
        if unused:
            parts.append(f"{unused} unused")
        return " · ".join([section.name, *parts])

    def _tell_crumb(self) -> None:
        section, view = self._current(), self.view
        if section is None or view is None:
            return
        from rltui.screens.config.sections import badge

        names = [one.name for one in view.sections]
        at = names.index(section.name)
        _, count, style = badge(section)
        before = f"{names[at - 1]} ‹ " if at else ""
        after = f" › {names[at + 1]}" if at + 1 < len(names) else ""
        self.query_one(Crumb).say(
            [
                (f" [ {before}", "dim"),
                (section.name, "strong"),
                (f" {count}" if count else "", style),
                (f"{after} ]", "dim"),
                (f"   {at + 1} of {len(names)}", "dim"),
            ]
        )

    def tell_status(self) -> None:
        form, view = self.form, self.view
        assert form is not None and view is not None
        shown, total = len(self.fields.source.rows), len(view.rows)
        find = (f"find: {safe(self.search, 40)}   {shown} of {total} fields", "strong") if self.search else None
        in_sections = sum(section.errors > 0 for section in view.sections)
        moved = sum(row.state == "moved" for row in view.rows)
        if view.broken is not None:
            wrong = ("no TOML: e opens the editor there", "act")
        elif view.errors:
            place = f" in {_counted(in_sections, 'section')}" if in_sections else ""
            wrong = (f"{_counted(view.errors, 'problem')}{place}", "act")
        elif view.fresh and self.checked is not None and self.checked.refused:
            wrong = (safe(self.checked.refused), "watch")
        else:
            wrong = ("no problems", "good") if view.fresh else ("checking", "dim")
        disk = ("the file changed outside: R", "act") if self.outside else ("file as it was read", "dim")
        if form.path is None:
            disk = ("no file yet: s saves it", "dim")
        parts = [
            find or (f"{total} fields" if total else "", "dim"),
            wrong,
            *((safe(problem.why), "act") for problem in view.loose[:1]),
            (f"{_counted(moved, 'old spelling')}" if moved else "", "watch"),
            (self.said_of_draft if form.dirty else "", "dim"),
            disk,
        ]
        self.query_one(StatusLine).say(*parts)

    # Checking

    def check_now(self) -> None:
        """Ask the loader about the text; its verdict comes as a message."""
        if self.form is not None:
            form = self.form
            job = partial(self._check, form.text, form.base, form.name, self.view)
            self.run_worker(job, thread=True, exclusive=True, group="check", exit_on_error=False)

    def _check(self, text: str, base: str, name: str, before: View | None) -> None:
        from rltui.model.form_check import check
        from rltui.model.form_rows import view

        checked = check(text, name)
        self.post_message(Verdict(checked, view(text, base, name, checked, before)))

    @on(Verdict)
    def _verdict(self, event: Verdict) -> None:
        event.stop()
        if self.form is not None and event.checked.text == self.form.text:
            self.checked = event.checked
            self.picture(event.view)
            self.follow()


_LOCKED = ("The form is locked until it parses. e opens your editor at this line, u takes the last edit back.", "dim")


def _fits(row: Row, terms: tuple[str, ...]) -> bool:
    known = row.known
    text = f"{row.key} {row.value} {known.help if known is not None else ''} {row.written}".lower()
    return all(term in text for term in terms)


def _nearness(row: Row, terms: tuple[str, ...]) -> int:
    """0: it is called so; 1: the words are in its name; 2: elsewhere, such as in its help."""
    if terms in ((row.name.lower(),), (row.key.lower(),)):
        return 0
    return 1 if all(term in row.key.lower() for term in terms) else 2


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
