"""One bell and one notice when a run ends."""

from __future__ import annotations

from typing import Literal

from rltui.terminal.capabilities import Multiplexer
from rltui.terminal.passthrough import wrap

Ending = Literal["finished", "failed"]
# Ours, and nothing of the run's: what a run is called must not reach the desktop.
_TEXTS: dict[Ending, str] = {"finished": "rltui: run finished", "failed": "rltui: run failed"}


def bell_and_notice(ending: Ending, multiplexer: Multiplexer) -> str:
    """BEL, which multiplexers know themselves, and OSC 9, which they have to hand on."""
    return "\x07" + wrap(f"\x1b]9;{_TEXTS[ending]}\x07", multiplexer)
