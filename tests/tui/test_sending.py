"""What is sent of the cells that changed shows exactly them, in few bytes."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pyte
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rltui.screens.sending import pieces, sequences
from tests.tui.pty_app import RLTUI, SIZE
from trainer.rundir.synth import SynthConfig, write_run

CURSOR_BYTES = 1_000  # of a move of the cursor that six charts share
WIDTH, HEIGHT = 30, 8
STYLES = [
    Style.parse(text)
    for text in (
        "",
        "#ff0000 on #101010",
        "bold #00ff00 on #101010",
        "underline #00ff00 on #101010",
        "on #303030",
        "red",
        "reverse blue",
    )
]


def strips(draw: random.Random) -> list[tuple[int, int, Strip]]:
    """Parts of rows, none over another."""
    found = []
    for y in range(HEIGHT):
        x = draw.randrange(4)
        while x < WIDTH - 8:
            parts = [
                (draw.choice(["  ", "ab", "\u2502 ", "\u4f60"]), draw.choice(STYLES)) for _ in range(draw.randint(1, 4))
            ]
            strip = Strip([Segment(text, style) for text, style in parts])
            found.append((y, x, strip))
            x += strip.cell_length + draw.randint(0, 5)
    return draw.sample(found, len(found) // 2)


def screen_after(text: str) -> pyte.Screen:
    screen = pyte.Screen(WIDTH, HEIGHT)
    pyte.Stream(screen).feed(text)
    return screen


def seen(screen: pyte.Screen) -> list[list[tuple[object, ...]]]:
    """What a person sees of each cell: of a blank its colour is nothing."""
    return [
        [
            (
                c.data,
                c.bg,
                c.underscore,
                c.reverse,
                *((c.fg, c.bold) if c.data.strip() or c.reverse or c.underscore else ()),
            )
            for c in (screen.buffer[y][x] for x in range(WIDTH))
        ]
        for y in range(HEIGHT)
    ]


def test_it_looks_as_if_each_part_had_been_sent_for_itself() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        parts = sorted(strips(draw), key=lambda part: part[:2])
        plain = ""
        for y, x, strip in parts:
            plain += f"\x1b[{y + 1};{x + 1}H"
            for text, style, _ in strip:
                plain += Strip.render_style(style, text, ColorSystem.TRUECOLOR)
        found = [piece for part in parts for piece in pieces(*part, ColorSystem.TRUECOLOR)]
        sent = sequences(found, WIDTH)
        assert seen(screen_after(sent)) == seen(screen_after(plain)), seed
        assert len(sent) <= len(plain) and screen_after(sent).cursor.attrs.fg == "default"


def test_a_move_of_the_cursor_over_six_charts_sends_little(terminal, tmp_path: Path) -> None:
    run = write_run(tmp_path / "six-rl_0000000000000001", SynthConfig(episodes=3_200, learner_blocks=False))
    session = terminal([*RLTUI, "attach", run], **SIZE)
    session.wait_for("SUCCEEDED")
    session.send("M")
    session.wait_for("charts 1-6 of")
    session.drain_until_quiet(1_000)
    session.send("enter")
    session.drain_until_quiet(500)
    session.send("left")
    session.drain_until_quiet(500)
    counts = []
    for _ in range(8):
        before = len(session.raw)
        session.send("left")
        session.wait_for(lambda session, before=before: len(session.raw) > before)
        session.drain_until_quiet(300)
        counts.append(len(session.raw) - before)
    assert statistics.median(counts) <= CURSOR_BYTES, counts
