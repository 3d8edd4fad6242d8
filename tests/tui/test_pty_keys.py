"""Keys, colours and copies as other terminals see them: without colour, with 16 of them, inside a multiplexer."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import subprocess

import pytest

from tests.tui.pty_app import RLTUI, ROOT, SIZE, escape
from tests.tui.terminal_session import TerminalSession

SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


# Colours


def walk(session: TerminalSession) -> None:
    """Through every screen and tab of the only run in the list."""
    session.wait_for("alpha")
    session.send("?")
    session.wait_for("Help")
    escape(session)
    session.send("2")
    session.wait_for("single_gpu_lora")
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


def test_a_locale_without_utf8_draws_ascii_alone(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], env={"LANG": "C", "LC_ALL": "C"}, **SIZE)
    walk(session)
    rows = session.screen()
    assert rows.isascii(), [char for char in rows if not char.isascii()]


def test_a_theme_of_ones_own_has_its_colours_on_the_console(terminal, runs, tmp_path):
    """The console has 16 of them: those of `[ansi]` in the file; a file without them is named, with what it lacks."""
    paper = (ROOT / "themes/paper.toml").read_text()
    own, console = tmp_path / "home/config/rltui/themes", {"TERM": "linux", "COLORTERM": None}
    own.mkdir(parents=True)
    mine = paper.replace('name = "paper"', 'name = "mine"').replace('dim = "default"', 'dim = "bright_cyan"')
    (own / "mine.toml").write_text(mine)
    (own / "bare.toml").write_text(mine.partition("[ansi]")[0].replace('name = "mine"', 'name = "bare"'))
    sent = {}
    for theme in ("paper", "mine"):
        session = terminal([*RLTUI, "--runs-dir", runs, "--theme", theme], env=console, **SIZE)
        session.wait_for("alpha")
        session.drain_until_quiet(400)
        sent[theme] = colours(session.raw)
    assert "96" in sent["mine"] - sent["paper"] and not {colour for colour in sent["mine"] if ";" in colour}
    session = terminal([*RLTUI, "--runs-dir", runs, "--theme", "bare"], env=console, **SIZE)
    session.wait()
    assert "bare.toml:1: ansi.good: is missing" in session.screen()


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
        for key, shown in (("?", "Help"), (":", "Palette")):
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


def test_bytes_that_are_no_input_cost_themselves_alone(terminal, runs):
    session = terminal([*RLTUI, "--runs-dir", runs], **SIZE)
    session.wait_for("alpha")
    session.drain_until_quiet()
    # no UTF-8; a key with the kind of its event; a key that is no character; a window without pixels
    for noise in (b"\xff\xfe\xe9x", b"\x1b[97;1:3u", b"\x1b[1114112u", b"\x1b[48;30;100;0;0t\x1b[<0;5;5M"):
        session.write(noise)
        session.drain_until_quiet()
    for _ in range(20):  # one that is read together with the noise is lost with it
        session.send("?")
        with contextlib.suppress(AssertionError):
            session.wait_for("Help", timeout=3)
            break
    escape(session)
    session.send("q")
    assert session.wait(20) == 0
