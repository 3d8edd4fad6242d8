"""The page about a run: well-formed, alone, harmless whatever a model wrote, and with the run's own numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from math import nan

import pytest

from rltui.charts.numbers import number
from rltui.charts.parts import Mark, Series
from rltui.charts.pyramid import Pyramid
from rltui.cli.main import main
from rltui.export import svg
from rltui.export.svg import chart
from rltui.model.run import RunModel
from rltui.sources.local import LocalRunSource
from trainer.rundir.records import EpisodeRecord
from trainer.rundir.synth import SynthConfig, write_run
from trainer.rundir.writer import RunWriter

VOID = {"meta", "path", "circle"}


class Page(HTMLParser):
    """Which elements there are; `open` at the end: those that were never closed, `wrong`: closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words += data


def page(here, name) -> tuple[str, Page]:
    assert main(["export", name, "--what", "report", "--out", "page.html"]) == 0
    text = (here / "page.html").read_text()
    return text, Page(text)


@pytest.mark.parametrize("kind", ["failed", "resumed"])
def test_the_page_stands_alone_and_has_the_runs_numbers(here, kind):
    folder = here / "runs" / f"{kind}-rl_{1:016x}"
    write_run(folder, SynthConfig(episodes=480, kind=kind, seed=1, learner_blocks=False))
    text, found = page(here, kind)
    assert not found.open and not found.wrong
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not {"href", "src", "style", "onclick", "onload"} & found.attributes
    assert "url(" not in text and "http://" not in text and "https://" not in text and "@import" not in text
    model = RunModel(LocalRunSource(folder))
    while model.refresh().more:
        pass
    evaluations = model.metrics.series["eval/reward_mean"]
    first, last = evaluations.points(0, 1)[1][0], evaluations.last()[1]
    assert f"{number(first)} → {number(last)}" in found.words
    assert found.tags.count("figure") == 4 + len(model.metrics)
    if kind == "failed":
        assert "The task app answered 500 to the last 8 episodes." in found.words
    else:
        assert "attempt 2" in found.words


def test_what_a_model_wrote_stays_text(here):
    folder = here / "runs" / f"evil-rl_{2:016x}"
    writer = RunWriter(folder, job_id=f"rl_{2:016x}", label="evil", attempt=1)
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e</pre></body>"
    writer.event("rl.warning", evil, step=1, level="warning")
    writer.metrics({f"x/{evil}": 1.0, "reward/mean": 0.5}, step=1, iteration=1, epoch=1, weight_version=0)
    turns = [{"t": 0, "calls": [0], "messages": [{"role": evil, "text": evil, "tool_calls": [{"name": evil}]}]}]
    writer.episode(
        EpisodeRecord(cid="c", step=1, iteration=1, split="train", seed=1, group=0, member=0, R=1.0, O=1.0,
                      stop=evil[:20], t=1.0, wall=1.0, branches=[], turns=turns)
    )  # fmt: skip
    writer.close()
    text, found = page(here, "evil")
    assert not found.open and not found.wrong
    assert not {"script", "img"} & set(found.tags) and "onerror" not in found.attributes
    assert "alert(1)" in found.words and not {"\x1b", "\u202e"} & set(text)


def test_a_run_without_anything_has_a_page(here):
    (here / "runs" / f"young-rl_{3:016x}").mkdir(parents=True)
    _, found = page(here, "young")
    assert "starting" in found.words and not found.open


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_a_chart_keeps_every_spike_and_shows_gaps():
    course = Pyramid()
    course.extend(range(20_000), [nan if x == 500 else 9.0 if x == 7_777 else 1.0 for x in range(20_000)])
    drawn = svg.chart([Series("loss", course, 0)], [Mark(100.0, "<set>")])
    line = re.search(r'class="line s0" d="([^"]+)"', drawn)[1]
    heights = [float(y) for y in re.findall(r"[V ]([\d.]+)", line)]
    assert min(heights) < 40 < 150 < max(heights) and len(line) < 20_000
    assert drawn.count('class="gap"') == 1 and "&lt;set&gt;" in drawn and 'aria-label="loss 1"' in drawn


def test_few_points_stand_where_they_are():
    course = Pyramid()
    course.extend([0, 10], [0.0, 1.0])
    drawn = svg.chart([Series("reward", course, 0)])
    (x0, y0), (x1, y1) = points(re.search(r'class="line s0" d="([^"]+)"', drawn)[1])
    assert (x0, x1) == (svg.LEFT, 560 - svg.RIGHT) and y0 > y1 and drawn.count("<circle") == 2


def test_a_course_without_values_beside_one_with_values_is_drawn():
    values = Pyramid()
    values.append(1.0, 0.5)
    values.append(2.0, 0.7)
    drawn = chart([Series("empty", Pyramid(), 0), Series("full", values, 1)])
    assert drawn.startswith("<svg") and "no values" not in drawn
