"""`rltui export`: each thing it takes out of a run, and that a failure leaves nothing behind."""

from __future__ import annotations

import builtins
import csv
import json

import pytest

from rltui.cli.export import _base
from rltui.cli.main import main
from rltui.server.app import job_server
from rltui.server.auth import Access
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from tests.cli.conftest import last_object
from tests.server_reads.serving import Server
from trainer.rundir.reader import RunReader
from trainer.rundir.synth import SynthConfig, write_run


@pytest.fixture
def run(here):
    folder = here / "runs" / f"resumed-rl_{1:016x}"
    write_run(folder, SynthConfig(episodes=480, kind="resumed", seed=1, learner_blocks=False))
    return folder


def export(*args: str) -> int:
    return main(["export", "resumed", "--what", *args])


def test_metrics_are_a_row_for_each_step_and_each_evaluation(run, here):
    assert export("metrics") == 0
    with (here / f"{run.name}-metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [row for row in rows if not row["eval_step"]]
    assert [int(row["step"]) for row in steps] == list(range(1, 31))  # each once, though half was played twice
    reader = RunReader(run)
    lines = [line for line in reader.lines_after("metrics.jsonl", None).rows if reader.counts(line)]
    loss = {line["step"]: line["gspo/loss"] for line in lines if "gspo/loss" in line}
    assert {int(row["step"]): float(row["gspo/loss"]) for row in steps} == loss
    assert any(row["system/gpu_util"] for row in steps if "system/gpu_util" in row) or "system/gpu_util" not in rows[0]
    evaluations = [row for row in rows if row["eval_step"]]
    assert evaluations[0]["eval_step"] == "0" and all(row["eval/reward_mean"] for row in evaluations)


def test_episodes_are_those_that_count_with_their_text_and_what_came_later(run, here):
    assert export("rollouts", "--out", "all.jsonl") == 0
    episodes = [json.loads(line) for line in (here / "all.jsonl").read_text().splitlines()]
    assert sum(one["split"] == "train" for one in episodes) == 480
    trained = next(one for one in episodes if one["split"] == "train")
    assert trained["turns"][0]["messages"][0]["text"] and trained["updates"]["adv"] is not None


@pytest.mark.parametrize("what", ["metrics", "rollouts"])
def test_parquet_has_the_same_rows(run, here, what):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(what, "--out", "plain") == 0 and export(what, "--out", "table.parquet") == 0
    table = parquet.read_table(here / "table.parquet").to_pylist()
    if what == "metrics":
        with (here / "plain").open(newline="") as file:
            plain = list(csv.DictReader(file))
        assert [str(row["gspo/loss"] or "") for row in table] == [row["gspo/loss"] for row in plain]
        assert all(type(row["step"]) is int for row in table)
    else:
        plain = [json.loads(line) for line in (here / "plain").read_text().splitlines()]
        assert [row["R"] for row in table] == [one["R"] for one in plain]
        assert json.loads(table[0]["turns"]) == plain[0]["turns"]
        assert [row["adv"] for row in table] == [one["updates"].get("adv") for one in plain]
    assert len(table) == len(plain)


def test_without_pyarrow_it_says_what_to_install(run, here, monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    assert export("metrics", "--format", "parquet") == 2
    assert "pip install 'rltui[parquet]'" in capsys.readouterr().err
    assert not [path for path in here.iterdir() if "parquet" in path.name]


def test_the_adapter_is_the_checkpoint_without_what_a_resume_needs(run, here, capsys):
    assert export("adapter", "--out", "mine", "--json") == 0
    told = last_object(capsys.readouterr().out)
    best = [one for one in RunReader(run).checkpoints() if one.is_best][-1]
    assert told["step"] == best.step and told["path"] == "mine"
    names = {file.name for file in (here / "mine").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors"} <= names
    assert not names & {"STABLE", "state.json", "optimizer"}


def test_a_base_in_a_folder_is_said_to_be_where_the_run_is(run, here, capsys, monkeypatch):
    monkeypatch.setattr("rltui.cli.export._base", lambda adapter: "/models/small")
    assert export("adapter", "--out", "near") == 0
    assert "/models/small, a folder of this machine" in capsys.readouterr().out
    jobs = Jobs(House(here / "runs", False, {}), Places(gpus=(), cpu_jobs=1))
    server = Server(app=job_server(jobs, Access()))
    try:
        address = f"{server.url}/rl/jobs/{RunReader(run).status()['job_id']}"
        assert main(["export", address, "--what", "adapter", "--out", "far"]) == 0
    finally:
        server.close()
    assert "/models/small, a folder of the server's machine" in capsys.readouterr().out


def test_an_adapter_tells_which_base_it_loads(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "/models/small"}')
    assert _base(tmp_path) == "/models/small" and _base(tmp_path / "none") == ""


def test_a_damaged_checkpoint_is_named_and_an_older_one_offered(run, here, capsys):
    first, last = (RunReader(run).checkpoints()[i] for i in (-2, -1))
    (last.path / "adapter_model.safetensors").write_bytes(b"x")
    assert export("adapter", "--checkpoint", "latest") == 3
    told = capsys.readouterr().err
    assert f"step_{last.step} is damaged" in told and f"--checkpoint {first.step} is older" in told
    assert export("adapter", "--checkpoint", str(first.step)) == 0
    assert export("adapter", "--checkpoint", "7777", "--out", "x") == 3
    assert "there are those of steps" in capsys.readouterr().err
    assert {path.name for path in here.iterdir()} == {"runs", "my.toml", f"{run.name}-adapter"}


def test_what_is_there_is_not_overwritten_and_wrong_formats_are_refused(run, here, capsys):
    (here / "kept.csv").write_text("mine")
    assert export("metrics", "--out", "kept.csv") == 2 and (here / "kept.csv").read_text() == "mine"
    assert export("metrics", "--out", "typo/x.csv") == 2 and not (here / "typo").exists()
    assert "typo is no folder" in capsys.readouterr().err
    assert export("metrics", "--out", "kept.csv/x.csv") == 2 and (here / "kept.csv").read_text() == "mine"
    assert "kept.csv is no folder" in capsys.readouterr().err
    assert export("rollouts", "--format", "csv") == 2
    assert "jsonl or parquet, not into csv" in capsys.readouterr().err


def test_a_source_that_cannot_be_read_is_not_blamed_on_the_target(run, here, capsys):
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").mkdir()
    assert export("adapter", "--out", "mine") == 3
    told = capsys.readouterr().err
    assert "its checkpoints cannot be read: Is a directory" in told and "written" not in told
    assert not (here / "mine").exists()
