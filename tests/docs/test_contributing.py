"""The five examples of CONTRIBUTING do what they are shown for."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from textual.app import App, ComposeResult

from rltui.doctor.record import Record
from rltui.doctor.rule import State
from rltui.launch.base import Job
from rltui.look import default_look
from rltui.model.judge_feed import JudgeFeed
from rltui.model.judge_view import judge_view
from tests.docs.ids_server import app as ids_server
from tests.docs.pages import block
from tests.doctor.records import record
from tests.learner.test_loss import gradient, make
from tests.waiting import until
from trainer.inference.engine import ContextOverflow, EngineError, Sampling
from trainer.models import load_model, resolve_model


def example(mark: str, *modules: str, **more: Any) -> dict[str, Any]:
    """What the block defines, among the names of the modules that it would stand beside or import from."""
    space: dict[str, Any] = {}
    for module in modules:
        space |= vars(importlib.import_module(module))
    space |= {"__name__": mark, **more}
    exec(compile(block("CONTRIBUTING.md", "python", mark), "CONTRIBUTING.md", "exec"), space)
    return space


async def test_the_engine_gives_the_log_probabilities_of_the_models_own_forward_pass():
    model = resolve_model("builtin:tiny")
    engine = example("engine", "trainer.inference.local", httpx=httpx)["HttpEngine"](
        model, "http://ids", max_model_len=64
    )
    engine._client = httpx.AsyncClient(transport=httpx.ASGITransport(ids_server(model.path)), base_url="http://ids")
    await engine.start()
    ids = await engine.render([{"role": "user", "content": "hello"}])
    sampling = Sampling(temperature=1.0, max_tokens=4, top_logprobs=3)
    (chunk,) = [chunk async for chunk in engine.generate(ids, sampling)]
    with torch.inference_mode():
        logits = load_model(model.path, torch.float32)(torch.tensor([[*ids, *chunk.token_ids]])).logits[0]
    for at, (token, logp) in enumerate(zip(chunk.token_ids, chunk.logprobs, strict=True)):
        expected = logits[len(ids) + at - 1].log_softmax(-1)
        assert logp == pytest.approx(float(expected[token]), abs=1e-4)
        assert max(chunk.top[at].values()) == pytest.approx(float(expected.max()), abs=1e-4)
    assert (await engine.derender(chunk.token_ids)).text == engine.decode(chunk.token_ids)
    await engine.load_weights(model.path, 7)
    (chunk,) = [chunk async for chunk in engine.generate(ids, sampling)]
    assert (chunk.weight_version, engine.weight_version) == (7, 7)
    with pytest.raises(ContextOverflow):
        await anext(engine.generate([1] * 64, sampling))
    await engine.stop()
    assert engine.ended.done()


async def test_the_engine_names_the_key_where_nobody_answers():
    engine = example("engine", "trainer.inference.local", httpx=httpx)["HttpEngine"](
        resolve_model("builtin:tiny"), "http://127.0.0.1:1", max_model_len=64
    )
    with pytest.raises(EngineError, match=r"change inference\.url"):
        await engine.start()
    await engine.stop()


def test_the_loss_is_its_formula_and_clipped_tokens_keep_their_gradient():
    loss = example("algorithm", "trainer.learner.loss")["cispo"]
    x = make(rows=6, seed=4)
    out, logp = loss(x), x.logp.detach()
    expected, pull = 0.0, torch.zeros_like(logp)
    for i in range(6):
        tokens = int(x.mask[i].sum())
        for t in range(tokens):
            ratio = float((logp[i, t] - x.anchor[i, t]).exp())
            weight = min(max(ratio, 1 - x.clip_eps_low), 1 + x.clip_eps_high) * float(x.advantage[i, t])
            expected -= weight * float(logp[i, t]) / tokens / x.denominator
            pull[i, t] = -weight / tokens / x.denominator
    assert out.loss.item() == pytest.approx(expected)
    torch.testing.assert_close(gradient(out.loss, x), pull)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_target_starts_a_coordinator_and_tells_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    launcher = example("target", "rltui.launch.base", "rltui.launch.local")["TmuxLauncher"]()
    job = Job(tmp_path / "gone.toml", tmp_path / "run", "rl_00000000000000cc")
    assert "trainer run" in launcher.shown(job) and launcher.shown(job).startswith("tmux new-session")
    started = launcher.start(job)
    try:
        until(lambda: started.exit_code() is not None)  # there is no such config
        assert job.folder.is_dir() and all(started.last_words())
    finally:
        started.kill()


def test_the_rule_speaks_is_content_and_has_no_data():
    rule = example("rule", "rltui.doctor.rules.tokens")["drift"]
    bands = {"watch": 0.0}
    drifts = rule.check(record({"tokens/drift": 5.0}), bands)
    assert drifts.state is State.WATCH and "5 turns" in drifts.says
    assert rule.check(record(), bands).state is State.OK
    assert rule.check(Record(), bands).state is State.NONE


async def test_the_pane_shows_what_the_verb_says():
    names = ("rltui.screens.monitor.judge_draw", "rltui.widgets.drawn", "rltui.screens.monitor.judge", "rltui.text")
    space = example("pane", *names)
    view = {**judge_view(JudgeFeed(), None), "model": "m\x1b[2J", "tries": 4, "cost_usd": 0.2}
    ((row,),) = space["cost_rows"](view, 40, default_look())
    assert row[0].endswith("0.05000 $ a call") and "\x1b" not in row[0]

    class Screenful(App[None]):
        look = default_look()

        def compose(self) -> ComposeResult:
            yield space["CostPane"]()

    app = Screenful()
    async with app.run_test(size=(60, 8)) as pilot:
        app.query_one("#pane-cost").tell(view)
        await pilot.pause()
        drawn = app.query_one("#cost")
        assert "0.05000 $ a call" in "".join(segment.text for segment in drawn.line(0, drawn.size.width))
