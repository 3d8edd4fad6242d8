"""Sequences for the terminal behind tmux or screen."""

from __future__ import annotations

from rltui.terminal.capabilities import Multiplexer

SCREEN_PIECE = 252  # bytes of one DCS with its ends; screen drops what is longer than 255


def wrap(sequence: str, multiplexer: Multiplexer) -> str:
    """`sequence` (ASCII) such that the multiplexer hands it on as it is."""
    if multiplexer == "tmux":
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if multiplexer == "screen":
        size = SCREEN_PIECE - 4
        pieces = (sequence[start : start + size] for start in range(0, len(sequence), size))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence
