"""A log into which 50,000 lines a second pour: keys are answered meanwhile, and every line is counted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rltui.model.log_store import MAX_LINES
from tests.tui.app_driver import run_in
from tests.tui.pty_app import RLTUI, SIZE, escape

LINES, RATE, PIECE = 500_000, 50_000, 1_000  # ten seconds
# At that rate, or as fast as the machine can; then a last line.
FLOOD = """
import sys, time
path, lines, rate, piece = sys.argv[1], *map(int, sys.argv[2:])
with open(path, "a") as log:
    begun = time.monotonic()
    for at in range(0, lines, piece):
        log.write("".join(f"2026-01-01T10:00:00Z INFO trainer.flood: line {at + n}\\n" for n in range(piece)))
        log.flush()
        time.sleep(max(0.0, begun + (at + piece) / rate - time.monotonic()))
    log.write("2026-01-01T10:00:09Z INFO trainer.flood: the flood is over\\n")
"""


def numbers(text: str, words: str) -> int:
    found = re.search(words.replace("N", r"(\d[\d ]*)"), text)
    assert found is not None, f"no {words!r} in\n{text}"
    return int(found[1].replace(" ", ""))


@pytest.mark.slow
def test_keys_are_answered_while_lines_pour_in_and_every_line_is_counted(terminal, tmp_path: Path):
    run = run_in(tmp_path / "runs", "alpha", "running")
    log = run / "logs" / "coordinator.log"
    session = terminal([*RLTUI, "attach", run], **SIZE)
    session.wait_for("step 4/4")
    session.send("L")
    session.wait_for("following")
    session.drain_until_quiet(400)
    session.send("g")
    session.wait_for("line 1 of")
    before = numbers(session.screen(), "line 1 of N")
    session.send("G")
    session.wait_for("following")
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, log, *map(str, (LINES, RATE, PIECE))])
    try:
        session.wait_for("trainer.flood")
        answered = 0
        while flood.poll() is None:
            session.send("O")
            session.wait_for("Health", timeout=10)
            session.send("L")
            session.wait_for("trainer.flood", timeout=10)
            session.send("?")
            session.wait_for("Help", timeout=10)
            escape(session)
            session.send("k")  # lets go of the end
            session.wait_for(lambda session: "following" not in session.screen(), timeout=10)
            session.send("G")
            session.wait_for("following", timeout=10)
            answered += 1
    finally:
        flood.kill()
        flood.wait()
    assert answered
    session.wait_for("the flood is over", timeout=60)
    session.drain_until_quiet(400)
    session.send("g")
    session.wait_for("line 1 of")
    text = session.screen()
    kept, cut = numbers(text, "line 1 of N"), numbers(text, "N older lines are cut")
    assert kept <= MAX_LINES and kept + cut == before + LINES + 1
