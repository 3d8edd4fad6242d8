"""Runs of a job server in the interface: listed beside those of the folder, opened, steered, started."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Input

from rltui.cli.main import main
from rltui.screens.runs import RunsScreen
from rltui.server.app import job_server
from rltui.server.auth import Access
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from tests.server_reads.serving import Server
from tests.tui.app_driver import build, run_in, screen_text, until
from trainer.rundir import RunWriter

SIZE = (120, 36)


@pytest.fixture
def far(tmp_path, monkeypatch) -> Iterator[Server]:
    """A server whose folder holds one finished run."""
    folder = tmp_path / "far"
    run_in(folder, "distant", episodes=64, number=7)
    jobs = Jobs(House(folder, False, dict(os.environ)), Places(gpus=(), cpu_jobs=1))
    server = Server(app=job_server(jobs, Access()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield server
    with contextlib.suppress(RuntimeError):  # a test has ended it already
        server.close()


def far_run(tmp_path: Path) -> Path:
    return tmp_path / "far" / f"distant-rl_{7:016x}"


def address(server: Server) -> str:
    return f"{server.url}/rl/jobs/rl_{7:016x}"


def runs_of(app) -> RunsScreen:
    screen = app.get_screen("runs")
    assert isinstance(screen, RunsScreen)
    return screen


async def attach(pilot, app, text: str) -> None:
    await pilot.press("a")
    await until(app, lambda: isinstance(app.focused, Input))
    app.focused.value = text
    await pilot.press("enter")


async def test_jobs_of_a_server_are_listed_beside_the_folder_and_forgotten_again(far, tmp_path):
    run_in(tmp_path / "near", "close")
    app = build(tmp_path / "near")
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "close")
        await attach(pilot, app, f"http://127.0.0.1:{far.port}")
        await until(app, "synth-healthy", "close", "and 1 server")
        at = next(i for i in range(2) if runs_of(app).rows.row(i).name.startswith("synth"))
        assert runs_of(app).rows.row(at).path == address(far)
        runs_of(app).query_one("#runs").cursor = at
        await pilot.press("x")
        await until(app, lambda: "synth" not in screen_text(app))
        assert "close" in screen_text(app) and app.servers == []


async def test_every_number_of_a_job_is_that_of_its_folder(far, tmp_path, capsys):
    """Opened by its address the screen shows what the verbs print of the folder on the server's machine."""
    app = build(tmp_path / "near", run_dir=None)
    assert main(["overview", str(far_run(tmp_path)), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        app.open_run(address(far))
        await until(app, f"step {told['status']['step']}/", f"{told['reward']:.3f}"[:4])
        for key, words in (
            ("M", "reward/mean"),
            ("R", "80 episodes"),
            ("I", "bound"),
            ("L", "coordinator"),
            ("J", "judge"),
        ):
            await pilot.press(key)
            await until(app, words)
        await pilot.press("P")
        await until(app, "THE PAST")


async def test_a_server_that_is_gone_is_a_line_and_the_open_run_keeps_its_data(far, tmp_path):
    app = build(tmp_path / "near")
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        await attach(pilot, app, address(far))
        await until(app, "step 4/4")
        far.abort()
        app.opened.look_now()
        shown = await until(app, "stale")
        assert "step 4/4" in shown
        await pilot.press("1")
        app.look_at_server(app.servers[0])
        shown = await until(app, "unreadable")
        assert "synth-healthy" in shown


async def test_a_server_that_comes_back_is_read_on_where_it_was(tmp_path, monkeypatch):
    """The run went on meanwhile: its screen goes on with what was written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def serve(port: int = 0) -> Server:
        jobs = Jobs(House(tmp_path / "far", False, dict(os.environ)), Places(gpus=(), cpu_jobs=1))
        return Server(port, job_server(jobs, Access()))

    with RunWriter(tmp_path / "far" / f"live-rl_{8:016x}", job_id=f"rl_{8:016x}", label="live") as writer:
        writer.status(state="running", phase="training", totals={"steps": 9, "iterations": 9}, step=1)
        server, app = serve(), build(tmp_path / "near")
        async with app.run_test(size=SIZE) as pilot:
            await until(app, "No runs under")
            await attach(pilot, app, f"{server.url}/rl/jobs/rl_{8:016x}")
            await until(app, "step 1/9")
            server.abort()
            app.opened.look_now()
            await until(app, "stale")
            writer.status(step=2)
            server = serve(server.port)
            app.opened.look_now()
            await until(app, lambda: "step 2/9" in screen_text(app) and "stale" not in screen_text(app))
        server.close()


async def test_the_newest_jobs_of_a_large_server_are_said_to_be_that(far, tmp_path, monkeypatch):
    monkeypatch.setattr("rltui.sources.servers.MOST", 1)
    monkeypatch.setattr("rltui.screens.runs.MOST", 1)
    run_in(tmp_path / "far", "newer", episodes=64, number=9)
    app = build(tmp_path / "near")
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        await attach(pilot, app, f"http://127.0.0.1:{far.port}")
        await until(app, "by newest, of a server its newest 1")


async def test_a_server_of_this_very_folder_lists_no_run_twice(far, tmp_path):
    app = build(tmp_path / "far")
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "distant")
        await attach(pilot, app, f"http://127.0.0.1:{far.port}")
        await until(app, lambda: runs_of(app).rows.known == 2)
        assert len(runs_of(app).rows) == 1 and runs_of(app).rows.row(0).path == str(far_run(tmp_path))


async def test_an_address_that_is_none_is_said(tmp_path):
    app = build(tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        await attach(pilot, app, "http://:0/")
        await until(app, "not the address of a job server")
        await attach(pilot, app, "ssh:///job")
        await until(app, "names no server")


async def test_a_config_is_launched_at_a_server(far, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)  # no batch system is offered
    sample = Path(__file__).parents[2] / "sample_configs" / "cpu_smoke.toml"
    text = sample.read_text().replace("builtin:smollm2-135m", "builtin:tiny")
    (tmp_path / "my.toml").write_text(text)
    app = build(tmp_path / "near")
    app.config_path = tmp_path / "my.toml"
    async with app.run_test(size=SIZE) as pilot:
        await until(app, "No runs under")
        await pilot.press("3")
        await until(app, "Preflight")
        await pilot.press("t")
        await until(app, "another")
        await pilot.press("down", "enter")
        await until(app, lambda: isinstance(app.focused, Input))
        app.focused.value = f"http://127.0.0.1:{far.port}"
        await pilot.press("enter")
        shown = await until(app, lambda: "answers in" in screen_text(app) and screen_text(app))
        assert "GPUs" not in shown  # of this machine nothing is asked
        await pilot.press("enter")
        await until(app, lambda: "launch anyway" in screen_text(app) or app.opened is not None)
        if app.opened is None:
            await pilot.press("l")
        await until(app, lambda: app.opened is not None and app.opened.where.startswith(far.url))
        assert app.servers == [far.url]
        await until(app, lambda: app.opened.model is not None and app.opened.model.status is not None)
        app.opened.model.source.kill()
