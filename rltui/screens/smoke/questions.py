"""What the smoke test's screen asks: what is tested, who plays, where the report goes, whether a config is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from textual import on

from rltui.model.smoke_test import SmokeModel
from rltui.screens.base import AppScreen
from rltui.screens.own_app import own_app
from rltui.screens.smoke.checklist import Checklist
from rltui.screens.smoke.choices import OTHER, app_screen, group_size_screen, policy_screen
from rltui.smoke.asked import Asked
from rltui.widgets.lines import focus_now
from rltui.widgets.prompt import Prompt


class Questions(AppScreen):
    """The screen without its panes: override `body` and `show_all`."""

    def __init__(self) -> None:
        super().__init__(name="smoke")
        self.model = SmokeModel()
        self.asked = Asked()
        self.taken: Path | None = None  # the config in hand, as it was last seen

    def lines(self) -> Iterator[Prompt]:
        """What is typed into, below the panes."""
        yield Prompt("target", placeholder="http://..., FILE.py, builtin:NAME, or a config FILE.toml", id="target")
        yield Prompt("endpoint", placeholder="http://127.0.0.1:8000/v1", id="endpoint")
        yield Prompt("write to", placeholder="FILE.json", id="file")

    def show_all(self) -> None:
        """Show what the model knows now."""
        raise NotImplementedError

    def again(self) -> None:
        """The model has begun anew."""
        raise NotImplementedError

    @property
    def named(self) -> bool:
        """Whether there is something to test."""
        return self.asked.config is not None or self.asked.url is not None

    # What is tested

    def adopt(self) -> None:
        path = own_app(self).config_path
        if path is not None and path != self.taken:
            self.take(replace(self.asked, config=path, url=None, sets=(), allow_unknown=False))
            self.taken = path

    def take(self, asked: Asked) -> None:
        """From the next run on."""
        self.asked = asked
        if not self.model.running:
            self.model.clear()  # what was found is of another test
            self.again()
        self.show_all()

    # Questions

    def action_target(self) -> None:
        self.query_one("#target", Prompt).open()

    @on(Prompt.Submitted, "#target")
    def _target_typed(self, event: Prompt.Submitted) -> None:
        text = event.value.strip()
        path = Path(text).expanduser()
        if path.suffix == ".toml" or (path / "config.toml").is_file():
            path = path / "config.toml" if path.is_dir() else path
            if not path.is_file():
                event.prompt.set_note(f"no file {path}", "watch")
                return
            own_app(self).config_path = self.taken = path
            self._leave(event)
            self.take(Asked(config=path, policy=self.asked.policy))
        elif text:
            self._leave(event)
            self.take(replace(self.asked, url=text))
        else:
            event.prompt.set_note("an address, a FILE.py, builtin:NAME or a config", "watch")

    async def action_app(self) -> None:
        await self.app.push_screen(app_screen(), self._app_chosen)

    def _app_chosen(self, app: str | None) -> None:
        if app == OTHER:
            self.action_target()
        elif app is not None:
            self.take(replace(self.asked, url=app))
            focus_now(self.query_one(Checklist))

    async def action_policy(self) -> None:
        await self.app.push_screen(policy_screen(self.asked), self._policy_chosen)

    def _policy_chosen(self, policy: str | None) -> None:
        if policy == OTHER:
            self.query_one("#endpoint", Prompt).open()
        elif policy is not None:
            self.take(replace(self.asked, policy=policy))
            if self.model.running:
                self.say(f"{policy} plays from the next run on")

    @on(Prompt.Submitted, "#endpoint")
    def _endpoint_typed(self, event: Prompt.Submitted) -> None:
        url = event.value.strip()
        if not url.startswith(("http://", "https://")):
            event.prompt.set_note("an http or https address", "watch")
            return
        self._leave(event)
        self.take(replace(self.asked, policy=url))

    def action_write(self) -> None:
        from rltui.screens.smoke.writing import file_name

        if self.model.report is not None:
            self.query_one("#file", Prompt).open(file_name(self.model.report))

    @on(Prompt.Submitted, "#file")
    async def _file_typed(self, event: Prompt.Submitted) -> None:
        from rltui.screens.smoke.writing import NotWritten, export

        report = self.model.report
        if report is None or not event.value.strip():
            return
        path = Path(event.value.strip()).expanduser()
        try:
            await asyncio.to_thread(export, report, path)
        except NotWritten as error:
            event.prompt.set_note(str(error), "watch")
            return
        self._leave(event)
        own_app(self).did(f"write {path}")
        self.say(f"written to {path}", "good")

    @on(Prompt.Cancelled, "#target")
    @on(Prompt.Cancelled, "#endpoint")
    @on(Prompt.Cancelled, "#file")
    def _leave(self, event: Prompt.Event) -> None:
        event.prompt.close()
        event.prompt.set_note("")
        if self.named:
            focus_now(self.query_one(Checklist))

    async def action_group_size(self) -> None:
        model, path = self.model, self.asked.config
        size, settings = model.advised, model.settings
        if path is not None and size is not None and settings is not None and settings.plan.group_size is not None:
            question = group_size_screen(path, settings.plan.group_size, size)
            await self.app.push_screen(question, lambda answer: self._write_size(path, size, answer))

    def _write_size(self, path: Path, size: int, answer: str | None) -> None:
        from rltui.screens.smoke.writing import NotWritten, set_group_size

        if answer is None:
            return
        try:
            set_group_size(path, size)
        except NotWritten as error:
            self.say(str(error), "act")
            return
        own_app(self).did(f"rltui config set {path} training.group_size {size}")
        self.say(f"training.group_size = {size} in {path.name}; r tests it", "good")
