"""What the app sends: little for a key, little for an update, nothing while nothing happens."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, run_in, until
from tests.tui.pty_app import HOLD, RLTUI, SIZE, planted, started_with
from tests.tui.quiet import at_rest
from tests.tui.terminal_session import TerminalSession
from trainer.rundir.synth import SynthConfig, play, write_run

KEY_BYTES = 1000  # of one move of a cursor
UPDATE_BYTES = 10_000  # of one update of a live overview
NO_REST = "    module.PAUSE_S = 3600.0"  # what comes when the cursor rests does not come


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 runs, of which most have only their status."""
    folder = tmp_path_factory.mktemp("many")
    first = run_in(folder, "run")
    status = json.loads((first / "status.json").read_bytes())
    for number in range(2, 1001):
        path = folder / f"run-rl_{number:016x}"
        path.mkdir()
        (path / "status.json").write_text(json.dumps(status | {"job_id": f"rl_{number:016x}", "step": number}))
    return folder


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with 5,000 episodes."""
    path = tmp_path_factory.mktemp("long") / "long-rl_0000000000000001"
    return write_run(path, SynthConfig(episodes=5000, eval_every=10_000, checkpoint_every=10_000, learner_blocks=False))


def bytes_of_a_move(session: TerminalSession, key: str, *, moves: int = 6) -> int:
    """The most bytes that one of some presses of a key brought."""
    most = 0
    for _ in range(moves):
        before = len(session.raw)
        session.send(key)
        session.wait_for(lambda session, before=before: len(session.raw) > before)
        session.drain_until_quiet(100)
        most = max(most, len(session.raw) - before)
    return most


def test_a_move_among_1000_runs_sends_little(terminal, many, tmp_path):
    """The list alone: the strip below follows when the cursor rests."""
    env = planted(tmp_path / "plant", "rltui.screens.runs", NO_REST)
    session = terminal([*RLTUI, "--runs-dir", many], env=env, **SIZE)
    session.wait_for("1000 runs")
    session.drain_until_quiet(800)
    assert bytes_of_a_move(session, "down") <= KEY_BYTES
    assert bytes_of_a_move(session, "k", moves=3) <= KEY_BYTES


def test_a_move_among_5000_episodes_sends_little(terminal, long, tmp_path):
    """The list alone: what was said in the episode comes when the cursor rests."""
    env = planted(tmp_path / "plant", "rltui.screens.monitor.rollouts", NO_REST)
    session = terminal([*RLTUI, "attach", long], env=env, **SIZE)
    session.wait_for("SUCCEEDED")
    session.send("R")
    session.wait_for(re.compile(r"50\d\d episodes"))
    session.wait_for(re.compile(r"█ +\d"))  # the rewards are counted last
    session.drain_until_quiet(800)
    assert bytes_of_a_move(session, "j") <= KEY_BYTES  # the first one too


async def test_only_rows_in_sight_are_laid_out(long, tmp_path, monkeypatch):
    """Two for a move of the cursor, a page for a page, wherever in the 5,000 they stand."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    app = build(long.parent, run_dir=long)
    async with app.run_test(size=(140, 40)) as pilot:
        await until(app, "SUCCEEDED")
        await pilot.press("R")
        await until(app, lambda: isinstance(app.focused, VirtualList) and app.focused.line_count > 5000)
        await until(app, "█")  # the rewards are counted last
        await at_rest(app, pilot)
        laid: list[int] = []
        line = VirtualList.line
        monkeypatch.setattr(VirtualList, "line", lambda self, y, width: laid.append(y) or line(self, y, width))
        for key, most in (("j", 2), ("pagedown", 40), ("G", 40), ("k", 2), ("pageup", 40)):
            laid.clear()
            await pilot.press(key)
            await until(app, lambda: laid)
            await pilot.pause()
            assert len(set(laid)) <= most, (key, laid)


def test_nothing_is_sent_while_nothing_happens(terminal, many, long):
    """With no live run on the screen: the list of runs, the overview, episodes and logs."""
    session = terminal([*RLTUI, "--runs-dir", many], **SIZE)
    session.wait_for("1000 runs")
    other = terminal([*RLTUI, "attach", long], **SIZE)
    other.wait_for("SUCCEEDED")
    for key, quiet_ms in (("O", 10_000), ("R", 2000), ("L", 2000)):
        other.send(key)
        other.drain_until_quiet(quiet_ms, timeout=120)  # what it does at its own pace may come late on a busy machine
        session.drain_until_quiet(quiet_ms, timeout=120)


def test_an_update_of_a_live_overview_sends_little(terminal, tmp_path):
    run = tmp_path / "grows-rl_0000000000000001"
    iterations = play(run, SynthConfig(kind="running", episodes=32 * 200, learner_blocks=False))
    for _ in range(40):
        next(iterations)
    session = terminal([*RLTUI, "attach", run], **SIZE)
    session.wait_for("step 80/400")
    session.wait_for(re.compile(r"[⠁-⣿]"))
    session.drain_until_quiet(400)
    found = []
    for step in range(82, 98, 2):
        before = len(session.raw)
        next(iterations)
        session.wait_for(f"step {step}/400")
        session.drain_until_quiet(400)
        found.append(len(session.raw) - before)
    # One update in some makes room on the x-axis and draws the charts anew.
    assert statistics.median(found) <= UPDATE_BYTES, found


def test_heavy_imports_come_after_the_first_paint(terminal, runs, tmp_path):
    gate = tmp_path / "gate"
    heavy = ("numpy", "pydantic", "tomlkit", "httpx", "msgspec")
    env = started_with(tmp_path / "hold", HOLD.format(names=heavy, gate=str(gate)))
    for command in ([*RLTUI, "--runs-dir", runs], [*RLTUI, "attach", next(runs.iterdir())]):
        gate.unlink(missing_ok=True)
        session = terminal(command, env=env, **SIZE)
        session.wait_for(re.compile(r"rltui.*1 Runs(?s:.*)\? help"))
        gate.touch()
        session.wait_for("alpha")
        session.wait_for(re.compile("4/4"))
