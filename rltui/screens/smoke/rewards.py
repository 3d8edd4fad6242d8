"""The rewards by seed, what groups would teach, and what a run would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from rltui.look import Look
from rltui.model.smoke_test import SmokeModel
from rltui.screens.smoke.checklist import took
from rltui.smoke.forecast import quantile
from rltui.smoke.report import Forecast, SeedSpread, Spread
from rltui.text import clean
from rltui.text_lines import crop, printable, wrap
from rltui.widgets.lines import look_of
from rltui.widgets.scrolling import Scrolling
from rltui.words import duration, short

MOST_SEEDS = 200  # that have a line
NAME = 12  # of a number of the forecast

Row = list[Segment]


class Rewards(Scrolling, inherit_bindings=False):
    def __init__(self, model: SmokeModel) -> None:
        super().__init__()
        self._model = model
        self._rows: list[Row] = []

    def update(self) -> None:
        """Show what the model knows now."""
        self._lay_out()
        self.refresh_changed()

    def on_resize(self) -> None:
        self._lay_out()
        self.refresh()

    def _lay_out(self) -> None:
        self._rows = list(rows(self._model, max(20, self.size.width - 2), look_of(self)))
        self.line_count = len(self._rows)

    def line(self, y: int, width: int) -> Row:
        return [Segment(" "), *self._rows[y]] if y < len(self._rows) else []


def rows(model: SmokeModel, width: int, look: Look) -> Iterator[Row]:
    """All of the pane, a row a line."""
    spread = model.spread
    if spread is not None and spread.seeds:
        yield from _seeds(spread, width, look)
        yield from _predictions(model, spread, width, look)
    else:
        yield from _words("No episode of a group has been rewarded yet: stage S09 plays them.", width, look, "dim")
    yield []
    yield _rule("forecast", width, look)
    if model.forecast is not None:
        yield from _forecast(model.forecast, width, look)
    else:
        yield from _early(model, width, look)


def _seeds(spread: Spread, width: int, look: Look) -> Iterator[Row]:
    seeds = spread.seeds[:MOST_SEEDS]
    binary = all(reward in (0, 1) for seed in seeds for reward in seed.rewards)
    most = max(len(_marks(seed, look, binary)) for seed in seeds)
    name = max(len(str(seed.seed)) for seed in seeds)
    cell = 5 + name + 2 + most + 2 + 6
    columns = 2 if width >= 2 * cell + 3 and len(seeds) > 1 else 1
    shown = [_seed(seed, look, binary, name, min(most, width - name - 15)) for seed in seeds]
    half = -(-len(shown) // columns)
    for left, right in zip_longest(shown[:half], shown[half:]):
        yield [*left, Segment("   "), *right] if right else left
    if len(spread.seeds) > MOST_SEEDS:
        yield [Segment(f"{len(spread.seeds) - MOST_SEEDS} seeds more", look.style("dim"))]
    if spread.mean is not None and len(seeds) > 1:
        bounds = f"   from {short(spread.low)} to {short(spread.high)}" if spread.low != spread.high else ""
        told = f"mean {short(spread.mean)}   std {short(spread.std)}{bounds}"
        yield [Segment("all   ", look.style("dim")), Segment(told, look.style("text"))]


def _seed(seed: SeedSpread, look: Look, binary: bool, name: int, marks: int) -> Row:
    text = crop(_marks(seed, look, binary), marks, more=look.glyph("ellipsis"))
    mean = "zero" if seed.dead else short(seed.mean)  # its variance, so it teaches nothing
    return [
        Segment(f"seed {seed.seed:>{name}}  ", look.style("dim")),
        Segment(f"{text:<{marks}}  ", look.style("text")),
        Segment(f"{mean:>6}", look.style("watch" if seed.dead else "strong")),
    ]


def _marks(seed: SeedSpread, look: Look, binary: bool) -> str:
    """A sign a reward where it is 0 or 1, else its number."""
    if binary:
        return "".join(look.glyph("state_running" if reward else "state_queued") for reward in seed.rewards)
    return " ".join(f"{reward:.2f}" if abs(reward) < 100 else short(reward) for reward in seed.rewards)


def _predictions(model: SmokeModel, spread: Spread, width: int, look: Look) -> Iterator[Row]:
    advised = model.advised
    if spread.predicted:
        yield []
        rough = ", rough" if spread.predicted[0].seeds < 8 else ""
        few = f"groups without any difference ({spread.predicted[0].seeds} seeds{rough})"
        yield from _words(f"predicted {few}", width, look, "dim")
    for guess in spread.predicted:
        share = f"at G {guess.group_size:<3} {guess.zero_variance:>4.0%}"
        todo = f"   x: set training.group_size = {advised}" if guess.group_size == advised else ""
        style = "watch" if guess.zero_variance > 0.3 else "text"
        yield [Segment(f"  {share}", look.style(style)), Segment(todo, look.style("key"))]
    if spread.unpredicted:
        yield from _words(spread.unpredicted, width, look, "dim")
    for text in spread.warnings:
        yield from _words(text, width, look, "watch", sign=f"{look.glyph('watch')} ")


def _early(model: SmokeModel, width: int, look: Look) -> Iterator[Row]:
    seconds = [episode.seconds for episode in model.compared if episode.R is not None]
    if seconds and (model.settings is None or model.settings.policy != "human"):
        p50, p95 = took(quantile(seconds, 0.5)), took(quantile(seconds, 0.95))
        yield _number("episode", f"p50 {p50}   p95 {p95}", look)
    yield from _words("Stage S14 has not run yet.", width, look, "dim")


def _forecast(forecast: Forecast, width: int, look: Look) -> Iterator[Row]:
    for name, text in _numbers(forecast):
        yield _number(name, crop(text, width - NAME, more=look.glyph("ellipsis")), look)
    for text in forecast.warnings:
        yield from _words(text, width, look, "watch", sign=f"{look.glyph('watch')} ")
    if forecast.inputs:
        yield []
        yield _rule("the sum", width, look)
    for text in forecast.inputs:
        yield from _words(text, width, look, "dim")


def _numbers(forecast: Forecast) -> Iterator[tuple[str, str]]:
    if forecast.episode_p50_s is not None:
        share = f"   model {forecast.policy_share:.0%} of it" if forecast.policy_share is not None else ""
        yield "episode", f"p50 {took(forecast.episode_p50_s)}   p95 {took(forecast.episode_p95_s or 0.0)}{share}"
    if forecast.turns_mean is not None:
        yield "turns", f"mean {forecast.turns_mean:.1f}   max {forecast.turns_max}"
    if forecast.tokens_mean is not None:
        yield "tokens", f"mean {forecast.tokens_mean:.0f} in an episode's longest call"
    if forecast.minutes_per_iteration is not None:
        bound = f"   {forecast.bound}-bound" if forecast.bound else ""
        yield "iteration", f"{_time(forecast.minutes_per_iteration * 60)}{bound}"
    if forecast.hours is not None:
        gpu = f"   {forecast.gpu_hours:.3g} GPU-hours" if forecast.gpu_hours is not None else ""
        yield "run", f"{_time(forecast.hours * 3600)} or more: rollouts alone{gpu}"
    if forecast.disk_bytes is not None:
        yield "records", f"{forecast.disk_bytes / 1e6:.3g} MB, checkpoints come on top"


def _time(seconds: float) -> str:
    return took(seconds) if seconds < 60 else duration(seconds)


def _number(name: str, text: str, look: Look) -> Row:
    return [Segment(f"{name:<{NAME}}", look.style("dim")), Segment(printable(text), look.style("text"))]


def _rule(name: str, width: int, look: Look) -> Row:
    line = look.glyph("hline")
    left = f"{line} {name} "
    return [Segment(left + line * max(0, width - cell_len(left)), look.style("dim"))]


def _words(text: str, width: int, look: Look, style: str, *, sign: str = "") -> Iterator[Row]:
    worn: Style = look.style(style)
    lines: Sequence[str] = wrap(printable(clean(text, 1_000)), width - cell_len(sign))
    for at, line in enumerate(lines):
        yield [Segment(sign if at == 0 else " " * cell_len(sign), worn), Segment(line, worn)]
