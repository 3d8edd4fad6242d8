"""The report of a crash: what is in it, and what must never be."""

from __future__ import annotations

import stat

import pytest

from rltui.places import state_folder
from rltui.terminal.capabilities import ColorMode, Terminal
from rltui.terminal.crash import Recorder, installed_versions, message_lines, report, write_report

TERMINAL = Terminal(ColorMode.ANSI256, ascii=False, dark=True, multiplexer="tmux", ssh=True, fps=1.0)
KEY = "sk-" + "a1" * 20
OWN = "correct-horse-battery"


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def text(error: BaseException, recorder: Recorder | None = None, env: dict[str, str] | None = None) -> str:
    return report(error, recorder or Recorder(), TERMINAL, {"rltui": "0.1"}, (140, 40), env or {})


def test_the_report_says_what_happened_where_and_what_was_done():
    recorder = Recorder(clock=lambda: 0.25)
    recorder.add("screen", "monitor")
    recorder.key("ctrl+p")
    found = text(raised("no such row"), recorder, {"TERM": "tmux-256color"})
    assert "ValueError: no such row" in found
    assert "in raised" in found and "    raise ValueError(message)" in found
    assert "rltui 0.1" in found and "140 x 40" in found
    assert "multiplexer tmux" in found and "term tmux-256color" in found
    events = found.partition("Last 2 events\n")[2].splitlines()
    assert events == ["1970-01-01T00:00:00.250Z screen   monitor", "1970-01-01T00:00:00.250Z key      ctrl+p"]


def test_no_secret_is_in_it():
    recorder = Recorder()
    recorder.add("action", f"set judge.options.api_key={KEY}")
    recorder.add("action", "x" * 180 + " " + KEY)  # begins before the cut and ends after it
    recorder.add("action", f"opened {OWN}")
    env = {"JUDGE_API_KEY": OWN, "TERM": OWN}
    error = raised(f"refused: {KEY} {OWN} https://me:hunter22@host/")
    for found in (text(error, recorder, env), "\n".join(message_lines(error, None, env))):
        for secret in (KEY[:5], OWN, "hunter22"):
            assert secret not in found
    assert "***" in text(error, recorder, env)


def test_what_is_typed_into_a_field_is_counted_only():
    recorder = Recorder()
    for name in "pass":
        recorder.key(name, typing=True)
    recorder.key("enter")
    recorder.key("w", typing=True)
    assert [line.split(maxsplit=1)[1] for line in recorder.lines()] == [
        "typed    4 characters",
        "key      enter",
        "typed    1 character",
    ]


def test_bounded_in_events_lines_and_characters():
    recorder = Recorder()
    for number in range(1000):
        recorder.add("metric", f"{number} " + "x" * 100_000)
    found = text(raised("y" * 2_000_000), recorder)
    assert "Last 200 events" in found and " 800 x" in found and " 799 x" not in found
    assert len(found) < 120_000
    many = text(raised("\n".join(f"row {number}" for number in range(5000))))
    assert "row 4999" in many and "lines left out" in many and len(many.splitlines()) < 450


def test_hostile_text_is_data():
    recorder = Recorder()
    recorder.add("run", "\x1b]52;c;aGk=\x07name\u202e")
    error = raised("\x1b[2Jboo\x07\nsecond")
    for found in (text(error, recorder), "\n".join(message_lines(error, None))):
        assert not set("\x1b\x07\u202e") & set(found)
    assert len(message_lines(error, None)) == 2 and "\n" not in "".join(message_lines(error, None))


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_speak():
    assert "Mute" in message_lines(Mute(), None)[0]
    assert "Mute" in text(Mute())


def test_the_file_is_private_and_each_crash_has_its_own(tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    paths = [write_report(raised("boo"), Recorder(), TERMINAL, {}, (80, 24), env) for _ in range(2)]
    assert len(set(paths)) == 2
    for path in paths:
        assert path.parent == tmp_path / "rltui" / "crash"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "ValueError: boo" in path.read_text(encoding="utf-8")
    lines = message_lines(raised("boo"), paths[0], env)
    assert "ValueError: boo" in lines[0] and str(paths[0]) in lines[1] and "Runs go on" in lines[1]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "rltui").write_text("a file")
    with pytest.raises(OSError):
        write_report(raised("boo"), Recorder(), TERMINAL, {}, (80, 24), {"XDG_STATE_HOME": str(tmp_path)})
    assert "No report could be written" in message_lines(raised("boo"), None)[1]


def test_versions_and_folder():
    assert {"python", "textual"} <= set(installed_versions())
    assert state_folder({"XDG_STATE_HOME": "relative"}) == state_folder({})
