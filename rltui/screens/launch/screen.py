"""Screen 3: what a run of this config needs, checked as one looks; one key starts it and opens it in Monitor."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message

from rltui.launch.runs import is_address, server_name
from rltui.launch.targets import NoSuchTarget, target
from rltui.preflight.base import took
from rltui.preflight.table import checks_of
from rltui.screens.launch.aim import OTHER, choices
from rltui.screens.launch.checklist import Checklist
from rltui.screens.launch.head import Head
from rltui.screens.launch.script import ScriptEditing, Stamp, stamp_of
from rltui.screens.launch.takes import Takes
from rltui.screens.launch.work import Checked, CheckNews, Planned, Work
from rltui.screens.own_app import own_app
from rltui.text import clean
from rltui.text_lines import wrap
from rltui.widgets.bindings import bindings
from rltui.widgets.instead import Instead
from rltui.widgets.key_bar import KeyBar
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.prompt import Prompt
from rltui.words import shortened

if TYPE_CHECKING:
    from rltui.cli.start import Plan

WIDE, WIDER = 110, 160  # columns, from which on the numbers stand beside the checks, and have more room
DIALOG = 70  # cells of a line of a dialog
# What a config is needed for.
NEEDS_ONE = ("go", "details", "again", "edit", "copy", "command", "script", "folder", "dry_run", "target")


class Started(Message):
    """The run was started, and is `where`; or it could not be: then `why` says it."""

    def __init__(self, plan: Plan, why: str = "", where: str = "") -> None:
        super().__init__()
        self.plan, self.why, self.where = plan, why, where


class LaunchScreen(ScriptEditing):
    AUTO_FOCUS = ""  # a line to type in that does not show would get it
    BINDINGS: ClassVar[list[BindingType]] = bindings("launch")
    DEFAULT_CSS = """
    LaunchScreen > #run { height: auto; }
    LaunchScreen > Horizontal { height: 1fr; }
    LaunchScreen #takes { width: 46; display: none; }
    LaunchScreen.-wide #takes { display: block; }
    LaunchScreen.-wider #takes { width: 66; }
    LaunchScreen Instead { display: none; height: 1fr; }
    LaunchScreen.-none Instead { display: block; }
    LaunchScreen.-none Head { display: none; }
    LaunchScreen.-none > #run { height: 1fr; }
    LaunchScreen.-none > Horizontal { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(name="launch")
        self._config: Path | None = None
        self._launcher = target("local")
        self._checks = checks_of(self._launcher)
        self._stamp: Stamp | None = None  # of the file that was checked
        self._run_dir: Path | None = None
        self._plan: Plan | None = None
        self._work: Work | None = None
        self._done = False  # every check has ended
        self._starting = False

    def body(self) -> ComposeResult:
        with Pane(title="Run", id="run"):
            yield Head()
            yield Instead()
            yield Prompt("config", placeholder="the path of a TOML file", id="path")
            yield Prompt("target", placeholder="http://HOST:PORT, ssh://USER@HOST, ray://HOST:PORT, slurm", id="target")
            yield Prompt("folder", placeholder="of the run; empty: a new one in logging.runs_dir", id="folder")
        with Horizontal():
            with Pane(title="Preflight", id="checks"):
                yield Checklist()
            with Pane(title="What it takes", id="takes"):
                yield Takes()

    @property
    def checklist(self) -> Checklist:
        return self.query_one(Checklist)

    def on_mount(self) -> None:
        self.query_one(Instead).say(
            ("No config is chosen.", "text"),
            ("c: choose one of this folder, or type its path", "dim"),
            ("1, then +: a new one, from a preset", "dim"),
        )
        self.look()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")
        self.set_class(event.size.width >= WIDER, "-wider")

    def on_screen_resume(self) -> None:
        self.look()

    async def on_unmount(self) -> None:
        if self._work is not None:
            await asyncio.to_thread(self._work.stop)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if (action in NEEDS_ONE and self._config is None) or (action == "script" and not self._launcher.scripted):
            return False
        return super().check_action(action, parameters)

    # The config

    def look(self) -> None:
        """Check the config that is in hand, unless that was done and nothing has changed since."""
        if not self.is_mounted:
            return
        path = own_app(self).config_path
        if path != self._config:
            self.drop_script(self._launcher, "another config is meant")
            self._config, self._run_dir = path, None
            self._check()
        elif path is not None and (self._plan is None or stamp_of(path) != self._stamp):
            self._check()
        self.set_class(path is None, "-none")
        if not any(prompt.is_open for prompt in self.query(Prompt)):  # a line that is open keeps the keys
            self._rest()
        self.refresh_bindings()

    def _rest(self) -> None:
        """The keys go to the list again."""
        if self._config is None:
            self.set_focus(None)  # there is nothing to move in
        else:
            focus_now(self.checklist)

    def _check(self) -> None:
        """Look at everything, from the beginning."""
        self._give_up()
        self._plan, self._done = None, False
        path = self._config
        self._checks = checks_of(self._launcher)
        self.query_one(Head).show(path, self._launcher.name)
        self.query_one(Takes).show([])
        self.checklist.begin(self._checks if path is not None else ())
        if path is not None:
            self._stamp = stamp_of(path)
            self.fit_script(self._launcher, self._run_dir, self._stamp)
            self._work = Work(path, self._launcher, self._run_dir, self.post_message)
            self._work.start()
        self._count()

    def _give_up(self) -> None:
        """Another thread waits for the end of what was going on."""
        if self._work is not None:
            threading.Thread(target=self._work.stop, name="end of a preflight", daemon=True).start()
            self._work = None

    # What comes

    @on(CheckNews)
    def _news(self, event: CheckNews) -> None:
        from rltui.preflight.base import Began

        if event.work is not self._work:
            return
        if isinstance(event.event, Began):
            self.checklist.running(event.event.id)
        else:
            self.checklist.ended(event.event)
        self._count()

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        from rltui.cli.configs import amount

        if event.work is self._work:
            self._plan = self.of_script(event.plan)
            self.query_one(Head).show(self._config, self._launcher.name, self._plan, amount(event.plan.derived))
            self.query_one(Takes).show(event.takes, "The machine that it runs on says so when it starts.")

    @on(Checked)
    def _checked(self, event: Checked) -> None:
        if event.work is not self._work:
            return
        self._done = True
        self._count()
        worst = next((v for v in ("fail", "warn") if self._with(v)), None)
        if worst is not None:
            self.checklist.point_at(self._with(worst)[0])
        self.query_one(KeyBar).update_keys()

    def _with(self, verdict: str) -> list[str]:
        """Ids of the checks that ended so, in the order of the list."""
        results = self.checklist.results
        return [check.id for check in self._checks if check.id in results and results[check.id].verdict == verdict]

    def _count(self) -> None:
        pane, results = self.query_one("#checks", Pane), self.checklist.results
        if not self._done:
            pane.set_info(f"{len(results)} of {len(self._checks)}" if self._config is not None else "")
            return
        failed, warned = len(self._with("fail")), len(self._with("warn"))
        told = [f"{failed} failed"] * bool(failed) + [f"{warned} warning{'s' * (warned != 1)}"] * bool(warned)
        longest = max((result.seconds for result in results.values()), default=0.0)
        pane.set_info(f"{', '.join(told) or 'ready'}, {took(longest)}")

    # Actions

    async def action_go(self) -> None:
        from rltui.screens.confirm import Answer, ConfirmScreen

        left = len(self._checks) - len(self.checklist.results)
        if self._starting:
            return
        if failed := self._with("fail"):
            self.checklist.point_at(failed[0])
            titles = ", ".join(check.title for check in self._checks if check.id in failed)
            self.say(f"not started: {titles} failed", "act")
        elif not self._done or self._plan is None:
            self.say(f"{left} check{'s' * (left != 1)} to go")
        elif warned := self._with("warn"):
            found = [self.checklist.results[id] for id in warned]
            lines = [line for one in found for line in wrap(clean(f"{one.title}: {one.found.message}", 300), DIALOG)]
            answers = [Answer("l", "launch", "launch anyway")]
            await self.app.push_screen(ConfirmScreen("Launch with warnings", lines, answers), self._sure)
        else:
            self._launch()

    def _sure(self, answer: str | None) -> None:
        if answer == "launch":
            self._launch()

    def _launch(self) -> None:
        plan = self._plan
        assert plan is not None
        self._starting = True
        own_app(self).did(self.query_one(Head).command, f"started at {self._launcher.name}")

        def start() -> None:
            from rltui.cli.output import CliError
            from rltui.cli.start import launch

            try:
                post(Started(plan, where=launch(plan).source.place))
            except CliError as error:
                post(Started(plan, str(error)))

        post = self.post_message
        self.run_worker(asyncio.to_thread(start), group="start", exit_on_error=False)

    @on(Started)
    def _started(self, event: Started) -> None:
        self._starting = False
        if event.why:
            self.say(event.why, "act")
            return
        self.drop_script(self._launcher)
        self._plan, self._run_dir = None, None  # the next run has a folder of its own
        if is_address(self._launcher.name):  # so that Runs lists it beside the others
            own_app(self).add_server(server_name(self._launcher.name))
        own_app(self).open_run(event.where)

    def action_details(self) -> None:
        self.checklist.toggle_details()

    def action_again(self) -> None:
        self._check()

    def action_edit(self) -> None:
        """The config editor, at the key that the check under the cursor is about."""
        result = self.checklist.current
        if self._config is not None:
            own_app(self).edit_config(self._config, (result.found.key or None) if result is not None else None)

    async def action_choose(self) -> None:
        from rltui.screens.choice import ChoiceScreen
        from rltui.screens.launch.pick import choices

        found = choices(Path.cwd(), own_app(self).config_path)
        await self.app.push_screen(ChoiceScreen("Which config", found), self._chosen)

    def _chosen(self, value: str | None) -> None:
        if value:
            self._take(Path(value))
        elif value is not None:
            self.query_one("#path", Prompt).open()

    def _take(self, path: Path) -> None:
        own_app(self).config_path = path.expanduser().absolute()
        self.look()

    @on(Prompt.Submitted, "#path")
    def _path_typed(self, event: Prompt.Submitted) -> None:
        path = Path(event.value.strip()).expanduser()
        if not event.value.strip() or not path.is_file():
            event.prompt.set_note(f"no file {path}" if event.value.strip() else "a path, please", "watch")
            return
        event.prompt.close()
        self._take(path)

    @on(Prompt.Cancelled)
    def _left(self) -> None:
        self._rest()

    # The target

    async def action_target(self) -> None:
        from rltui.screens.choice import ChoiceScreen

        found = choices(own_app(self).servers, self._launcher.name)
        await self.app.push_screen(ChoiceScreen("Where", found), self._target_chosen)

    def _target_chosen(self, value: str | None) -> None:
        if value == OTHER:
            self.query_one("#target", Prompt).open()
        elif value is not None:
            self._aim(value)

    @on(Prompt.Submitted, "#target")
    def _target_typed(self, event: Prompt.Submitted) -> None:
        try:
            target(event.value)
        except NoSuchTarget as error:
            event.prompt.set_note("no target; such as ssh://USER@HOST", "watch")
            self.say(str(error), "watch")
            return
        event.prompt.close()
        self._aim(event.value)

    def _aim(self, name: str) -> None:
        """Look at a start at this target."""
        self.drop_script(self._launcher, "another target is meant")
        self._launcher = target(name)
        if not self._launcher.shares_disk:
            self._run_dir = None
        focus_now(self.checklist)
        self._check()

    def action_copy(self) -> None:
        if command := self.query_one(Head).command:
            own_app(self).copy(command, "command")

    def action_command(self) -> None:
        self.query_one(Head).toggle()

    def action_script(self) -> None:
        if self._plan is None:
            self.say("the config is not valid, so there is no script yet")
        elif self.edit_script(self._plan, self._stamp):
            self._run_dir = self._plan.job.run_dir
            self._check()

    def action_folder(self) -> None:
        if not self._launcher.shares_disk:
            self.say(f"{self._launcher.name} names its runs itself, and has their folders")
            return
        run_dir = self._plan.job.run_dir if self._plan is not None else self._run_dir
        self.query_one("#folder", Prompt).open(str(run_dir or ""))

    @on(Prompt.Submitted, "#folder")
    def _folder_typed(self, event: Prompt.Submitted) -> None:
        event.prompt.close()
        text = event.value.strip()
        self._run_dir = Path(text).expanduser().absolute() if text else None
        focus_now(self.checklist)
        self._check()

    async def action_dry_run(self) -> None:
        """What `rltui train --dry-run` says."""
        from rltui.cli.configs import amount
        from rltui.cli.train import DRY_RUN
        from rltui.screens.confirm import ConfirmScreen

        if self._plan is None:
            self.say("the config is not valid, so there is nothing to run")
            return
        plan = self._plan
        made = f"would make {shortened(plan.job.run_dir)}" if plan.job.run_dir else f"would ask {self._launcher.name}"
        texts = [amount(plan.derived), made, *DRY_RUN.splitlines()]
        lines = [line for text in texts for line in wrap(text, DIALOG)]
        own_app(self).did(f"rltui train {plan.job.config}{self._option()} --dry-run", "nothing was started")
        await self.app.push_screen(ConfirmScreen("Dry run", lines, []))

    def _option(self) -> str:
        return "" if self._launcher.name == "local" else f" --target {self._launcher.name}"

    def action_back(self) -> None:
        own_app(self).go("runs")
