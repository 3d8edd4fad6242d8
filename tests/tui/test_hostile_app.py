"""A run in which every word is an attack on the terminal, walked through screen by screen in a pseudo-terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.terminal_session import TerminalSession
from trainer.rollout.types import Branch, Span
from trainer.rundir.records import EpisodeRecord, Exclusion, GroupRecord, TurnRecord
from trainer.rundir.writer import RunWriter

RLTUI = [sys.executable, "-m", "rltui"]
COLUMNS, ROWS = 120, 36
ANSWER_S = 10.0  # to a key, on a machine that is busy

# Words in capitals are what a sequence carries: none may be carried to the terminal. The others may be read.
ATTACKS = (
    "\x1b]52;c;Q0xJUEJPQVJE\x07clipboard",
    "\x1b]0;TITLE1\x07\x1b]2;TITLE2\x1b\\title",
    "\x1b]8;;http://LINK\x07link\x1b]8;;\x07",
    "\x1b]9;NOTICE\x07\x1b]777;notify;NOTICE;x\x07bell\x07\x07",
    "\x1bP+q544e\x1b\\\x1b_Gapc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\device",
    "\x1b[2J\x1b[3J\x1b[H\x1b[41m\x1b[10;10Herased",
    "\x1b[?1049l\x1b[?25h\x1b[?7l\x1b[?1000l\x1bc\x1b7\x1b8\x1b(0modes",
    "\x1b[6n\x1b[c\x1b[>c\x1b[?1$p\x1b[21t\x05asked",
    "\x9b31m\x9d52;c;QzE=\x9c\x90q\x9c\x84\x85c1",
    "\u202egnp\u202c\u2066x\u2069\u200e\u061cbidi",
    "Z" + "\u0351\u0352\u0353\u0354\u0355" * 40 + "algo",
    "[bold red]markup[/] [@click=app.quit]x[/] [[ [/]",
    "\x00\x01\x08\x0b\x0c\x0e\x0f\x7f\r\n\tcontrols",
    "\ufeff\u200b\u200d\u2028\u2029\u3164\xad\U000e0041\U000f0000unseen",
    "漢字👩‍👩‍👧❤️🇩🇪wide",
)
EVIL = "".join(ATTACKS)
SECRETS = (b"Q0xJUEJPQVJE", b"QzE=", b"TITLE", b"http://LINK", b"NOTICE")
_SEQUENCE = re.compile(
    rb"\x1b(?:\[(?P<private>[<=>?]?)(?P<numbers>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    rb"|(?P<string>[\]PX^_])(?P<body>.*?)(?:\x07|\x1b\\)|(?P<short>[ -/]*[0-~]))",
    re.DOTALL,
)


def evil(i: int) -> str:
    return f"{i} {ATTACKS[i % len(ATTACKS)]} {EVIL}"


def plain(i: int) -> str:
    return f"{i} plain words"


def write(folder: Path, word: Callable[[int], str], size: int) -> Path:
    """A run that ended, with `word(i)` wherever the format takes a word, and one line of `size` characters."""
    name = word(0).replace("/", "|").replace("\x00", "").encode()[:180].decode(errors="ignore")
    path = folder / f"{name}-rl_{1:016x}"
    with RunWriter(path, job_id="rl_0000000000000001", label=word(1), clock=lambda: 1_750_000_000.0) as writer:
        writer.event("rl.job.created", word(2), step=0, label=word(3))
        writer.event(word(4), word(5), step=0, level=word(6), **{"data": word(7)})
        for step in range(1, 5):
            values = {"reward/mean": step / 4, "entropy": 1 / step, word(8): 1.0, f"judge/{word(9)}": 2.0}
            writer.metrics(values, step=step, iteration=step, epoch=1, weight_version=step)
            members = [episode(writer, step, member, word, size if step == 4 else 100) for member in range(2)]
            writer.group(
                GroupRecord(
                    step=step, iteration=step, group=step, seed=step, split="train", members=members,
                    rewards=[0.0, 1.0], mean=0.5, std=0.5, dead=False,
                )
            )  # fmt: skip
        error = {"code": word(10), "message": word(11), "hint": word(12)}
        reached = {"step": 4, "iteration": 4, "reward": 0.5, "path": word(13)}
        totals = {"steps": 4, "iterations": 4, "epochs": 1, "episodes": 8}
        writer.note(step=4, iteration=4, totals=totals, best=reached, last_checkpoint=reached)
        writer.note(pipeline={"gpus": [{"index": 0, "role": word(0), "util": 0.5}]})
        writer.status(state="failed", phase="done", end_reason="error", error=error)
    status = json.loads((path / "status.json").read_bytes())
    status |= {"host": word(2), "phase": word(3), "warnings": [{"code": word(4), "text": word(5), "t": 1.0}]}
    (path / "status.json").write_text(json.dumps(status))
    logs = path / "logs"
    logs.mkdir(exist_ok=True)
    lines = [f"2025-06-15T15:06:40.000Z WARNING {word(i)}" for i in range(40)]
    (logs / "learner-0.log").write_bytes("\n".join(lines).encode("utf-8", "replace") + b"\xff\xfe\x80\n")
    (logs / "inference-0.log").write_text("x" * size + word(7) + "\r" + word(8) + "\n\x1b[2A\x1b[Kagain\nlast\n")
    (logs / (word(1).replace("/", "|").replace("\x00", "")[:40] + ".log")).write_text(word(2) + "\n")
    return path


def episode(writer: RunWriter, step: int, member: int, word: Callable[[int], str], size: int) -> int:
    call = {"id": word(1), "type": word(2), "function": {"name": word(3), "arguments": word(4)}}
    messages = [
        {"role": "system", "text": word(5)},
        {"role": word(6), "text": word(7) + "w" * size + word(8), "name": word(9)},
        {"role": "assistant", "text": word(10), "reasoning": word(11), "tool_calls": [call]},
        {"role": "tool", "text": word(12), "name": word(13)},
    ]
    turn = TurnRecord(t=0, calls=[0], messages=messages, tools=[{"name": word(0)}], reward=1.0, achievements=word(1),
                      finish_reason=word(2), branch=0, span=[1, 3])  # fmt: skip
    branch = Branch(
        ids=[1, 2, 3], mask=[0, 1, 1], turn=[0, 0, 0], logp=[0.0, -1.0, -1.0],
        spans=[Span(start=1, end=3, weight_version=step)], weight=1.0, first_turn=0, calls=[0], prefix=["first"],
    )  # fmt: skip
    exclusion = Exclusion(code=word(3)[:24], detail={word(4): word(5)}, evidence=word(6)) if member else None
    return writer.episode(
        EpisodeRecord(
            cid=f"c-{step}-{member}", step=step, iteration=step, split="train", seed=step, group=step, member=member,
            R=0.5, O=0.5, stop=word(12)[:30], t=1_750_000_000.0, wall=1.0, branches=[branch], turns=[turn],
            rewards={"O": 0.5, word(7): word(8)}, judge={"text": word(9)}, exclusion=exclusion,
            warnings=[word(10)], app={word(11): word(12)}, sampling={word(0): 1}, extra={word(13): word(14)},
        )
    )  # fmt: skip


def shapes(raw: bytes) -> set[tuple[bytes, ...]]:
    """The kinds of control sequences: all but the numbers of those that move the cursor or paint."""
    found = set()
    for match in _SEQUENCE.finditer(raw):
        if match["final"]:
            numbers = match["numbers"] if match["private"] else b""
            found.add((b"[", match["private"], numbers, match["between"], match["final"]))
        elif match["string"]:
            found.add((match["string"], match["body"].partition(b";")[0][:8]))
        else:
            found.add((match["short"],))
    return found


def is_whole(session: TerminalSession) -> bool:
    """Whether header, key bar and the frame of the panes stand where they belong."""
    screen = session.emulator()
    rows = screen.display
    frame = "".join(screen.buffer[y][COLUMNS - 1].data for y in range(1, ROWS - 1))
    return (
        rows[0].startswith(" rltui │")
        and rows[-1].rstrip().endswith(" help")
        and re.fullmatch("[^╮│╯]*(╮│*╯)+", frame) is not None
        and "TITLE" not in screen.title + screen.icon_name
    )


def walk(session: TerminalSession) -> None:
    """Through everything that shows words of a run. Wherever no dialog is open the screen is whole."""

    def go(*keys: str, until: str | re.Pattern[str], whole: bool = True) -> None:
        session.send(*keys)
        session.wait_for(until if isinstance(until, re.Pattern) else re.compile(until), ANSWER_S)
        if whole:
            session.drain_until_quiet(150)
            session.wait_for(is_whole, ANSWER_S)

    def dialog(key: str, shown: str) -> None:
        go(key, until=shown, whole=False)
        session.send("down", "down")
        session.drain_until_quiet(150)
        session.send("escape")
        session.wait_for(re.compile(r"\A rltui │.*(?s:.*)\? help *\Z"), ANSWER_S)
        session.wait_for(lambda session: shown not in session.screen(), ANSWER_S)

    go(until="1 run")
    go("/", until="words in name")
    go("words", until="showing 1 of 1|No run matches")
    go("escape", until="1 run")
    dialog("?", "Help")
    dialog(":", "Palette")
    go("enter", until="step 4/4")
    session.wait_for(re.compile("[⠁-⣿]"), ANSWER_S)
    go("tab", "tab", "tab", "tab", "end", until="Last events")
    go("tab", "end", until="Now")
    go("S", until="the run has ended")
    go("R", until="8 episodes")
    session.wait_for("Episode 7", ANSWER_S)
    go("down", until="Episode 6")
    go("enter", until="fold")
    for key in ("e", "pagedown", "end", "V", "end", "V", "V", "g", "x", "e"):
        session.send(key)
        session.drain_until_quiet(150)
        session.wait_for(is_whole, ANSWER_S)
    go("/", until="esc cancel")
    go("wwww", until="wwww")
    go("enter", until="n/N match")
    go("escape", until="enter open")
    go("/", until="esc cancel")
    go("iteration > 0 ", until="8 of 8")
    go("enter", until="8 of 8")
    go("escape", until="8 episodes")
    go("L", until="last|words|again|wide")
    for key in ("g", "W", "pagedown", "end", "l", "W", "g"):
        session.send(key)
        session.drain_until_quiet(150)
        session.wait_for(is_whole, ANSWER_S)
    go("/", until="esc cancel")
    go("clip", until="clip")
    go("enter", until="n/N match")
    dialog("f", "Which log")
    dialog(":", "Palette")
    go("1", until="1 run")


def end(session: TerminalSession) -> None:
    session.send("q")
    assert session.wait() == 0


@pytest.fixture
def walked(terminal: Callable[..., TerminalSession], tmp_path: Path) -> Callable[..., bytes]:
    def walked(word: Callable[[int], str], size: int) -> bytes:
        folder = tmp_path / word.__name__
        folder.mkdir()
        write(folder, word, size)
        state = {"XDG_STATE_HOME": str(tmp_path / f"state of {word.__name__}")}  # each run is new to the app
        session = terminal([*RLTUI, "--runs-dir", folder], columns=COLUMNS, rows=ROWS, env=state)
        walk(session)
        end(session)
        return session.raw

    return walked


def test_no_word_of_a_run_becomes_a_command(walked: Callable[..., bytes]) -> None:
    usual, raw = walked(plain, 1000), walked(evil, 10_000_000)
    assert shapes(raw) <= shapes(usual)
    carried = b"".join(match["body"] for match in _SEQUENCE.finditer(raw) if match["string"])
    assert not [secret for secret in SECRETS if secret in carried]
    text = _SEQUENCE.sub(b"", raw).decode()  # nothing is torn either
    assert not re.search(rb"(?<!\x1b\[B)(?<!\x08)\x08", raw)  # ours move the cursor back, after a move down
    forbidden = {char for char in text if not char.isprintable()} - set("\r\n\b")
    assert not forbidden, sorted(map(ascii, forbidden))
    assert "[bold red]markup[/]" in text
    assert not re.search("[\u0300-\u036f]{5}", text)


def test_records_of_strange_shapes_are_words_and_no_end(
    terminal: Callable[..., TerminalSession], tmp_path: Path
) -> None:
    """Numbers where words belong, words where numbers do, lists for objects: whatever JSON can say."""
    path = write(tmp_path / "runs", plain, 1000)
    for name in ("status.json", "events.jsonl", "metrics.jsonl", "rollouts/groups.jsonl"):
        lines = [json.loads(line) for line in (path / name).read_text().splitlines()]
        lines += [twisted(line) for line in lines] if name != "status.json" else []
        lines = [twisted(line, {"state", "step", "schema"}) for line in lines] if name == "status.json" else lines
        (path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    session = terminal([*RLTUI, "--runs-dir", path.parent], columns=COLUMNS, rows=ROWS)
    session.wait_for("1 run")
    session.send("enter")
    for key in ("O", "R", "L", "S", "escape", "?", "escape", "O", "tab", "enter"):
        session.send(key)
        session.drain_until_quiet(300)
    session.send("1")
    session.wait_for("by newest", ANSWER_S)
    end(session)


def twisted(value: Any, kept: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    """The same tree with leaves of other types."""
    if isinstance(value, dict):
        return {key: item if key in kept else twisted(item) for key, item in value.items()}
    if isinstance(value, list):
        return {"list": [twisted(item) for item in value]}
    if isinstance(value, bool) or value is None:
        return [value]
    return {"word": value} if isinstance(value, str) else str(value)
