"""Screen 3: what it looks at, what it refuses, and that one key starts the run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path

import pytest

from rltui.app import RltuiApp
from rltui.launch.targets import target
from rltui.preflight import table
from rltui.samples import samples
from rltui.screens.confirm import ConfirmScreen
from rltui.screens.launch.screen import LaunchScreen
from rltui.screens.monitor.event_rows import EventRows
from rltui.sources.local import LocalRunSource
from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, screen_text, until

TINY = (('"builtin:smollm2-135m"', '"builtin:tiny"'), ("iterations_per_epoch = 3", "iterations_per_epoch = 500"))
NO_APP = ('task_url = "builtin:facts"', 'task_url = "http://127.0.0.1:9"')
DROPOUT = ("alpha = 16 ", "dropout = 0.1\nalpha = 16 ")


@pytest.fixture
def config(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """my.toml beside the folder of runs; the person stands there."""
    monkeypatch.chdir(folder.parent)
    return write(folder.parent / "my.toml")


def write(path: Path, *changes: tuple[str, str]) -> Path:
    text = samples()["cpu_smoke"].read_text()
    for old, new in (*TINY, *changes):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def screen(app: RltuiApp) -> LaunchScreen:
    assert isinstance(app.screen, LaunchScreen)
    return app.screen


def listed(app: RltuiApp) -> list[str]:
    """The events of the run that Overview lists, also those that newer ones have moved out of sight."""
    found = [view.rows for view in app.screen.query("#events").results(VirtualList)]
    events = [rows.event(i) for rows in found if isinstance(rows, EventRows) for i in range(len(rows))]
    return [str(event.get("message")) for event in events]


async def checked(app: RltuiApp) -> dict[str, str]:
    """The verdicts, once every check has ended."""
    await until(app, lambda: isinstance(app.screen, LaunchScreen) and app.screen._done)
    return {id: result.verdict for id, result in screen(app).checklist.results.items()}


async def test_a_config_is_chosen_checked_and_launched(folder, config):
    (config.parent / "other.toml").write_text("[tool]\nx = 1\n")
    app = build(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await until(app, "No config is chosen")
        await pilot.press("c")
        text = await until(app, "Which config", "my.toml")
        assert "other.toml" not in text
        await pilot.press("enter")
        verdicts = await checked(app)
        assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
        text = await until(app, "ready, ", "mock episode", "trainer run")
        assert "3 of 3" not in text
        run_dir = screen(app)._plan.job.run_dir
        await pilot.press("enter")
        await until(app, "Overview")
        try:
            assert app.opened is not None and app.opened.folder == run_dir
            assert f"--run-dir {run_dir}" in app.commands.rows()[-1].command
            status = run_dir / "status.json"
            await until(app, lambda: status.exists() and json.loads(status.read_text())["phase"] != "queued")
            await until(app, lambda: "the run starts" in listed(app))
            await pilot.press("3")
            await until(app, lambda: isinstance(app.screen, LaunchScreen) and app.screen._plan is not None)
            assert screen(app)._plan.job.run_dir != run_dir  # the next run is another
        finally:
            await asyncio.to_thread(LocalRunSource(run_dir).kill)


async def test_a_failed_check_refuses_and_leads_to_its_key(folder, config, monkeypatch):
    write(config, NO_APP)
    app = build(folder)
    opened: list[tuple[Path, str | None]] = []
    monkeypatch.setattr(RltuiApp, "edit_config", lambda app, path, key=None: opened.append((path, key)))
    async with app.run_test(size=(80, 24)) as pilot:
        app.launch_config(config)
        assert (await checked(app))["task_app"] == "fail"
        await until(app, "1 failed", "refused", "fix: ")  # the cursor stands on it, with what to do
        await pilot.press("enter")
        await until(app, "task app failed")
        await pilot.press("e")
        assert opened == [(config, "services.task_url")]
        await pilot.press("space")
        await until(app, "tried: http://127.0.0.1:9")
        assert not (folder.parent / "runs").exists() or not list(folder.iterdir())


async def test_warnings_are_asked_about(folder, config):
    write(config, DROPOUT)
    app = build(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        app.launch_config(config)
        assert (await checked(app))["config"] == "warn"
        await pilot.press("enter")
        await until(app, "launch anyway", "dropout")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("escape")
        await until(app, lambda: isinstance(app.screen, LaunchScreen))
        assert not list(folder.iterdir())


async def test_a_saved_config_is_looked_at_again(folder, config):
    write(config, NO_APP)
    app = build(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        app.launch_config(config)
        await checked(app)
        work = screen(app)._work
        await pilot.press("1")
        await pilot.press("3")
        assert screen(app)._work is work  # nothing has changed
        await pilot.press("1")
        config.write_text("x = 1\n")
        await pilot.press("3")
        await until(app, "unknown key")
        assert (await checked(app))["config"] == "fail"
        await until(app, "1 failed", "waits for: config")
        assert screen(app)._plan is None
        await pilot.press("d")
        await until(app, "not valid")


async def test_dry_run_folder_and_command(folder, config):
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        app.launch_config(config)
        await until(app, "in ")
        await until(app, lambda: screen(app)._plan is not None)
        await pilot.press("v")
        await until(app, "--job-id")
        await pilot.press("d")
        await until(app, "would make", "not checked")
        await pilot.press("escape", "n")
        await until(app, "folder ")
        await pilot.press("home", "ctrl+k", *"mine", "enter")
        await until(app, lambda: screen(app)._plan is not None and screen(app)._plan.job.run_dir.name == "mine")
        assert screen(app)._plan.job.run_dir == config.parent / "mine"


async def test_readonly_looks_and_starts_nothing(folder, config):
    app = build(folder, readonly=True)
    async with app.run_test(size=(120, 40)) as pilot:
        app.launch_config(config)
        await checked(app)
        text = screen_text(app)
        assert "enter launch" not in text.splitlines()[-1] and "r check" in text
        await pilot.press("enter")
        assert isinstance(app.screen, LaunchScreen) and not list(folder.iterdir())


async def test_a_typed_path_has_the_keys(folder, config):
    other = write(config.parent / "gone.toml")
    app = build(folder)
    async with app.run_test(size=(80, 24)) as pilot:
        app.launch_config(config)
        await checked(app)
        await pilot.press("c", "end", "down", "down", "down", "enter")
        await until(app, "the path of a TOML file")
        await until(app, lambda: isinstance(app.screen, LaunchScreen) and app.focused is not None)
        await pilot.press(*"gone.toml")
        assert isinstance(app.screen, LaunchScreen) and "enter launch" not in screen_text(app).splitlines()[-1]
        await pilot.press("enter")
        await until(app, lambda: app.config_path == other)
        assert not list(folder.iterdir())


async def test_a_list_that_goes_on_below_says_so(folder, config):
    write(config, NO_APP)
    app = build(folder)
    async with app.run_test(size=(80, 18)) as pilot:
        app.launch_config(config)
        await checked(app)
        await until(app, "more ─")
        await pilot.press("home")
        await until(app, "↓ ")


SBATCH = """#!/bin/bash
case "$1" in --test-only) echo "sbatch: Job 7 to start at noon" >&2; cat > /dev/null;; *) cat > "$SEEN"; echo 7;; esac
"""


async def test_the_batch_script_is_edited_and_that_is_submitted(folder, config, monkeypatch, tmp_path):
    tools, seen = tmp_path / "tools", tmp_path / "seen"
    tools.mkdir()
    for name, text in {"sbatch": SBATCH, "sinfo": "#!/bin/sh\n", "scancel": "#!/bin/sh\n"}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (tools / "ed").write_text("#!/bin/sh\nsed -i -e '/--requeue$/d' -e 's/^umask/module load mine\\numask/' \"$2\"\n")
    (tools / "ed").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(seen))
    monkeypatch.setenv("EDITOR", str(tools / "ed"))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(RltuiApp, "suspend", lambda app: contextlib.nullcontext())
    monkeypatch.setattr(table, "CHECKS", [check for check in table.CHECKS if check.id in ("config", "target")])
    app = build(folder)
    async with app.run_test(size=(120, 40)) as pilot:
        app.launch_config(config)
        assert "script" not in (await until(app, "enter launch")).splitlines()[-1]  # this machine has none
        screen(app)._aim("slurm")
        assert (await checked(app))["target"] == "warn"  # the folder is on a disk of one machine
        job = screen(app)._plan.job
        await pilot.press("b")
        await until(app, "edited script: without --requeue", "it needs the line #SBATCH --requeue")
        await checked(app)
        assert screen(app)._plan.job == job
        await pilot.press("enter")
        await until(app, "launch anyway")
        await pilot.press("l")
        await until(app, lambda: seen.exists() and seen.read_text())
        text = seen.read_text()
        assert "module load mine\numask" in text and "--requeue\n" not in text and job.job_id in text
        assert (job.run_dir / "slurm.sbatch").read_text() == text
        await until(app, lambda: app.opened is not None)
        assert target("slurm").edited is None
