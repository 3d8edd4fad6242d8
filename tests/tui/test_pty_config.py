"""The config editor in a pseudo-terminal: what does not depend on the machine. Times: tests/bench/config_pty.py."""

from __future__ import annotations

from pathlib import Path

from rltui.samples import samples
from tests.tui.pty_app import RLTUI, SIZE, escape

MOST_BYTES = 1_000  # of a move of the cursor, the line that follows it included


def opened(terminal, tmp_path: Path):
    (tmp_path / "my.toml").write_text(samples()["seed_example"].read_text().replace("your-", "some-"))
    session = terminal([*RLTUI, "config", "edit", "my.toml"], **SIZE)
    session.wait_for("no problems")
    session.drain_until_quiet(400)
    return session


def test_a_key_sends_little_and_nobody_nothing(terminal, tmp_path):
    session = opened(terminal, tmp_path)
    while "num_epochs" not in session.screen():
        before = len(session.raw)
        session.send("]")
        session.wait_for(lambda session, before=before: len(session.raw) > before)
        session.drain_until_quiet(300)
    for key in ("down", "down", "up"):
        press = session.press(key, timeout=60)
        assert press.ms is not None and press.bytes <= MOST_BYTES, (key, press.bytes)
        session.drain_until_quiet(400)
    session.send("enter")
    session.wait_for("enter accept")
    session.drain_until_quiet(400)
    press = session.press("1", timeout=60)
    assert press.bytes <= MOST_BYTES
    escape(session)
    session.drain_until_quiet(3000, timeout=120)


def test_the_person_s_own_editor_has_the_terminal_and_the_app_comes_back(terminal, tmp_path):
    script = tmp_path / "ed"
    script.write_text('#!/bin/sh\necho "EDITING $1"\nread answer\nsed -i "s/^seeds = .*/seeds = [7]/" "$2"\n')
    script.chmod(0o755)
    (tmp_path / "my.toml").write_text(samples()["seed_example"].read_text().replace("your-", "some-"))
    session = terminal([*RLTUI, "config", "edit", "my.toml"], env={"VISUAL": str(script)}, **SIZE)
    session.wait_for("no problems")
    session.send("e")
    session.wait_for("EDITING +")
    session.write(b"done\n")
    session.wait_for("unsaved")
    session.wait_for("no problems")
    assert "seeds = [7]" not in (tmp_path / "my.toml").read_text()
    session.send("s")
    session.wait_for("+seeds = [7]")
    session.send("enter")
    session.wait_for("saved my.toml")
    assert "seeds = [7]" in (tmp_path / "my.toml").read_text()
    session.send("q")
    session.wait()


def test_a_dropped_line_leaves_a_draft(terminal, tmp_path):
    session = opened(terminal, tmp_path)
    session.send("/")
    session.drain_until_quiet()
    session.write(b"training.seed\r")
    session.wait_for("find: training.seed")
    session.drain_until_quiet(300)
    session.send("enter")
    session.wait_for("enter accept")
    session.write(b"7\r")
    session.wait_for("unsaved")
    session.hang_up()
    session.wait()
    again = terminal([*RLTUI, "config", "edit", "my.toml"], **SIZE)
    again.wait_for("were not saved")
