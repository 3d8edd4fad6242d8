"""The frame of the smoke test: it hands what the session tells to the panes, and keys to the session."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from rltui.screens.own_app import own_app
from rltui.screens.smoke.checklist import Checklist
from rltui.screens.smoke.episode import EpisodeView
from rltui.screens.smoke.questions import Questions
from rltui.screens.smoke.reply import Reply
from rltui.screens.smoke.rewards import Rewards
from rltui.screens.smoke.status import SmokeBar, tested
from rltui.smoke.events import PLAYED, RECORDED, Asks, Began, Done, Failed, Idle, Told
from rltui.widgets.bindings import bindings
from rltui.widgets.header import Header
from rltui.widgets.instead import Instead
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane

if TYPE_CHECKING:
    from rltui.model.first_prompt import Prompt
    from rltui.smoke.report import Report
    from rltui.smoke.session import Session

NARROW, WIDE = 100, 160  # columns: below, one page at a time; from here on, three panes beside each other
NOTHING = (
    ("No task_url: set it (enter) or start a task app (a)", "text"),
    ("enter takes an address, a FILE.py, builtin:NAME, or a config, whose task app is tested", "dim"),
)


class SmokeSaid(Message):
    """Posted from the session's thread."""

    def __init__(self, session: Session, told: Told) -> None:
        super().__init__()
        self.session, self.told = session, told


class SmokeScreen(Questions):
    BINDINGS: ClassVar[list[BindingType]] = bindings("smoke")
    AUTO_FOCUS = ""  # there may be nothing to point at
    DEFAULT_CSS = """
    SmokeScreen > #body { layout: horizontal; height: 1fr; }
    SmokeScreen > Instead { display: none; height: 1fr; padding: 1 0; }
    SmokeScreen.-none > #body { display: none; }
    SmokeScreen.-none > Instead { display: block; }
    SmokeScreen #checklist { width: 5fr; }
    SmokeScreen #right { width: 6fr; }
    SmokeScreen #episode { height: 5fr; }
    SmokeScreen #rewards { height: 4fr; }
    SmokeScreen.-wide #right { layout: horizontal; width: 14fr; }
    SmokeScreen.-wide #episode, SmokeScreen.-wide #rewards { height: 1fr; }
    SmokeScreen.-wide #episode { width: 8fr; }
    SmokeScreen.-wide #rewards { width: 6fr; }
    SmokeScreen.-narrow #checklist, SmokeScreen.-narrow #right { width: 1fr; }
    SmokeScreen.-narrow #right { display: none; }
    SmokeScreen.-narrow.-second #checklist { display: none; }
    SmokeScreen.-narrow.-second #right { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = time.monotonic  # in seconds
        self._later: Timer | None = None
        self._ending: Session | None = None  # the session before, on its way out
        self._drawn = 0.0

    def body(self) -> ComposeResult:
        now = self._now
        yield SmokeBar(self.model, now)
        yield Instead(*NOTHING)
        with Container(id="body"):
            yield Pane(Checklist(self.model, now), title="Checklist", id="checklist")
            with Vertical(id="right"):
                yield Pane(EpisodeView(self.model, now), Reply(), title="Episode", id="episode")
                yield Pane(Rewards(self.model), title="Rewards so far", id="rewards")
        yield from self.lines()

    def _now(self) -> float:
        return self.clock()

    def on_mount(self) -> None:
        if (asked := own_app(self).options.smoke) is not None:
            self.asked, self.taken = asked, asked.config
        self.set_interval(1.0, self._second)
        self.adopt()
        self.show_all()
        if self.named:
            focus_now(self.query_one(Checklist))

    def on_screen_resume(self) -> None:
        """The config in hand may be another one, and the test has gone on meanwhile."""
        self.adopt()
        self.show_all()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW, "-narrow")
        self.set_class(event.size.width >= WIDE, "-wide")

    @property
    def session(self) -> Session | None:
        """The one that is going, or ready for another job."""
        session = own_app(self).smoke
        return session if session is not None and session.alive else None

    @property
    def _ready(self) -> Session | None:
        """The session, if it tests what is asked for and has nothing to do."""
        session = self.session
        return session if session is not None and session.asked == self.asked and self.model.phase == "idle" else None

    # What the session tells

    def _start(self, job: Callable[[Session], None]) -> None:
        """Give a new session its first job; the one before ends first, which may take a moment."""
        self.model.start(self.clock())
        self.again()
        self.show_all()
        self.run_worker(self._renew(job), group="session", exclusive=True, exit_on_error=False)

    def again(self) -> None:
        self.query_one(Checklist).again()
        self.query_one(EpisodeView).again()

    async def _renew(self, job: Callable[[Session], None]) -> None:
        app = own_app(self)
        self._ending, app.smoke = app.smoke or self._ending, None
        if self._ending is not None:  # also one that a start which was stopped has waited for
            await asyncio.to_thread(self._ending.close)
            self._ending = None
        # In a thread: what it imports takes longer than a key may wait.
        module = await asyncio.to_thread(importlib.import_module, "rltui.smoke.session")

        def post(told: Told) -> None:
            with contextlib.suppress(RuntimeError):  # the app has left meanwhile
                self.post_message(SmokeSaid(session, told))

        session: Session = module.Session(self.asked, post)
        app.smoke = session
        job(session)
        session.begin()

    @on(SmokeSaid)
    def _said(self, event: SmokeSaid) -> None:
        if event.session is not own_app(self).smoke:
            return  # of one that was ended
        told = event.told
        self.model.apply(told, self.clock())
        if isinstance(told, Asks):
            self._ask(told)
        elif isinstance(told, Began):
            self.query_one(EpisodeView).again()
        elif isinstance(told, Done) and self.model.whole is not None and not told.report.interrupted:
            if not own_app(self).options.readonly:
                self.run_worker(self._keep(told.report), exit_on_error=False)
        elif isinstance(told, Idle):
            own_app(self).did(self._command(), self.model.report.verdict_text if self.model.report else "")
        self._show_soon()

    def _ask(self, told: Asks) -> None:
        reply = self.query_one(Reply)
        if told.call is None:
            had = self.focused is not None and reply in self.focused.ancestors
            reply.close()
            if had:
                focus_now(self.query_one(EpisodeView))
            return
        self.add_class("-second")
        reply.ask(told.call, told.problem)

    def _command(self) -> str:
        asked = self.asked
        words = [str(asked.config or ""), f"--url {asked.url}" if asked.url else ""]
        words.append(f"--policy {asked.policy}" if asked.policy else "")
        return " ".join(["rltui smoke", *filter(None, words)])

    async def _keep(self, report: Report) -> None:
        """For the launch checks."""
        from rltui.screens.smoke.writing import keep

        try:
            await asyncio.to_thread(keep, report)
        except OSError as error:
            self.say(f"the report could not be kept: {error.strerror or error}", "watch")

    # Showing

    def _show_soon(self) -> None:
        """At once, and then at most as often as the terminal is drawn."""
        if self._later is not None:
            return
        period = 1.0 / own_app(self).terminal.fps
        wait = self._drawn + period - time.monotonic()
        if wait <= 0 or self.model.call is not None:
            self.show_all()
        else:
            self._later = self.set_timer(wait, self.show_all)

    def show_all(self) -> None:
        if self._later is not None:
            self._later.stop()
            self._later = None
        self.set_class(not self.named, "-none")
        if not self.is_mounted or not self.is_current:
            return
        self._drawn = time.monotonic()
        self.query_one(Header).set_run(tested(self.asked))
        bar = self.query_one(SmokeBar)
        bar.asked = self.asked
        bar.update_bar()
        for kind in (Checklist, EpisodeView, Rewards):
            self.query_one(kind).update()
        self._show_titles()
        self.refresh_bindings()

    def _show_titles(self) -> None:
        model = self.model
        done = sum(row.stage is not None for row in model.stages)
        self.query_one("#checklist", Pane).set_info(f"{done} of {len(model.stages)}" if done else "")
        play = self.query_one(EpisodeView).play
        pane = self.query_one("#episode", Pane)
        if play is None:
            pane.set_title("Episode")
            pane.set_info("")
        else:
            at = model.numbers.index(play.n) + 1
            turn = len(play.turns) + (play.tail is not None)
            member = f" · member {play.member}" if play.stage not in (PLAYED, RECORDED) else ""
            pane.set_title(f"Episode {at} of {len(model.plays)} · seed {play.seed}{member} · turn {turn}")
            pane.set_info(play.stage)
        number = len(model.compared)
        rewards = self.query_one("#rewards", Pane)
        rewards.set_title("Rewards so far" if model.running else "Rewards")
        rewards.set_info(f"{number} episode{'' if number == 1 else 's'}" if number else "")

    def _second(self) -> None:
        """Elapsed times; while nothing runs they stand still."""
        if self.is_current and self.model.running:
            self.query_one(SmokeBar).update_bar()
            self.query_one(Checklist).update()
            self.query_one(EpisodeView).update()

    @on(EpisodeView.Turned)
    def _turned(self) -> None:
        self._show_titles()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        model, running, named = self.model, self.model.running, self.named
        works = {
            "run": named and not running,
            "pause": model.phase == "running",
            "step": model.phase == "running",
            "stop": running and not model.stopping,
            "group_size": self.asked.config is not None and model.advised is not None,
            "hand": named and not running,
            "rerun": self._ready is not None and model.report is not None,
            "replay": not running and named and bool(model.plays),
            "write": model.report is not None and not running,
            "view": self.has_class("-narrow") and named,
            "zoom": named,
        }
        return works.get(action, True) and super().check_action(action, parameters)

    def action_run(self) -> None:
        self._start(lambda session: session.run())

    def action_rerun(self) -> None:
        session = self._ready
        if session is not None:
            session.run({self.query_one(Checklist).stage.id})

    def action_pause(self) -> None:
        if (session := self.session) is None:
            return
        self.model.paused = not self.model.paused
        session.pause() if self.model.paused else session.resume()
        self.show_all()

    def action_step(self) -> None:
        if (session := self.session) is not None:
            self.model.paused = True
            session.step()
            self.show_all()

    def action_stop(self) -> None:
        if (session := self.session) is not None:
            self.model.stopping = True
            session.stop()
        else:  # the one before is still on its way out
            self.workers.cancel_group(self, "session")
            self.model.apply(Failed("stopped before it began"), self.clock())
        self.show_all()

    def action_hand(self) -> None:
        self._play(by_hand=True)

    def action_replay(self) -> None:
        self._play(by_hand=self._shown_by_hand())

    def play_seed(self, config: Path, seed: int, prompt: Prompt | None = None) -> None:
        """One episode of `seed` by this config, unless a test is going on; before it the policy answers `prompt`,
        which was recorded."""
        if self.model.running:
            self.say("a test is going on: X stops it", "watch")
            return
        self.take(replace(self.asked, config=config, url=None, seeds=(seed,), sets=(), allow_unknown=False))

        def job(session: Session) -> None:
            if prompt is not None:
                session.ask(seed, prompt)
            session.play(seed)

        self._start(job)

    def _shown_by_hand(self) -> bool:
        play = self.query_one(EpisodeView).play
        return play is not None and play.episode is not None and play.episode.policy == "human"

    def _play(self, *, by_hand: bool) -> None:
        """One episode of the seed that is shown, else of the first one."""
        play = self.query_one(EpisodeView).play
        seeds = self.asked.seeds or (self.model.settings.seeds if self.model.settings is not None else (0,))
        seed = play.seed if play is not None else seeds[0]
        if (session := self._ready) is not None:
            session.play(seed, by_hand=by_hand)
        else:
            self._start(lambda session: session.play(seed, by_hand=by_hand))
        self.model.by_hand = by_hand
        self.show_all()

    def action_view(self) -> None:
        self.toggle_class("-second")
        shown: Widget = self.query_one(EpisodeView if self.has_class("-second") else Checklist)
        self.call_after_refresh(focus_now, shown)

    # A person's play

    @on(EpisodeView.Answer)
    def _answer(self) -> None:
        if self.query_one(Reply).is_open:
            self.query_one(Reply).focus_line()

    @on(Reply.Sent)
    def _sent(self, event: Reply.Sent) -> None:
        if (session := self.session) is not None:
            session.answer(event.line)

    @on(Reply.Left)
    def _reply_left(self) -> None:
        focus_now(self.query_one(EpisodeView))
