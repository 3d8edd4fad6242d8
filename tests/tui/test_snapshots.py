"""Every screen and tab, with its empty, loading and error state, at three sizes and in all looks: see snapshot.py."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from rltui.app import Options, RltuiApp
from rltui.look import Look, ThemeFiles
from rltui.smoke.asked import Asked
from rltui.sources.base import Unreadable
from rltui.sources.folder import RunsFolder
from rltui.sources.local import LocalRunSource
from rltui.terminal.capabilities import ColorMode, Terminal
from tests.tui.app_driver import run_in, until
from tests.tui.snapshot import Part, all_styles, background, check, faults, text_of

NOW = 1_750_000_000.0 + 90 * 60  # synthetic runs begin at 1_750_000_000
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}
VARIANTS = ["80x24", "120x40", *(pytest.param(name, marks=pytest.mark.slow) for name in ("200x60", "ansi", "ascii"))]
TOP = slice(0, 3)  # rows: header, tabs, progress


@dataclass
class Walk:
    """One app on its way through its states. `snap` compares what each of its looks should show."""

    app: RltuiApp
    pilot: Pilot[None]
    variant: str

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, what: str | Callable[[], object]) -> None:
        await until(self.app, what)

    async def snap(self, name: str, *, count: str = "", only: Part = None, wide: bool = False) -> None:
        """`count`: what an active filter keeps, which must be in sight. `only`: the part that is kept: rows, or a
        widget. `wide`: its text is kept at 200x60, too; at that size all else is only looked at."""
        app = self.app
        if self.variant == "ansi":
            await check(app, name, "120x40", only)  # signs and words say all that colours say
            await check(app, name, "styles 16", only)
            self.wear(ColorMode.NONE)
            await check(app, name, "120x40", only)
            await check(app, name, "styles none", only)
            assert not any(style.color or style.bgcolor for style in all_styles(app))
            self.wear(ColorMode.ANSI16)
            return
        section = "120x40 ascii" if self.variant == "ascii" else self.variant
        if wide or section != "200x60":
            await check(app, name, section, only)
        await self.until(count)
        await self.until(lambda: not faults(app))
        if self.variant == "ascii":
            assert "".join(text_of(app)).isascii()
        if self.variant == "120x40":
            await check(app, name, "styles dark", only)
            before = background(app)
            self.wear(ColorMode.TRUECOLOR, "light")
            await self.until(lambda: before not in {style.bgcolor for style in all_styles(app)})  # it is everywhere
            await check(app, name, "styles light", only)
            await check(app, name, "120x40", only)
            self.wear(ColorMode.TRUECOLOR)

    def wear(self, color: ColorMode, theme: str = "dark") -> None:
        self.app.terminal = replace(self.app.terminal, color=color)
        self.app.show_look(Look(self.app.themes.load(theme), color, self.variant == "ascii"))


Open = Callable[..., "Opening"]


class Opening:
    """`async with Opening(...) as walk`: the app, opened in the look of a variant."""

    def __init__(self, variant: str, runs: Path, run: Path | None = None, smoke: Asked | None = None) -> None:
        color = ColorMode.ANSI16 if variant == "ansi" else ColorMode.TRUECOLOR
        terminal = Terminal(color=color, ascii=variant == "ascii", dark=True, multiplexer="", ssh=False, fps=2.0)
        themes = ThemeFiles()
        look = Look(themes.load("dark"), color, terminal.ascii)
        self._app = RltuiApp(
            terminal, look, themes, Options(runs, run=str(run) if run else None, quiet=True, smoke=smoke)
        )
        self._variant = variant
        self._test = self._app.run_test(size=SIZES.get(variant, SIZES["120x40"]))

    async def __aenter__(self) -> Walk:
        return Walk(self._app, await self._test.__aenter__(), self._variant)

    async def __aexit__(self, *about: object) -> None:
        await self._test.__aexit__(*about)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with synthetic runs, in a place whose name, clock, host and time zone are fixed."""
    patch = pytest.MonkeyPatch()
    home = tmp_path_factory.mktemp("world")
    patch.setattr(socket, "gethostname", lambda: "box-1")
    patch.setattr(time, "time", lambda: NOW)
    patch.setenv("TZ", "UTC")
    time.tzset()
    patch.setenv("HOME", str(home))  # which is shown as ~
    patch.chdir(home)
    runs = Path("runs")
    runs.mkdir()
    run_in(runs, "anna", episodes=320, turns=2, number=1)
    run_in(runs, "burst", "failed", number=2)
    run_in(runs, "calm", "running", episodes=128, number=3)
    (run_in(runs, "dent", number=4) / "status.json").write_text("{torn")
    run_in(runs, "a-long-name-for-a-run-of-which-nobody-sees-the-end-on-a-small-screen", "resumed", number=5)
    (Path("new") / "empty-rl_0000000000000007").mkdir(parents=True)
    run_in(Path("new"), "drift", "collapsed", episodes=1312, number=8, learner_blocks=False)
    yield home
    patch.undo()
    time.tzset()


@pytest.fixture(params=VARIANTS)
def opening(request: pytest.FixtureRequest, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """`opening(runs, run=…)`: an Opening in each variant."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return lambda runs="runs", run="": Opening(request.param, Path(runs), Path(run) if run else None)


def run(name: str) -> str:
    number = {"anna": 1, "burst": 2, "calm": 3, "young": 6, "drift": 8}[name]
    return f"{'new' if number >= 6 else 'runs'}/{name}-rl_{number:016x}"


async def test_runs(opening: Open) -> None:
    async with opening() as walk:
        await walk.until("5 runs")
        await walk.snap("runs", wide=True)
        await walk.press("/", *"rl_00")
        await walk.snap("runs_filter", count="showing 5 of 5")
        await walk.press("x", "enter")
        await walk.snap("runs_no_match", count="showing 0 of 5")
        await walk.press("escape", "j", "j", "?")
        await walk.until("Help")
        await walk.snap("help", only="Pane")
        await walk.press("escape", ":", *"mon")
        await walk.snap("palette", only="Pane")
        await walk.press("escape", "7")
        await walk.until("No run is open.")
        await walk.snap("doctor_empty")


async def test_runs_none(opening: Open) -> None:
    async with opening("nothing") as walk:
        await walk.until("No runs under")
        await walk.snap("runs_empty", wide=True)


async def test_runs_while_they_are_read(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    scan = RunsFolder.scan

    def slow(folder: RunsFolder) -> Iterator[object]:
        for i, row in enumerate(sorted(scan(folder), key=lambda row: row.name)):
            if i == 3:
                go_on.wait()
            yield row

    monkeypatch.setattr(RunsFolder, "scan", slow)
    monkeypatch.setattr("rltui.watch.TELL_S", -1.0)
    try:
        async with opening() as walk:
            await walk.until("scanned 3 of ")
            await walk.snap("runs_loading")
    finally:
        go_on.set()


async def test_runs_that_cannot_be_listed(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: RunsFolder) -> Iterator[object]:
        raise Unreadable(f"{folder.folder} cannot be read: Permission denied")

    monkeypatch.setattr(RunsFolder, "scan", broken)
    async with opening() as walk:
        await walk.until("cannot be read")
        await walk.snap("runs_error")


async def test_monitor(opening: Open) -> None:
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.until("Job completed" if walk.variant != "80x24" else "18 steps")
        await walk.snap("overview", wide=True)
        await walk.press("R")
        await walk.until("336 episodes")
        await walk.snap("rollouts", wide=True)
        await walk.press("/", *"iteration = 3 bad<")
        await walk.until("column 15")
        await walk.press(*["backspace"] * 5, "enter")
        await walk.snap("rollouts_filter", count="32 of 336")
        await walk.press("enter")
        await walk.until(lambda: walk.app.focused is not None and walk.app.focused.id == "transcript")
        await walk.snap("transcript")
        await walk.press("escape", "L")
        await walk.until("step 20 loss")
        await walk.snap("logs", wide=True)


async def test_doctor(opening: Open) -> None:
    async with opening(run=run("drift")) as walk:
        await walk.press("7")
        await walk.until("zero-variance groups")
        await walk.snap("doctor", wide=True)
        await walk.press("M")
        await walk.until("Mute D01")
        await walk.snap("doctor_mute", only="Pane")


async def test_monitor_of_a_run_that_failed(opening: Open) -> None:
    async with opening(run=run("burst")) as walk:
        await walk.until("FAILED")
        await walk.until("2 steps")
        await walk.snap("overview_failed")


async def test_monitor_of_a_live_run(opening: Open) -> None:
    async with opening(run=run("calm")) as walk:
        await walk.until("RUNNING")
        await walk.until(" steps ")
        await walk.snap("overview_live")
        await walk.press("S")
        await walk.until("Steer calm")
        await walk.snap("steer", only="Pane")
        await walk.press("j", "j", "j", "enter")
        await walk.until("kill it")
        await walk.snap("kill", only="Pane")
        await walk.press("escape", "q")
        await walk.until("goes on without the interface")
        await walk.snap("quit", only="Pane")


async def test_monitor_before_the_first_step(opening: Open) -> None:
    async with opening(run="new/empty-rl_0000000000000007") as walk:
        await walk.until("Waiting for the first step")
        await walk.snap("overview_waiting", wide=True)
        await walk.press("R")
        await walk.until("0 episodes")
        await walk.snap("rollouts_empty")
        await walk.press("L")
        await walk.until("Logs")
        await walk.snap("logs_empty")


async def test_monitor_while_the_run_is_read(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(LocalRunSource, "status", lambda source: go_on.wait())
    try:
        async with opening(run=run("anna")) as walk:
            await walk.until("anna")
            await walk.snap("monitor_loading")
    finally:
        go_on.set()


async def test_monitor_of_a_run_that_cannot_be_read(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalRunSource, "age", lambda source: 34.0)
    async with opening(run="runs/dent-rl_0000000000000004") as walk:
        await walk.until("damaged")
        await walk.snap("monitor_error", only=TOP)


async def test_monitor_of_a_run_that_was_lost(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opening(run=run("calm")) as walk:
        await walk.until("RUNNING")
        await walk.until(" steps ")

        def lost(source: LocalRunSource) -> None:
            raise Unreadable("status.json cannot be read: Stale file handle")

        monkeypatch.setattr(LocalRunSource, "status", lost)
        monkeypatch.setattr(LocalRunSource, "age", lambda source: 34.0)
        await walk.until("stale 34 s")
        await walk.snap("monitor_stale", only=TOP)


async def test_an_episode_whose_text_is_gone(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalRunSource, "episode", lambda source, n: None)
    async with opening(run=run("anna")) as walk:
        await walk.until("step 20/20")
        await walk.press("R")
        await walk.until("336 episodes")
        await walk.snap("transcript_gone")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch, world: Path) -> None:
    """Preflight without what differs from machine to machine and from run to run: sizes, times, names of runs."""
    from rltui.preflight import table
    from rltui.preflight.base import ok

    command = [
        "python",
        "-P",
        "-m",
        "trainer",
        "run",
        "my.toml",
        "--run-dir",
        "runs/a",
        "--job-id",
        "rl_00000000000000ab",
    ]
    monkeypatch.setattr("rltui.launch.local.trainer_argv", lambda job: command)
    monkeypatch.setattr("rltui.cli.start.new_job_id", lambda: "rl_00000000000000ab")
    monkeypatch.setattr("rltui.screens.launch.checklist.took", lambda seconds: "12 ms")
    monkeypatch.setattr("rltui.screens.launch.screen.took", lambda seconds: "2.4 s")
    monkeypatch.setattr("rltui.model.known.free_memory", lambda: 24_000_000_000)
    monkeypatch.setattr("rltui.model.known.free_disk", lambda folder: 66_000_000_000)
    monkeypatch.setattr("trainer.config.derive.cpu_is_fast_at_bf16", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(world / "cache"))
    played = replace(table.CHECKS[-1], run=lambda context: ok("it answers, and played one mock episode: R 1, 1 turn"))
    monkeypatch.setattr("rltui.preflight.table.CHECKS", (*table.CHECKS[:-1], played))


async def test_launch(opening: Open, still: None, tmp_path: Path) -> None:
    from rltui.samples import samples

    Path("ready.toml").write_text(samples()["cpu_smoke"].read_text())
    Path("wrong.toml").write_text(samples()["seed_example"].read_text())
    async with opening() as walk:
        await walk.until("5 runs")
        await walk.press("3")
        await walk.until("No config is chosen")
        await walk.snap("launch_none", wide=True)
        walk.app.launch_config(Path("ready.toml"))
        await walk.until("ready, 2.4 s")
        await walk.snap("launch", wide=True)
        walk.app.launch_config(Path("wrong.toml"))
        await walk.until("failed")
        await walk.press("space")
        await walk.snap("launch_failed", wide=True)
        await walk.press("d")
        await walk.until("would make")
        await walk.snap("launch_dry_run", only="Pane")
        await walk.press("escape")
