"""`rltui` in a terminal of its own: how it opens, ends, and what it sends."""

from __future__ import annotations

import re
import signal
import sys

import pytest

from tests.tui.app_driver import run_in

RLTUI = [sys.executable, "-m", "rltui"]
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-9]|4[0-9]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
ON_THE_WAY = (1049, 1000, 1003, 2004, 1004)  # modes that the app turns on


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    run_in(folder, "alpha")
    return folder


def test_it_opens_on_the_runs_and_q_puts_the_terminal_back(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], columns=100, rows=30)
    session.wait_for("alpha")
    assert session.private_modes()[1049]
    session.send("q")
    assert session.wait() == 0
    assert not any(session.private_modes()[mode] for mode in ON_THE_WAY)
    assert session.private_modes()[25]
    assert session.terminal_modes() == session.modes_before


def test_no_mouse_leaves_the_mouse_to_the_terminal(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs, "--no-mouse"], columns=100, rows=30)
    session.wait_for("alpha")
    assert not {1000, 1002, 1003} & {mode for mode, on in session.private_modes().items() if on}


def test_the_mouse_is_asked_for_again_when_the_focus_comes_back(terminal, runs):
    """Some terminals and multiplexers forget it meanwhile."""
    session = terminal([*RLTUI, "--runs-dir", runs], columns=100, rows=30)
    session.wait_for("alpha")
    session.drain_until_quiet(200)
    before = len(session.raw)
    session.write(b"\x1b[O\x1b[I")  # focus out, focus in
    session.wait_for(lambda session: b"\x1b[?1000h" in session.raw[before:])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_detaches_and_puts_the_terminal_back(terminal, runs, number):
    live = run_in(runs, "live", kind="running", number=2)
    session = terminal([*RLTUI, "attach", live], columns=100, rows=30)
    session.wait_for("RUNNING")
    session.kill(number)
    assert session.wait() == 128 + number
    assert not any(session.private_modes()[mode] for mode in ON_THE_WAY)
    assert session.terminal_modes() == session.modes_before
    assert not list((live / "control").glob("*.json"))


def test_leaving_a_live_run_says_how_to_come_back(terminal, runs):
    live = run_in(runs, "live", kind="running", number=2)
    session = terminal([*RLTUI, "attach", live], columns=100, rows=30)
    session.wait_for("RUNNING")
    session.send("q")
    session.wait_for("goes on without the interface")
    session.send("enter")
    assert session.wait() == 0
    assert b"attach" in session.raw.rpartition(b"\x1b[?1049l")[2]


def test_no_color_sends_none(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], columns=100, rows=30, env={"NO_COLOR": "1"})
    session.wait_for("alpha")
    session.send("j", "2", "1", "enter")
    session.wait_for("step 4/4")
    session.drain_until_quiet()
    assert COLOUR.search(session.raw) is None


def test_what_a_run_says_cannot_reach_the_terminal(terminal, runs):
    hostile = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\x1b]0;title\x07"
    run = next(runs.iterdir())
    (run / "logs").mkdir(exist_ok=True)
    (run / "logs" / "learner-0.log").write_text(f"before {hostile} after\n")
    session = terminal([*RLTUI, "attach", run], columns=100, rows=30)
    session.wait_for("step 4/4")
    session.send("L")
    session.wait_for("after")
    assert b"aGVsbG8=" not in session.raw and b"]0;title" not in session.raw


def test_without_a_terminal_the_options_are_refused_in_words(runs, capsys):
    from rltui.cli.main import main

    assert main(["--runs-dir", str(runs)]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_where_it_cannot_draw_it_says_so(terminal, runs, tmp_path):
    words = " ".join([*RLTUI, "--runs-dir", str(runs)])
    session = terminal(["/bin/sh", "-c", f"{words} 2> {tmp_path / 'errors'}"])
    assert session.wait() == 2
    assert "draws on stderr" in (tmp_path / "errors").read_text() and not session.private_modes()


@pytest.mark.parametrize(("term", "words"), [(None, "TERM is not set"), ("dumb", "TERM=dumb cannot show")])
def test_a_terminal_without_a_name_is_refused_in_words(terminal, runs, term, words):
    session = terminal([*RLTUI, "--runs-dir", runs], env={"TERM": term})
    session.wait_for(words)
    assert session.wait() == 2


@pytest.mark.parametrize(("option", "words"), [("--fps=99", "0.1 to 30"), ("--theme=nope", "there is no theme")])
def test_an_option_that_says_nothing_usable_is_usage(terminal, runs, option, words):
    session = terminal([*RLTUI, "--runs-dir", runs, option])
    assert session.wait() == 2
    assert words in session.screen()
