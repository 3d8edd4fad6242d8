"""The app as a terminal sees it: bytes, colours, what is left behind however it ends, and other terminals around it."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import signal
import stat
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltui.widgets.virtual_list import VirtualList
from tests.tui.app_driver import build, run_in, until
from tests.tui.terminal_session import TerminalSession
from trainer.rundir.synth import SynthConfig, play, write_run

ROOT = Path(__file__).resolve().parents[2]
RLTUI = [sys.executable, "-m", "rltui"]
SIZE = {"columns": 140, "rows": 40}
LEFT_ON = (1049, 1000, 1002, 1003, 1006, 2004, 1004)  # modes that the app turns on: none may stay so
SGR = re.compile(rb"\x1b\[([0-9;:]*)m")
WHOLE = re.compile(r"\A rltui │.*\n.*Overview.*\n step 4/4(?s:.*)╭─ (?s:.*)\? help")  # the overview, nothing zoomed
KEY_BYTES = 1000  # of one move of a cursor
UPDATE_BYTES = 10_000  # of one update of a live overview

# Run in the app's process before it: changes a module as soon as that has been imported.
PLANT = """
import importlib.util, sys
class Plant:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            change(module)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Plant())
"""
# Holds back whoever imports one of these, until a file is there.
HOLD = """
import pathlib, sys, time
class Hold:
    def find_spec(self, name, path=None, target=None):
        while name in {names!r} and not pathlib.Path({gate!r}).exists():
            time.sleep(0.01)
sys.meta_path.insert(0, Hold())
"""


def started_with(folder: Path, program: str) -> dict[str, str]:
    """The environment of a Python that runs `program` first."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def planted(folder: Path, module: str, change: str) -> dict[str, str]:
    """The environment of an rltui in whose `module` the function body `change` was done (indented by four)."""
    return started_with(folder, f"def change(module):\n{change}\n{PLANT.format(module=module)}")


def assert_put_back(session: TerminalSession) -> None:
    on = {mode for mode, is_on in session.private_modes().items() if is_on}
    assert not on & set(LEFT_ON), on
    assert session.private_modes()[25]
    assert session.terminal_modes() == session.modes_before


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


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    run_in(folder, "alpha")
    return folder


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


# Bytes


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


def test_a_move_among_1000_runs_sends_little(terminal, many):
    session = terminal([*RLTUI, "--runs-dir", many], **SIZE)
    session.wait_for("1000 runs")
    session.drain_until_quiet(800)
    assert bytes_of_a_move(session, "down") <= KEY_BYTES
    assert bytes_of_a_move(session, "k", moves=3) <= KEY_BYTES


def test_a_move_among_5000_episodes_sends_little(terminal, long):
    """The list alone: what was said in the episode comes when the cursor rests."""
    session = terminal([*RLTUI, "attach", long], **SIZE)
    session.wait_for("SUCCEEDED")
    session.send("R")
    session.wait_for(re.compile(r"50\d\d episodes"))
    session.drain_until_quiet(800)
    most = 0
    for _ in range(6):
        before = len(session.raw)
        session.send("j")
        session.wait_for(lambda session, before=before: len(session.raw) > before)
        first = session.chunks
        most = max(most, sum(len(data) for _, data in first) - before)
        session.drain_until_quiet(300)
    assert most <= KEY_BYTES


async def test_only_rows_in_sight_are_laid_out(long, tmp_path, monkeypatch):
    """Two for a move of the cursor, a page for a page, wherever in the 5,000 they stand."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    app = build(long.parent, run_dir=long)
    async with app.run_test(size=(140, 40)) as pilot:
        await until(app, "SUCCEEDED")
        await pilot.press("R")
        await until(app, lambda: isinstance(app.focused, VirtualList) and app.focused.line_count > 5000)
        await pilot.pause()
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
    """Ten seconds with no live run on the screen: the list of runs, the overview, episodes and logs."""
    session = terminal([*RLTUI, "--runs-dir", many], **SIZE)
    session.wait_for("1000 runs")
    other = terminal([*RLTUI, "attach", long], **SIZE)
    other.wait_for("SUCCEEDED")
    for key, quiet_ms in (("O", 10_000), ("R", 2000), ("L", 2000)):
        other.send(key)
        other.drain_until_quiet(1500)
        session.drain_until_quiet(100)
        before = len(session.raw), len(other.raw)
        other.drain_until_quiet(quiet_ms)
        assert (len(session.raw), len(other.raw)) == before, f"after {key}: {other.raw[before[1] :][:300]!r}"


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


# What the first paint waits for


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


# Colours


def walk(session: TerminalSession) -> None:
    """Through every screen and tab of the only run in the list."""
    session.wait_for("alpha")
    session.send("?")
    session.wait_for("Help")
    escape(session)
    session.send("2")
    session.wait_for("not built yet")
    session.send("1", "enter")
    session.wait_for("step 4/4")
    session.send("R")
    session.wait_for("80 episodes")
    session.send("enter")
    session.wait_for("Question")
    escape(session)
    session.send("L")
    session.wait_for("step 4 done")
    session.send(":")
    session.wait_for("Palette")
    escape(session)


def escape(session: TerminalSession) -> None:
    """With a pause behind it: together with the next key it would be alt and that key."""
    seen = len(session.raw)
    session.send("escape")
    session.wait_for(lambda session: len(session.raw) > seen)
    session.drain_until_quiet()


def colours(raw: bytes) -> set[str]:
    """The colour parameters of all SGR sequences, such as "31" or "38;5"."""
    found = set()
    for parameters in SGR.findall(raw):
        words = iter(parameters.decode().replace(":", ";").split(";"))
        for word in words:
            number = int(word or 0)
            if number in (38, 48, 58):
                kind = next(words, "")
                found.add(f"{number};{kind}")
                for _ in range({"5": 1, "2": 3}.get(kind, 0)):
                    next(words, None)
            elif 30 <= number <= 49 or 90 <= number <= 107:
                found.add(word)
    return found


def test_no_colour_code_at_all_under_no_color(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], env={"NO_COLOR": "1"}, **SIZE)
    walk(session)
    assert colours(session.raw) == set()
    assert SGR.search(session.raw)  # bold, reverse and the like are there


@pytest.mark.parametrize("term", ["linux", "xterm"])
def test_only_the_16_colours_where_there_are_no_more(terminal, runs, term):
    session = terminal([*RLTUI, "--runs-dir", runs], env={"TERM": term, "COLORTERM": None}, **SIZE)
    walk(session)
    assert not {colour for colour in colours(session.raw) if ";" in colour}
    assert colours(session.raw) - {"39", "49"}
    if term == "linux":
        rows = session.screen()
        assert rows.isascii(), [char for char in rows if not char.isascii()]


# The clipboard


@pytest.mark.parametrize(
    ("env", "wrapped"),
    [
        ({}, b"%s"),
        ({"TMUX": "/nowhere,1,0", "TERM": "tmux-256color"}, b"%s\x1bPtmux;\x1b%s\x1b\\"),
        ({"STY": "1.pts", "TERM": "screen-256color"}, b"\x1bP%s\x1b\\"),
    ],
)
def test_the_bytes_of_a_copy_are_exact(terminal, runs, env, wrapped):
    session = terminal([*RLTUI, "--runs-dir", runs], env=env, **SIZE)
    session.wait_for("alpha")
    session.drain_until_quiet()
    session.send("y")
    session.wait_for("copied")
    plain = b"\x1b]52;c;%s\x07" % base64.b64encode(str(next(runs.iterdir())).encode())
    wanted = wrapped % ((plain,) * wrapped.count(b"%s"))
    assert wanted in session.raw
    assert session.raw.count(b"]52;") == wrapped.count(b"%s")
    assert "if your terminal allows it" in session.screen()


# The end, whatever brings it

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
    "a timer": ("rltui.app", "    module.RltuiApp._theme_saved = lambda self: [][0]", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_terminal_as_it_was_and_a_report(terminal, runs, tmp_path, fault):
    module, change, key = FAULTS[fault]
    session = terminal([*RLTUI, "--runs-dir", runs], env=planted(tmp_path / "plant", module, change), **SIZE)
    session.wait_for("alpha")
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


# Keys


def test_keys_that_come_at_once_are_typed_into_the_prompt(terminal, runs):
    """A slow line hands over several keys in one piece: none may be taken for a command."""
    session = terminal([*RLTUI, "--runs-dir", runs], **SIZE)
    session.wait_for("by newest")
    session.drain_until_quiet()
    session.write(b"/lpo")
    session.wait_for("showing 0 of 1")
    assert "lpo" in session.screen() and "by newest" in session.screen()
    escape(session)
    session.write(b":monitor\r")
    session.wait_for("no run is open")


# Other terminals


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


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_escape_and_copy_inside_tmux(terminal, runs, tmp_path):
    config = tmp_path / "tmux.conf"
    config.write_text(
        "set -g set-clipboard on\nset -g allow-passthrough on\nset -g escape-time 20\nset -g status off\n"
    )
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", str(config)]
    session = terminal([*tmux, "new-session", *RLTUI, "--runs-dir", runs], **SIZE)
    try:
        session.wait_for("alpha")
        for key, shown in (("?", "Help"), (":", "Palette"), ("S", "Steer")):
            session.send(key)
            session.wait_for(shown)
            session.send("escape")
            session.wait_for(lambda session, shown=shown: shown not in session.screen())
            session.send("1")
            session.wait_for("by newest")
        session.send("y")
        session.wait_for("copied")
        name = next(runs.iterdir())
        assert base64.b64encode(str(name).encode()) in session.raw
        session.send("q")
        assert session.wait() == 0
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True)
