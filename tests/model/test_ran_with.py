"""The values that a run ran with: by --set, and by what was set while it ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltui.cli.main import main
from rltui.doctor.checkup import Checkup
from rltui.export.report import page
from rltui.model.form_starts import Start, begin
from rltui.model.ran_with import ran_with
from rltui.model.run import RunModel
from rltui.samples import samples
from rltui.sources.local import LocalRunSource
from trainer.config import load
from trainer.rundir.synth import SynthConfig, write_run

SET = {"policy.temperature": 0.7}


def done(step: int, new: dict, attempt: int = 1) -> dict:
    data = {"action": "set", "new": new}
    return {"type": "rl.control.done", "attempt": attempt, "step": step, "data": data, "seq": 10_000 + step}


def test_live_changes_of_this_attempt_alone_stand_in_the_tree():
    values = {"policy": {"temperature": {"value": 1.0, "origin": "file"}, "free": {"value": {"a": 1}, "origin": "set"}}}
    events = [done(1, {"policy.temperature": 0.3}, attempt=1), done(5, SET, attempt=2), done(6, {"policy.no": 1}, 2)]
    tree = ran_with(values, events, 2)
    leaf = {"value": 0.7, "origin": "live", "at": "set live, from step 6 on"}
    assert tree == {"policy": {**values["policy"], "temperature": leaf}}
    assert values["policy"]["temperature"]["value"] == 1.0


@pytest.fixture
def steered(tmp_path: Path, monkeypatch) -> Path:
    """A run whose temperature was set live, and with a seed by --set."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = tmp_path / "runs" / f"steered-rl_{7:016x}"
    write_run(run, SynthConfig(episodes=96, kind="healthy", seed=7, learner_blocks=False))
    (run / "config.toml").write_text(samples()["demo"].read_text())
    loaded = load(run / "config.toml", sets=["training.seed=12345"])
    (run / "resolved.json").write_text(json.dumps({"schema": 1, **loaded.resolved()}))
    seq = json.loads((run / "events.jsonl").read_bytes().splitlines()[-1])["seq"] + 1
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps({**done(2, SET), "seq": seq, "level": "info", "message": "x"}) + "\n")
    return run


def test_config_show_tells_what_runs_and_from_where(steered, capsys):
    assert main(["config", "show", str(steered), "--origin"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("temperature = 0.7 ") and "set live, from step 3 on" in line for line in lines)
    assert any(line.startswith("seed = 12345 ") and line.endswith("# --set") for line in lines)


def test_a_copy_of_a_run_elsewhere_too(steered, tmp_path):
    (tmp_path / "fetched").mkdir()
    fetched = tmp_path / "fetched" / "config.toml"
    fetched.write_text((steered / "config.toml").read_text())
    form = begin(Start("run", steered.name, fetched), LocalRunSource(steered))
    assert "temperature = 0.7" in form.text and "seed = 12345" in form.text


def test_a_new_config_from_the_run_has_them_too(steered, capsys):
    assert main(["config", "new", "--from", str(steered), "--out", "-"]) == 0
    text = capsys.readouterr().out
    assert "temperature = 0.7" in text and "seed = 12345" in text
    (steered / "resolved.json").write_text("{torn")
    assert main(["config", "new", "--from", str(steered), "--out", "-"]) == 2
    assert "nothing was written" in capsys.readouterr().err


def test_the_report_and_the_doctor_tell_it_too(steered):
    model, checkup = RunModel(LocalRunSource(steered)), Checkup()
    while model.refresh(1.0).more:
        pass
    checkup.look(model)
    text = page(model, checkup)
    assert "<code>0.7</code></td><td>set live, from step 3 on" in text
    says = next(one.reading.says for one in checkup.findings if one.rule.id == "D36")
    assert "policy.temperature is 0.7 (set live, from step 3 on)" in says and "training.seed is 12345 (--set)" in says


def test_a_copy_of_the_run_runs_as_it_did_and_undo_gives_its_file(steered):
    form = begin(Start("run", steered.name, steered / "config.toml"))
    assert "temperature = 0.7" in form.text and "seed = 12345" in form.text
    form.undo()
    assert form.text == form.base and "12345" not in form.text
