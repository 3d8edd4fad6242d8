"""Below a transcript of tokens: the legend of its colours, with numbers, and the token under the cursor."""

from __future__ import annotations

import json
import math

from rich.segment import Segment

from rltui.model.xray import Xray, legend, readout
from rltui.text import clean, fit
from rltui.widgets.lines import Lines, look_of
from rltui.widgets.token_row import level_sign, mono
from rltui.widgets.transcript import Transcript

_SAMPLES = 12
_NAMES = {
    "logprob": "behaviour log-probability",
    "ratio": "ratio learner/behaviour",
    "advantage": "advantage",
    "version": "weight version",
    "trained": "trained",
}


class XrayBar(Lines, can_focus=False):
    """A line each, or as many as they need; `band` is the range of the sequence's ratio that is not clipped."""

    DEFAULT_CSS = "XrayBar { height: 2; display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self._view: Transcript | None = None
        self.band: tuple[float, float] | None = None
        self._laid_for: tuple[int, str] | None = None  # width and mode

    def follow(self, view: Transcript) -> None:
        """Show what stands in `view` now."""
        self._view = view
        xray = view.model.xray if view.model is not None else None
        self.display = view.model is not None and view.model.view == "tokens" and xray is not None
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        view, width = self._view, self.size.width
        rows = self._rows(width) if width and self.display else []
        if view is None or not rows:
            return
        # It grows only, so that the transcript stands still while the cursor walks.
        least = self.line_count if self._laid_for == (width, view.mode) else 2
        self._laid_for = (width, view.mode)
        self.line_count = max(least, len(rows))
        self.styles.height = self.line_count
        self.refresh_changed()

    def _rows(self, width: int) -> list[list[Segment]]:
        view = self._view
        xray = view.model.xray if view is not None and view.model is not None else None
        if view is None or xray is None:
            return []
        return [*self._legend(xray, view.mode, width), *self._token(view, width)]

    def line(self, y: int, width: int) -> list[Segment]:
        rows = self._rows(width)
        return rows[y] if y < len(rows) else []

    def _legend(self, xray: Xray, mode: str, width: int) -> list[list[Segment]]:
        look = look_of(self)
        segments = [Segment(f" {_NAMES[mode]}  ", look.style("key"))]
        if why := xray.missing.get(mode):
            return [[*segments, Segment(fit(why, max(1, width - len(_NAMES[mode]) - 4)), look.style("watch"))]]
        if mode == "trained":
            signs = ("", "") if not mono(look) else (level_sign(look, xray, mode, 1.0) + " ", "")
            segments.append(Segment(f"{signs[0]}sampled, trained", look.style("good")))
            return [[*segments, Segment("  given, not trained", look.style("dim"))]]
        if mode == "version":
            shown = [Segment(f"v{version} ", look.series(i)) for i, version in enumerate(xray.versions[:_SAMPLES])]
            more = len(xray.versions) - _SAMPLES
            return [[*segments, *shown, Segment(f"and {more} more" if more > 0 else "", look.style("dim"))]]
        low, high = legend(xray, mode)
        kind = "diverging" if mode in xray.spread else "sequential"
        segments.append(Segment(f"{low} ", look.style("dim")))
        for i in range(_SAMPLES):
            level = i / (_SAMPLES - 1)
            sign = level_sign(look, xray, mode, level) if mono(look) else look.glyph("bar_full")
            segments.append(Segment(sign, look.gradient(kind, level)))
        segments.append(Segment(f" {high}", look.style("dim")))
        if mode == "ratio" and self.band is not None:
            band = f" s is clipped outside {self.band[0]:g} – {self.band[1]:g}"
            if sum(segment.cell_length for segment in segments) + len(band) < width:
                return [[*segments, Segment(f" {band}", look.style("dim"))]]
            return [segments, [Segment(band, look.style("dim"))]]
        return [segments]

    def _token(self, view: Transcript, width: int) -> list[list[Segment]]:
        look, token = look_of(self), view.token
        if token is None:
            return [[Segment(" no token is under the cursor; left and right walk them", look.style("dim"))]]
        paragraph, i = token
        text = clean(json.dumps(paragraph.branch.texts[i], ensure_ascii=False), 40)
        spelt = view.model is not None and view.model.xray is not None and view.model.xray.spelt
        parts = [*readout(paragraph.branch, i), *(["the tokenizer is not at hand"] if not spelt else [])]
        rows, line = [], [Segment(f" {text}  " if spelt else " ", look.style("strong"))]
        for part in parts:
            if len(line) > 1 and sum(segment.cell_length for segment in line) + len(part) + 3 > width:
                rows.append(line)
                line = [Segment(" ")]
            said = f" · {part}" if len(line) > 1 else part
            line.append(Segment(said, look.style("text")))
        return [*rows, line]


def band_of(values: dict[str, object]) -> tuple[float, float] | None:
    """1 - clip_eps_low … 1 + clip_eps_high of resolved values; None: it cannot be told."""
    found = []
    for name in ("clip_eps_low", "clip_eps_high"):
        section = values.get("training")
        leaf = section.get(name) if isinstance(section, dict) else None
        value = leaf.get("value") if isinstance(leaf, dict) else leaf
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return None
        found.append(float(value))
    return 1 - found[0], 1 + found[1]
