"""How a judge is told in words, on the screen and by the verbs. Texts of the record are cleaned. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltui.text import clean


def judge_name(view: Mapping[str, Any]) -> str:
    """Who judges: 'rules', 'a judge service', 'gpt-5-nano (openai)'."""
    known = {"rule": "rules", "service": "a judge service"}.get(str(view.get("source")), "")
    return known or f"{clean(view.get('model') or '?', 80)} ({clean(view.get('provider') or '?', 40)})"


def tries_failed(failed: Mapping[str, int]) -> str:
    """'unparsable x 3, timeout x 1'; "" of none."""
    return ", ".join(f"{clean(code.removeprefix('judge_'), 40)} x {times}" for code, times in failed.items())


def dollars(cost: float | None, estimated: bool) -> str:
    """'0.0123', '~0.0123' of an estimate, '?' of an unknown price."""
    return "?" if cost is None else f"{'~' if estimated else ''}{cost:.4f}" if cost else "0"
