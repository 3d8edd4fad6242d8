"""Screen 7: the rules with what they say of the run that is open, and the way to what they blame."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message

from rltui.doctor.doctor import Finding, counts, speaking
from rltui.doctor.record import Record
from rltui.doctor.report import lines
from rltui.doctor.rule import State
from rltui.model.progress import why
from rltui.screens.base import AppScreen
from rltui.screens.doctor.detail import FindingDetail
from rltui.screens.doctor.rows import FindingRows
from rltui.screens.monitor.bars import BUILT
from rltui.screens.own_app import own_app
from rltui.text import fit
from rltui.widgets.bar import Bar, Part
from rltui.widgets.bindings import allowed, bindings
from rltui.widgets.header import Header
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now, look_of
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

WIDE = 110  # columns, from which on finding and detail stand side by side
LOOK_S = 0.5  # between two looks at what the watcher's thread has found
# Metrics whose evidence is what was played; the episodes of the last iteration show it.
PLAYED = ("reward/", "length/", "stop/", "error/", "tokens/", "turns/")


class RuleList(VirtualList, inherit_bindings=False):
    """The rules. What a person wants done with one is for the screen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("doctor")

    class Wanted(Message):
        """`what` is the name of an action of the context doctor."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What writes is refused under --readonly."""
        return allowed(self, action)

    def action_select(self) -> None:
        """A double click."""
        self.action_field()

    def action_field(self) -> None:
        """Open the field that is blamed."""
        self.post_message(self.Wanted("field"))

    def action_evidence(self) -> None:
        """Show what it is about."""
        self.post_message(self.Wanted("evidence"))

    def action_mute(self) -> None:
        """Hear no more of it, or again."""
        self.post_message(self.Wanted("mute"))

    def action_copy(self) -> None:
        """The finding as text."""
        self.post_message(self.Wanted("copy"))

    def action_back(self) -> None:
        """To the monitor."""
        self.post_message(self.Wanted("back"))


class Cause(Bar):
    """Why the run failed, and what to do. Not there for one that did not."""

    DEFAULT_CSS = "Cause { display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self._words = ""

    def say(self, words: str) -> None:
        """ "": nothing."""
        self._words, self.display = words, bool(words)
        self.update_bar()

    def parts(self, width: int) -> list[Part]:
        return [(f" {fit(self._words, width - 2)}", look_of(self).style("act"))]


class DoctorScreen(AppScreen):
    DEFAULT_CSS = """
    DoctorScreen > #both { layout: vertical; height: 1fr; }
    DoctorScreen.-wide > #both { layout: horizontal; }
    DoctorScreen #rules { height: 1fr; }
    DoctorScreen #detail { height: 1fr; max-height: 14; }
    DoctorScreen.-wide #rules { width: 3fr; }
    DoctorScreen.-wide #detail { width: 2fr; max-height: 100%; }
    DoctorScreen Instead { display: none; }
    DoctorScreen.-none Instead { display: block; }
    DoctorScreen.-none RuleList { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(name="doctor")
        self.rows = FindingRows()
        self._findings: tuple[Finding, ...] = ()
        self._key = ""  # of the run that is shown
        self._told = False  # whether what is wrong with doctor.toml was said
        self._wanted = ""  # the rule to point at as soon as it is there

    def body(self) -> ComposeResult:
        yield Cause()
        with Container(id="both"):
            with Pane(title="Doctor", id="rules"):
                yield RuleList(self.rows)
                yield Instead()
            yield Pane(FindingDetail(), title="Finding", id="detail")

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._look)
        self._look()

    def on_screen_resume(self) -> None:
        self._look()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.set_class(event.size.width >= WIDE, "-wide")

    # What is found

    @property
    def record(self) -> Record:
        """Of the run that is open."""
        opened = own_app(self).opened
        return opened.checkup.record if opened is not None and opened.checkup is not None else Record()

    @property
    def finding(self) -> Finding | None:
        """Under the cursor."""
        at = self.query_one(RuleList).cursor
        return self.rows.row(at) if at < len(self.rows) else None

    def point_at(self, rule: str) -> None:
        """Put the cursor on a rule, now or as soon as it is there."""
        self._wanted = rule
        if self.is_mounted:
            self._point()

    def _look(self) -> None:
        """Take over what is new; without anything new nothing is drawn."""
        if not self.is_current or not self.query(RuleList):  # it comes, or goes already
            return
        opened = own_app(self).opened
        self._say_run()
        findings = opened.checkup.findings if opened is not None and opened.checkup is not None else ()
        key = opened.where if opened is not None else ""
        same = findings is self._findings and key == self._key
        self._findings = findings
        if not same:
            rules = self.query_one(RuleList)
            self.rows.update(findings)
            if key != self._key:
                self._key = key
                rules.set_rows(self.rows)
            else:
                rules.update_rows()
            self._titles()
            self._show_detail()
        self._instead(key)
        self._point()
        if not self._told and opened is not None and opened.checkup is not None:
            self._told = True
            for problem in opened.checkup.table.problems[:1]:
                self.say(f"{problem}; its default holds", "watch")

    def _say_run(self) -> None:
        opened = own_app(self).opened
        if opened is not None:
            status = (opened.model.status if opened.model is not None else None) or {}
            self.query_one(Header).set_run(opened.name, opened.state)
            self.query_one(Cause).say(why(status))

    def _titles(self) -> None:
        told = counts(self._findings)
        info = ", ".join(f"{told[name]} {name}" for name in told if told[name])
        pane = self.query_one("#rules", Pane)
        pane.set_title(f"{len(speaking(self._findings))} of {len(self._findings)} rules speak")
        pane.set_info(info)
        early = self._findings and not self.record.step
        pane.set_subtitle("most rules need a finished step" if early else "")

    def _instead(self, key: str) -> None:
        self.set_class(not len(self.rows), "-none")
        if not len(self.rows):
            opened = own_app(self).opened
            words = ("Reading the run", "dim") if key else ("No run is open.", "text")
            if opened is not None and opened.why:
                words = (f"It cannot be read: {opened.why}", "watch")
            hint = () if key else (("1: choose one in Runs with enter", "dim"),)
            self.query_one(Instead).say(words, *hint)
            self.query_one("#rules", Pane).set_title("Doctor")
        elif self.focused is None:
            focus_now(self.query_one(RuleList))

    def _point(self) -> None:
        at = self.rows.find(self._wanted) if self._wanted else None
        if at is not None:
            self._wanted = ""
            self.query_one(RuleList).cursor = at

    @on(VirtualList.Highlighted)
    def _show_detail(self) -> None:
        finding = self.finding
        self.query_one(FindingDetail).show(finding, self.record)
        title = f"{finding.rule.id} {finding.title}" if finding is not None else "Finding"
        self.query_one("#detail", Pane).set_title(title)

    # Actions

    @on(RuleList.Wanted)
    async def _act(self, event: RuleList.Wanted) -> None:
        finding = self.finding
        if event.what == "back":
            own_app(self).go("monitor" if own_app(self).opened is not None else "runs")
        elif finding is None:
            return
        elif event.what == "field":
            self._field(finding)
        elif event.what == "evidence":
            self._evidence(finding)
        elif event.what == "copy":
            text = "\n".join(f"{label:<9}{words}" for label, words in lines(finding, self.record))
            own_app(self).copy(text, finding.rule.id)
        elif finding.muted:
            self._mute(finding, "")
        else:
            from rltui.screens.doctor.mute import MuteScreen

            await self.app.push_screen(
                MuteScreen(f"{finding.rule.id} {finding.rule.title}"), lambda reason: self._mute(finding, reason)
            )

    def _mute(self, finding: Finding, reason: str | None) -> None:
        opened = own_app(self).opened
        if reason is not None and opened is not None:
            opened.mute(finding.rule.id, reason)
            self.say(f"{finding.rule.id} {'is muted in this run' if reason else 'speaks again'}")

    def _field(self, finding: Finding) -> None:
        """The key in a config that begins with the run's own: the record of a run is never edited."""
        opened = own_app(self).opened
        if not finding.keys:
            self.say("no key of the config changes this")
        elif opened is not None:
            own_app(self).copy_config(opened.where, finding.keys[0], back="doctor")

    def _evidence(self, finding: Finding) -> None:
        app, metric = own_app(self), finding.metric
        if finding.rule.id in ("D34", "D35") or finding.state is State.BROKEN:
            app.show_tab("logs")
        elif metric and "metrics" in BUILT:
            app.show_tab("metrics", metric=metric)
        elif metric.startswith(PLAYED):
            app.show_tab("rollouts", iteration=self.record.part("iteration"))
        elif metric:
            app.show_tab("overview")
        else:
            self.say("it is about the config: `rltui config show RUN --origin`")
