"""Exact bytes to the clipboard and of notices, plain and through multiplexers."""

from __future__ import annotations

import base64
import re
import stat
from pathlib import Path

import pytest

from rltui.terminal.capabilities import ColorMode, Terminal
from rltui.terminal.clipboard import LIMIT_BYTES, TooLong, copy, osc52
from rltui.terminal.notify import bell_and_notice


def terminal(multiplexer="") -> Terminal:
    return Terminal(ColorMode.ANSI256, ascii=False, dark=True, multiplexer=multiplexer, ssh=True, fps=1.0)


def test_plain():
    assert osc52("hi\x1b[2J", "") == "\x1b]52;c;aGkbWzJK\x07"
    assert osc52("Grüße", "") == "\x1b]52;c;R3LDvMOfZQ==\x07"
    assert osc52("", "") == "\x1b]52;c;\x07"
    assert osc52("a\udc80", "") == "\x1b]52;c;YT8=\x07"


def test_tmux():
    assert osc52("hi", "tmux") == "\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\"


def test_screen_in_pieces_that_it_takes():
    text = "x" * 1000
    sequence = osc52(text, "screen")
    pieces = re.findall(r"\x1bP(?:[^\x1b]|\x1b(?!\\))*\x1b\\", sequence)
    assert "".join(pieces) == sequence
    assert len(pieces) == 6 and max(map(len, pieces)) == 252
    assert "".join(piece[2:-2] for piece in pieces) == osc52(text, "")
    assert osc52("hi", "screen") == "\x1bP\x1b]52;c;aGk=\x07\x1b\\"


def test_the_limit_is_of_bytes_not_characters():
    longest = osc52("x" * LIMIT_BYTES, "")
    assert isinstance(longest, str) and len(longest) == 100_000
    assert osc52("x" * (LIMIT_BYTES + 1), "") == TooLong(LIMIT_BYTES + 1)
    assert osc52("ü" * (LIMIT_BYTES // 2 + 1), "tmux") == TooLong(LIMIT_BYTES + 2)


def test_copy_says_how_much_and_promises_nothing(tmp_path):
    sent: list[str] = []
    assert copy("hi", terminal(), sent.append, tmp_path) == "copied 2 bytes, if your terminal allows it"
    assert copy("x" * 1234, terminal("screen"), sent.append, tmp_path).startswith("copied 1.2 kB, if")
    assert sent == [osc52("hi", ""), osc52("x" * 1234, "screen")]
    assert not list(tmp_path.iterdir())


def test_copy_in_tmux_goes_both_ways_that_tmux_may_let_through(tmp_path):
    sent: list[str] = []
    copy("hi", terminal("tmux"), sent.append, tmp_path)
    assert "".join(sent) == osc52("hi", "") + osc52("hi", "tmux")


def test_what_is_too_long_is_written_and_its_path_copied(tmp_path):
    sent: list[str] = []
    folder = tmp_path / "state" / "copies"
    text = "ü" * 50_000
    notices = [copy(text, terminal(), sent.append, folder) for _ in range(2)]
    files = sorted(folder.iterdir(), key=str)
    assert len(files) == 2  # the second did not overwrite the first
    for path in files:
        assert path.read_text(encoding="utf-8") == text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    copied = [base64.b64decode(sequence[7:-1]).decode() for sequence in sent]
    assert sorted(copied) == [str(path) for path in files]
    assert all(path in notice and "100.0 kB" in notice for path, notice in zip(copied, notices, strict=True))


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    sent: list[str] = []
    notice = copy("x" * 80_000, terminal(), sent.append, tmp_path / "file" / "copies")
    assert "could not be written" in notice and str(tmp_path / "file") in notice
    assert not sent


@pytest.mark.parametrize(
    ("multiplexer", "sequence"),
    [
        ("", "\x07\x1b]9;rltui: run failed\x07"),
        ("tmux", "\x07\x1bPtmux;\x1b\x1b]9;rltui: run failed\x07\x1b\\"),
        ("screen", "\x07\x1bP\x1b]9;rltui: run failed\x07\x1b\\"),
    ],
)
def test_bell_and_notice(multiplexer, sequence):
    assert bell_and_notice("failed", multiplexer) == sequence
    assert bell_and_notice("finished", multiplexer) == sequence.replace("failed", "finished")


def test_no_part_of_the_terminal_package_needs_the_framework():
    folder = Path(__file__).resolve().parents[2] / "rltui" / "terminal"
    assert not [path for path in folder.glob("*.py") if re.search(r"^\s*(import|from) textual", path.read_text(), re.M)]
