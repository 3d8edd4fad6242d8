"""What the app leaves behind however it ends: modes of the terminal, reports, and the run itself. Sizes, too."""

from __future__ import annotations

import json
import random
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.pty_app import RLTUI, ROOT, SIZE, assert_put_back, escape, planted
from tests.tui.terminal_session import TerminalSession

WHOLE = re.compile(r"\A rltui │.*\n.*Overview.*\n step 4/4(?s:.*)╭─ (?s:.*)\? help")  # the overview, nothing zoomed


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A run whose process goes on by itself, until the test is over."""
    path = tmp_path / "live" / "live-rl_0000000000000009"
    path.parent.mkdir()
    command = [sys.executable, "-m", "trainer.rundir.synth", path, "--episodes", "64", "--live", "4"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == str(path)
        yield path
        assert process.poll() is None, "the run has ended"
        process.terminate()


FAULTS = {
    "an action": ("rltui.app", "    module.RltuiApp.action_help = lambda self: 1 / 0", "?"),
    "a render": (
        "rltui.screens.help",
        "    def line(self, y, width): raise RuntimeError('pl\\x1b[2Janted')\n    module._Text.line = line",
        "?",
    ),
    "a message": (
        "rltui.screens.runs",
        "    def action(self): raise KeyError('planted')\n    module.RunsScreen.action_sort = action",
        "o",
    ),
    "a timer": (
        "rltui.app",
        "    import pathlib\n    module.RltuiApp._theme_saved = lambda self: pathlib.Path(GATE).exists() and [][0]",
        "",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_terminal_as_it_was_and_a_report(terminal, runs, tmp_path, fault):
    module, change, key = FAULTS[fault]
    gate = tmp_path / "gate"
    change = change.replace("GATE", repr(str(gate)))
    session = terminal([*RLTUI, "--runs-dir", runs], env=planted(tmp_path / "plant", module, change), **SIZE)
    session.wait_for("alpha")
    gate.touch()
    session.send(key)
    assert session.wait() == 3
    assert_put_back(session)
    assert b"Traceback" not in session.raw
    after = session.raw.rpartition(b"\x1b[?1049l")[2]
    said = re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]", b"", after).decode()
    assert "stopped because of an error of its own" in said and "`rltui`" in said
    path = Path(re.search(r"A report is in (\S+?)\.\s", said)[1])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    report = path.read_text()
    assert "Traceback" in report and "textual" in report and "140 x 40" in report
    assert "\x1b" not in report


def test_a_reader_that_fails_is_a_line_and_not_an_end(terminal, runs, tmp_path):
    change = "    def status(self): raise ZeroDivisionError('planted')\n    module.LocalRunSource.status = status"
    env = planted(tmp_path / "plant", "rltui.sources.local", change)
    session = terminal([*RLTUI, "attach", next(runs.iterdir())], env=env, **SIZE)
    session.wait_for("planted")
    session.send("?")
    session.wait_for("Help")
    escape(session)
    session.send("q")
    session.wait_for(lambda session: session.process.poll() is not None or "Leave" in session.screen())
    if session.process.poll() is None:
        session.send("enter")
    assert session.wait() == 0
    assert_put_back(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_under_a_dialog_puts_everything_back(terminal, live, number):
    session = terminal([*RLTUI, "attach", live], **SIZE)
    session.wait_for("RUNNING")
    session.send(":", *"mon")
    session.wait_for("monitor")
    session.kill(number)
    assert session.wait() == 128 + number
    assert_put_back(session)
    assert not list((live / "control").glob("*.json"))


def test_a_signal_ends_even_an_app_that_hangs(terminal, runs, tmp_path):
    change = "    import time\n    module.RltuiApp.action_help = lambda self: time.sleep(600)"
    session = terminal([*RLTUI, "--runs-dir", runs], env=planted(tmp_path / "plant", "rltui.app", change), **SIZE)
    session.wait_for("alpha")
    session.send("?")
    session.drain_until_quiet()
    session.kill(signal.SIGTERM)
    assert session.wait() == 128 + signal.SIGTERM
    assert_put_back(session)


def test_a_link_that_drops_ends_the_app_and_not_the_run(terminal, live):
    session = terminal([*RLTUI, "attach", live], **SIZE)
    session.wait_for("RUNNING")
    session.hang_up()
    assert session.wait() == 128 + signal.SIGHUP
    assert_goes_on(live)


def test_leaving_lets_the_run_go_on(terminal, live):
    session = terminal([*RLTUI, "attach", live], **SIZE)
    session.wait_for("RUNNING")
    session.send("q")
    session.wait_for("goes on without the interface")
    session.send("enter")
    assert session.wait() == 0
    assert_put_back(session)
    assert_goes_on(live)
    again = terminal([*RLTUI, "attach", live], **SIZE)
    again.wait_for("RUNNING")


def assert_goes_on(run: Path) -> None:
    """Its beat moves, and nobody asked it for anything."""
    beat = json.loads((run / "status.json").read_bytes())["beat"]
    with TerminalSession([sys.executable, "-c", "import time; time.sleep(60)"]) as waits:
        waits.wait_for(lambda _: json.loads((run / "status.json").read_bytes())["beat"] > beat)
    assert json.loads((run / "status.json").read_bytes())["state"] == "running"
    assert not list((run / "control").glob("*.json"))


@pytest.mark.slow
def test_a_storm_of_sizes_ends_in_the_last_one(terminal, runs):
    session = terminal([*RLTUI, "attach", next(runs.iterdir())], **SIZE)
    session.wait_for("step 4/4")
    sizes = random.Random(7)
    for _ in range(60):
        session.resize(sizes.randint(1, 220), sizes.randint(1, 70))
        if sizes.random() < 0.3:
            session.send(sizes.choice(["tab", "j", "z"]))
    session.resize(100, 30)
    session.drain_until_quiet(300)
    session.send("0")  # whatever was zoomed
    session.wait_for(WHOLE)
    session.resize(59, 17)
    session.wait_for("60x18 needed, here 59x17")
    session.resize(100, 30)
    session.wait_for(WHOLE)
    session.drain_until_quiet(300)
    fresh = terminal([*RLTUI, "attach", next(runs.iterdir())], columns=100, rows=30)
    fresh.wait_for(WHOLE)
    fresh.drain_until_quiet(300)
    assert session.screen().splitlines()[:3] == fresh.screen().splitlines()[:3]
    assert all(len(row) <= 100 for row in session.screen().splitlines())
    session.send("q")
    assert session.wait() == 0


def test_too_small_says_so_and_q_still_leaves(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], columns=40, rows=10)
    session.wait_for("60x18 needed")
    assert "alpha" not in session.screen()
    session.send("q")
    assert session.wait() == 0
    assert_put_back(session)
