"""What one part says of another is true: keys and actions, metrics and those who write them, screen and `--json`."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.dom import DOMNode

import rltui
from rltui.actions.contexts import CONTEXTS
from rltui.actions.keymap import default_keys
from rltui.actions.keynames import shown
from rltui.actions.table import ACTIONS, BY_ID, LABEL_CELLS
from rltui.app import RltuiApp
from rltui.charts.numbers import number
from rltui.cli.main import main
from rltui.model.event_view import told as timeline
from rltui.model.overview_view import PLANS
from rltui.screens.help import help_sections
from rltui.screens.monitor.bars import BUILT
from rltui.widgets.bindings import offered
from rltui.widgets.key_bar import KeyBar
from rltui.words import duration, short
from tests.tui.app_driver import build, run_in, until
from tests.tui.snapshot import text_of

ROOT = Path(__file__).resolve().parents[2]
METRIC = re.compile(
    r"(reward|gspo|logp_gap|mismatch_kl|canary|off_policy|batch|optim|time|trainer|rollouter|throughput|length|turns|"
    r"tokens|stop|error|judge|eval|system)/[a-z_]+"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    runs = tmp_path / "runs"
    runs.mkdir()
    return runs


# Actions


def nodes() -> Iterator[type[DOMNode]]:
    """Every screen, widget and app class of ours."""
    for module in pkgutil.walk_packages(rltui.__path__, "rltui."):
        if module.name.startswith(("rltui.app", "rltui.screens", "rltui.widgets")):
            for thing in vars(importlib.import_module(module.name)).values():
                if isinstance(thing, type) and issubclass(thing, DOMNode) and thing.__module__ == module.name:
                    yield thing


def test_every_action_is_whole_and_somebody_does_it():
    """Bound by a node, and done by a method of it or of one around it."""
    ours = list(nodes())
    bound = {binding.id for node in ours for _, binding in node._merge_bindings()}
    methods = {name for node in ours for name in dir(node) if name.startswith("action_")}
    done = {action.id for action in ACTIONS if action.id in bound and f"action_{action.name}" in methods}
    # The framework's input line takes enter by itself.
    assert {action.id for action in ACTIONS} - done <= {"prompt.accept"}
    for action in ACTIONS:
        assert action.context in CONTEXTS and action.name.isidentifier()
        assert 0 < len(action.label) <= LABEL_CELLS and action.help.endswith((".", ")."))
    assert set(default_keys()) == set(BY_ID)


async def test_every_key_on_the_screen_is_in_the_table_and_in_the_help(folder):
    """On each screen and tab the key bar and the help offer actions of the table, by its keys and its words."""
    app = build(folder, run_dir=run_in(folder, "alpha"))
    async with app.run_test(size=(200, 60)) as pilot:
        await until(app, "step 4/4")
        seen = set()
        for keys in (
            *(monitor[0].upper() for monitor in BUILT),
            "R enter",
            "L /",
            "escape",
            "1",
            "/",
            "escape",
            "2",
            "5",
            "a enter",
        ):
            await pilot.press(*keys.split())
            await pilot.pause()
            screen = app.screen
            offers = {shown(key): offer.action for offer in offered(screen) for key in offer.keys}
            helped = {key for section in help_sections(screen) for keys, _, _ in section.rows for key in keys.split()}
            for item in screen.query_one(KeyBar).items:
                for key in item.key.split("/") if item.key != "/" else ["/"]:
                    action = offers[key]
                    seen.add(action.id)
                    assert action is BY_ID[action.id] and action.label == item.label
                    assert key in helped, (action.id, key, helped)
        assert len(seen) > 20


# Metrics


def strings_of(folder: Path, *, leave_out: str = "") -> set[str]:
    """Every string constant of the Python files below `folder`."""
    found = set()
    for path in folder.rglob("*.py"):
        if leave_out and path.name.startswith(leave_out):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str}
    return found


def test_every_metric_that_is_shown_is_one_that_the_trainer_writes():
    written = strings_of(ROOT / "trainer", leave_out="synth")
    # What is written as f"stop/{reason}" stands there by its beginning.
    families = tuple(text for text in written if METRIC.match(text + "x") and text.endswith(("/", "_")))
    used = {text for text in strings_of(ROOT / "rltui") if METRIC.fullmatch(text)}
    assert {"reward/mean", "gspo/loss", "eval/reward_mean", "trainer/idle_ratio"} <= used
    used = {name for name in used if not name.startswith(families)}
    assert used <= written, used - written


# Numbers


@pytest.mark.parametrize("kind", ["healthy", "resumed", "running"])
async def test_every_number_of_the_monitor_is_that_of_show_json(folder, capsys, kind):
    run = run_in(folder, "alpha", kind, episodes=320)
    assert main(["show", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    status, latest = told["status"], told["status"]["latest"]
    app = build(folder, run_dir=run)
    async with app.run_test(size=(200, 60)):
        await until(app, f"step {told['step']}/{told['steps']}")
        await until(app, "Last events")
        await until(app, lambda: app.opened.model.metrics.names())
        model = app.opened.model
        assert model.status == status
        shown_latest = {name: value for name, value in model.metrics.latest.items() if name in latest}
        assert shown_latest == pytest.approx(latest)
        assert list(model.checkpoints) == told["checkpoints"]
        assert [event["seq"] for event in timeline(model.events)][-8:] == [event["seq"] for event in told["events"]]
        text = await until(app, "tokens/s played", told["state"].upper(), "trainer idle")
        progress = next(row for row in text.splitlines() if " step " in row)
        assert f"weights v{status['weight_version']}" in progress
        assert f"lag {short(status['lag']['mean'])} max {status['lag']['max']}" in progress
        if kind != "running":  # one that runs counts on
            assert f"elapsed {duration(status['elapsed_s'])}" in progress
        assert f"reward {short(told['eval_reward'])} at step" in text
        assert f"{short(latest['throughput/gen_tokens_per_sec'])} tokens/s played" in text
        assert f"trainer idle {100 * latest['trainer/idle_ratio']:.0f} %" in text
        saved = status["last_checkpoint"]["step"]
        assert f"checkpoint step_{saved}, best step_{status['best']['step']}" in text


def words_in(app: RltuiApp, pane: str) -> str:
    """What stands in a pane, its lines joined."""
    return " ".join(" ".join(row.strip("│╭╮╰╯─ ") for row in text_of(app, pane)).split())


@pytest.mark.parametrize("kind", ["healthy", "collapsed", "running"])
async def test_every_number_of_the_overview_is_that_of_overview_json(folder, capsys, kind):
    run = run_in(folder, "alpha", kind, episodes=320, judge=True)
    assert main(["overview", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    app = build(folder, run_dir=run)
    async with app.run_test(size=(200, 60)):
        await until(app, f"step {told['step']}/{told['steps']}")
        health = told["health"]
        await until(app, f"{len(health['speaking'])} of {health['rules']} rules speak", "Last events")
        for plan, chart in zip(PLANS, told["charts"], strict=True):
            front, *others = chart["series"]
            average = f" (EMA {chart['ema']:g})" if chart["ema"] else ""
            moved = f"{'+' if front['change'] >= 0 else ''}{number(front['change'], 2)} / {front['change_steps']:.0f}"
            texts = [f"{chart['title']}{average} ", f" {number(front['smooth'])} ", f"{moved} steps"]
            for wanted in [*texts, *(number(one["smooth"]) for one in others)]:
                await until(app, lambda text=wanted, pane=f"#pane-{plan.id}": text in words_in(app, pane))
        for finding in health["speaking"]:
            await until(app, lambda text=f"{finding['id']} {finding['line']}": text in words_in(app, "#pane-health"))
        rest = ", ".join(f"{health['counts'][name.replace(' ', '_')]} {name}" for name in ("ok", "no data"))
        assert f"{rest}; enter shows all rules" in words_in(app, "#pane-health")
        assert {"step", "speed", "group", "saved"} <= {line["name"] for line in told["now"]}
        for line in told["now"]:
            await until(app, lambda text=f"{line['name']} {line['text']}": text in words_in(app, "#pane-now"))
        for event in told["events"][-5:]:
            await until(app, lambda text=event["message"]: text in words_in(app, "#events"))
