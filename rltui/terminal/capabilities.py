"""What the terminal can show, told from the environment before anything is drawn."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from rltui.terminal.background import from_colorfgbg

Multiplexer = Literal["", "tmux", "screen"]

FPS_LOCAL = 2.0  # repaints a second
FPS_SSH = 1.0
_UNKNOWN = ("dumb", "unknown")
# 24-bit colour by their names: COLORTERM does not travel over ssh, TERM does.
_TRUECOLOR_TERMS = ("alacritty", "contour", "foot", "ghostty", "kitty", "mintty", "wezterm")


class ColorMode(StrEnum):
    TRUECOLOR = "truecolor"
    ANSI256 = "256"
    ANSI16 = "16"
    NONE = "none"


@dataclass(frozen=True)
class Terminal:
    """`ascii`: ASCII glyphs only. `blocks`: no braille. `dark`: its background is. `fps`: most repaints a second."""

    color: ColorMode
    ascii: bool
    dark: bool
    multiplexer: Multiplexer
    ssh: bool
    fps: float
    blocks: bool = False


def detect(
    env: Mapping[str, str],
    *,
    encoding: str | None,
    ascii: bool = False,
    blocks: bool = False,
    fps: float | None = None,
    background: Callable[[], bool | None],
) -> Terminal:
    """The terminal behind `env` and an output in `encoding`; `ascii`, `blocks` and `fps` are what the user asked for.

    `background` asks the terminal whether it is dark (None: no answer). It is called at most once, and only
    where an answer can come and is of use.
    """
    color = color_mode(env)
    multiplexer = multiplexer_of(env)
    ssh = over_ssh(env)
    return Terminal(
        color=color,
        ascii=ascii or env.get("TERM") == "linux" or not _utf8(env, encoding),
        dark=_dark(env, color, multiplexer, background),
        multiplexer=multiplexer,
        ssh=ssh,
        fps=fps if fps is not None else FPS_SSH if ssh else FPS_LOCAL,
        blocks=blocks,
    )


def color_mode(env: Mapping[str, str]) -> ColorMode:
    """How many colours to send. NO_COLOR wins over everything.

    FORCE_COLOR 0 is none, 2 is 256, 3 is truecolor; any other value gives a terminal without colours 16.
    """
    forced = env.get("FORCE_COLOR", "").lower()
    if env.get("NO_COLOR") or forced in ("0", "false"):
        return ColorMode.NONE
    if forced in ("2", "3"):
        return ColorMode.ANSI256 if forced == "2" else ColorMode.TRUECOLOR
    found = _own_color_mode(env)
    return ColorMode.ANSI16 if forced and found is ColorMode.NONE else found


def _own_color_mode(env: Mapping[str, str]) -> ColorMode:
    term = env.get("TERM", "")
    if term in _UNKNOWN:
        return ColorMode.NONE
    if term == "linux":  # takes 24-bit codes and shows the nearest of its 16
        return ColorMode.ANSI16
    most = ColorMode.ANSI256 if "256color" in term else ColorMode.ANSI16
    if multiplexer_of(env) == "screen":  # COLORTERM is of the terminal outside; screen passes 256 at most
        return most
    direct = term.endswith("-direct") or any(name in term for name in _TRUECOLOR_TERMS)
    if direct or env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or env.get("WT_SESSION"):
        return ColorMode.TRUECOLOR
    return most


def multiplexer_of(env: Mapping[str, str]) -> Multiplexer:
    """What stands between us and the terminal.

    `tmux-256color` is tmux's own. `screen-256color` is both screen's and, by older defaults, tmux's: there $TMUX
    decides, and where it is missing (a shell over ssh) screen is taken, whose rules are the narrower ones.
    """
    term = env.get("TERM", "")
    if env.get("TMUX") or term.startswith("tmux"):
        return "tmux"
    return "screen" if env.get("STY") or term.startswith("screen") else ""


def over_ssh(env: Mapping[str, str]) -> bool:
    return any(env.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def _utf8(env: Mapping[str, str], encoding: str | None) -> bool:
    """Both have a say: Python writes UTF-8 in the locale C, where the terminal need not show it."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    charset = locale.partition("@")[0].rpartition(".")[2]
    if locale in ("C", "POSIX") or ("." in locale and not _is_utf8(charset)):
        return False
    return _is_utf8(encoding or "")


def _is_utf8(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name == "utf-8"
    except (LookupError, ValueError):
        return False


def _dark(
    env: Mapping[str, str], color: ColorMode, multiplexer: Multiplexer, background: Callable[[], bool | None]
) -> bool:
    told = from_colorfgbg(env)
    # Without colours the answer is of no use; screen keeps it to itself; the console has none.
    if color is not ColorMode.NONE and multiplexer != "screen" and env.get("TERM") != "linux":
        asked = background()
        told = told if asked is None else asked
    return True if told is None else told
