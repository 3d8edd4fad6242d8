"""The pty harness, against small programs and a small Textual app: what it says of them is true."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.tui.terminal_session import TerminalSession, environment

HERE = Path(__file__).parent
BARE = HERE.parent / "bench" / "bare_app.py"
LIST = HERE / "line_list.py"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


RAW = "import os, sys, tty, termios; was = termios.tcgetattr(0); tty.setraw(0)\n"


def test_screen_holds_what_the_escapes_paint(terminal):
    session = terminal(python(r"print('\x1b[2J\x1b[3;5H\x1b[1;31mré\x1b[0m\x1b[1;1Htop', end='')"), columns=20, rows=4)
    assert session.wait() == 0
    assert session.screen() == "top\n\n    ré\n"
    cell = session.emulator().buffer[2][4]
    assert (cell.data, cell.fg, cell.bold) == ("r", "red", True)


def test_sequences_that_pyte_does_not_know_paint_nothing_even_in_pieces(terminal):
    pieces = [b"a\x1b", b"[<", b"u\x1b[>1", b"ub\x1bPtmux;\x1b\x1b]52;c;eA==", b"\x07\x1b", b"\\c"]
    session = terminal(python(RAW + f"for piece in {pieces!r}: os.write(1, piece); os.read(0, 1)"))
    so_far = b""
    for piece in pieces:
        so_far += piece
        session.wait_for(lambda session, so_far=so_far: session.raw == so_far)
        session.screen()  # the emulator gets it piece by piece
        session.send("x")
    session.wait()
    assert session.screen().strip() == "abc"


def test_size_is_there_from_the_start_and_changes_with_sigwinch(terminal):
    program = (
        "import os, signal\n"
        "show = lambda *_: print('size', *os.get_terminal_size(), flush=True)\n"
        "signal.signal(signal.SIGWINCH, show); show()\n"
        "while True: signal.pause()"
    )
    session = terminal(python(program), columns=77, rows=11)
    session.wait_for("size 77 11")
    session.resize(100, 30)
    session.wait_for("size 100 30")
    assert len(session.screen().splitlines()) <= 30 and session.emulator().columns == 100


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\"),
        (b"\x1b]11;?\x07", b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\"),
        (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
        (b"\x1b[?2048$p", b"\x1b[?2048;0$y"),
        (b"\x1b[c", b"\x1b[?62;22c"),
    ],
)
def test_questions_are_answered_as_a_terminal_does(terminal, question, answer):
    program = RAW + (
        f"os.write(1, {question[:2]!r}); os.write(1, {question[2:]!r}); got = b''\n"
        f"while len(got) < {len(answer)}: got += os.read(0, 1)\n"
        "termios.tcsetattr(0, 0, was); print(got)"
    )
    session = terminal(python(program), background="ffff/ffff/ffff")
    assert session.wait() == 0
    assert repr(answer) in session.screen()


def test_a_terminal_may_answer_nothing(terminal):
    program = RAW + (
        "sys.stdout.write('\\x1b]11;?\\x07\\x1b[c'); sys.stdout.flush()\n"
        "print('ready', flush=True); got = sys.stdin.read(1); print('got', got)"
    )
    session = terminal(python(program), answers=False)
    session.wait_for("ready")
    session.send("k")
    session.wait()
    assert "got k" in session.screen()


def test_end_status_signal_and_modes(terminal):
    session = terminal(python(RAW + "termios.tcsetattr(0, 0, was); sys.exit(7)"))
    assert session.wait() == 7 and session.terminal_modes() == session.modes_before
    left_raw = terminal(python(RAW + "print('\\x1b[?1049h\\x1b[?25l\\x1b[?1000;1006h\\x1b[?25h')"))
    assert left_raw.wait() == 0 and left_raw.terminal_modes() != left_raw.modes_before
    assert left_raw.private_modes() == {1049: True, 25: True, 1000: True, 1006: True}
    waits = terminal(python("print('up', flush=True); import signal; signal.pause()"))
    waits.wait_for("up")
    waits.kill(signal.SIGTERM)
    assert waits.wait() == -signal.SIGTERM


def test_hang_up_reaches_the_program(terminal, tmp_path):
    program = (
        "import signal, sys\n"
        "def gone(*_):\n    open('gone', 'w').close(); sys.exit(3)\n"
        "signal.signal(signal.SIGHUP, gone); print('up', flush=True)\n"
        "while True: signal.pause()"
    )
    session = terminal(python(program))
    session.wait_for("up")
    session.hang_up()
    assert session.wait() == 3 and (tmp_path / "gone").exists()


def test_what_never_comes_is_an_error_with_the_screen_in_it(terminal):
    session = terminal(python("print('something else')"))
    with pytest.raises(AssertionError, match=r"the program ended without 'this'(?s:.*)something else"):
        session.wait_for("this")


def test_a_whole_flood_arrives(terminal):
    session = terminal(python("for n in range(20000): print(n)"))
    assert session.wait() == 0
    assert session.raw.endswith(b"19998\r\n19999\r\n") and "19999" in session.screen()


def test_a_textual_app_is_seen_driven_and_left(terminal):
    session = terminal([sys.executable, LIST, "--runs-dir", HERE], columns=140, rows=40)
    session.wait_for("conftest.py")
    session.drain_until_quiet()
    assert session.private_modes()[1049] and session.terminal_modes() != session.modes_before
    assert session.started < session.first_text() <= session.chunks[-1][0]
    press = session.press("down")
    assert press.ms is not None and 0 < press.bytes < 2000
    assert session.rss_mb() > 10 and session.cpu_s() > 0
    session.resize(60, 20)
    session.wait_for(lambda session: session.raw.count(b"__init__.py") > 1)
    session.send("q")
    assert session.wait() == 0
    assert session.terminal_modes() == session.modes_before
    assert not any(on for mode, on in session.private_modes().items() if mode not in (7, 25))


def test_the_environment_is_that_of_a_plain_colour_terminal(monkeypatch):
    for name in ("NO_COLOR", "TMUX", "SSH_TTY", "COLUMNS", "RLTUI__LOGGING__RUNS_DIR"):
        monkeypatch.setenv(name, "1")
    env = environment({"HOME": None, "TERM": "linux"})
    assert not env.keys() & {"NO_COLOR", "TMUX", "SSH_TTY", "COLUMNS", "RLTUI__LOGGING__RUNS_DIR", "HOME"}
    assert (env["TERM"], env["COLORTERM"]) == ("linux", "truecolor")


def test_leaving_ends_the_program():
    with TerminalSession(python("import signal; signal.pause()")) as session:
        pass
    assert session.process.returncode == -signal.SIGKILL
    session.close()
