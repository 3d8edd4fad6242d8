"""`rltui config new`: samples and copies, and never over a file."""

import os
import re

from rltui.samples import samples
from tests.cli.conftest import SDK_EXAMPLE


def test_new_writes_a_sample_to_the_byte_and_never_over_a_file(files, config):
    code, out, _ = config("new", "demo")
    assert code == 0
    assert "rltui validate demo.toml" in out or "-m rltui validate demo.toml" in out
    sample = samples()["demo"].read_bytes()
    assert b"sample_configs/demo.toml" in sample
    assert (files / "demo.toml").read_bytes() == sample.replace(b"sample_configs/demo.toml", b"demo.toml")
    (files / "demo.toml").write_text("mine")
    code, _, err = config("new", "demo")
    assert code == 2
    assert "demo.toml exists" in err
    assert (files / "demo.toml").read_text() == "mine"


def test_new_with_sets(files, config):
    assert config("new", "demo", "--out", "b.toml", "--set", "training.learning_rate=5e-5")[0] == 0
    before, after = samples()["demo"].read_text(), (files / "b.toml").read_text()
    command, changed = [line for line in after.splitlines() if line not in before.splitlines()]
    assert command.endswith("b.toml")
    assert re.match(r"learning_rate = 5e-5 +# ", changed)
    for bad in ("training.group_size=7", "nonsense", "training.nonsense=1"):
        assert config("new", "demo", "--out", "c.toml", "--set", bad)[0] == 2
    assert not (files / "c.toml").exists()


def test_new_list_and_names(files, config, in_json):
    _, data = in_json("new", "--list")
    assert [row["name"] for row in data["samples"]] == list(samples())
    assert all(row["title"] for row in data["samples"])
    code, _, err = config("new", "dmo")
    assert code == 2
    assert "did you mean demo?" in err
    assert config("new", "demo", "--from", "my.toml")[0] == 2


def test_new_says_that_a_run_would_not_start(files, config, in_json):
    code, out, _ = config("new", "seed_example")
    assert code == 0
    assert "but a run of it would not start: services.task_url" in out
    assert " validate " in out and " train " not in out
    _, data = in_json("new", "demo")
    assert data["cannot_run"] == []


def test_new_to_stdout(files, config):
    code, out, _ = config("new", "--from", "old.toml", "--out", "-")
    assert (code, out) == (0, SDK_EXAMPLE)
    assert sorted(os.listdir()) == ["my.toml", "old.toml"]


def test_a_copy_is_checked_where_it_is_before_train_is_named(files, config, in_json):
    (files / "my.env").write_text("A=1\n")
    (files / "ef.toml").write_text('env_file_path = "my.env"\n' + (files / "my.toml").read_text())
    (files / "sub").mkdir()
    code, out, _ = config("new", "--from", "ef.toml", "--out", "sub/ef.toml")
    assert code == 0
    assert "but it is not valid there: env_file_path" in out
    assert " validate " in out and " train " not in out
    assert " train " in config("new", "--from", "ef.toml", "--out", "beside.toml")[1]
    _, data = in_json("new", "--from", "ef.toml", "--out", "sub/again.toml")
    assert [item["key"] for item in data["errors"]] == ["env_file_path"]
