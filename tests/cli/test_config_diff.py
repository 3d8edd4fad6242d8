"""`rltui config diff`: meaning is compared, not spelling, and exactly."""

import json
import shutil

from tests.cli.conftest import CONFIG
from trainer.config import load


def test_diff_of_the_same_is_0(files, config):
    assert config("diff", "my.toml", "my.toml")[0] == 0


def test_diff_shows_keys_values_and_origins(files, config, in_json):
    (files / "b.toml").write_text(CONFIG.replace("group_size = 4", "group_size = 2"))
    code, out, err = config("diff", "my.toml", "b.toml")
    assert code == 1
    assert out == "training.group_size\n  - 4   (my.toml:22:14)\n  + 2   (b.toml:22:14)\n"
    assert "1 key differs" in err
    code, data = in_json("diff", "my.toml", "b.toml")
    assert (code, data["same"]) == (1, False)
    ((key, a, b),) = [(row["key"], row["a"]["value"], row["b"]["value"]) for row in data["differences"]]
    assert (key, a, b) == ("training.group_size", 4, 2)


def test_diff_compares_meaning_and_not_spelling(files, config):
    (files / "b.toml").write_text(CONFIG.replace("[policy]\nmodel_name", "[model]\nbase").replace("1e-3", "0.001"))
    assert config("diff", "my.toml", "b.toml")[0] == 0


def test_diff_with_a_run_takes_what_it_resolved_to(files, config, in_json):
    run = files / "runs" / "a-rl_0123456789abcdef"
    run.mkdir(parents=True)
    shutil.copy("my.toml", run / "config.toml")
    resolved = load("my.toml", sets=["training.seed=7"]).resolved()
    (run / "resolved.json").write_text(json.dumps(resolved))
    for name in (run, "rl_0123456789abcdef"):
        code, data = in_json("diff", name, "my.toml")
        assert code == 1
        assert [row["key"] for row in data["differences"]] == ["training.seed"]
        assert data["differences"][0]["a"]["origin"] == "set"
    (run / "resolved.json").write_text('{"values": [')
    code, _, err = config("diff", run, "my.toml")
    assert code == 2
    assert "resolved.json is damaged" in err and "config.toml instead" in err
    (run / "resolved.json").unlink()
    assert config("diff", run, "my.toml")[0] == 0


def test_a_section_that_only_one_side_has(files, in_json):
    (files / "b.toml").write_text(CONFIG + "[evaluation]\ninstances = 1\nevery_n_iters = 1\nseeds = [99]\n")
    _, data = in_json("diff", "my.toml", "b.toml")
    assert {row["key"].partition(".")[0] for row in data["differences"]} == {"evaluation"}
    assert all(row["a"] is None for row in data["differences"])


def test_diff_of_a_wrong_config_is_2(files, config):
    (files / "b.toml").write_text("x")
    assert config("diff", "my.toml", "b.toml")[0] == 2
    assert config("diff", "my.toml", "gone.toml")[0] == 2


def test_diff_tells_values_apart_as_toml_does(files, in_json):
    table = "[rollout.env_config]\na = 1\nb = 1\nc = 1.0\nd = [1, true]\ne = { f = 0.0, g = 1 }\n"
    (files / "a.toml").write_text(CONFIG + table)
    for old, new in (("a = 1", "a = true"), ("b = 1", "b = 1.0"), ("true]", "1]"), ("f = 0.0", "f = -0.0")):
        table = table.replace(old, new)
    (files / "b.toml").write_text(CONFIG + table)
    code, data = in_json("diff", "a.toml", "b.toml")
    assert code == 1
    assert [row["key"].removeprefix("rollout.env_config.") for row in data["differences"]] == ["a", "b", "d", "e.f"]
    (files / "b.toml").write_text(CONFIG.replace("1e-3", "0.001") + "[rollout.env_config]\n")
    assert in_json("diff", "my.toml", "b.toml")[0] == 0


def test_diff_shows_a_long_value_where_it_differs(files, config, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for name, letter in (("a.toml", "A"), ("b.toml", "B")):
        (files / name).write_text(f'{CONFIG}[tags]\nlong = "{"x" * 300}{letter}{"y" * 300}"\n')
    _, out, _ = config("diff", "a.toml", "b.toml")
    lines = out.splitlines()
    assert lines[0] == "tags.long"
    assert "xAy" in lines[1]
    assert "xBy" in lines[2]
    assert all(len(line) <= 60 for line in lines)


def test_diff_takes_the_beginning_of_a_run_in_the_runs_folder(files, config):
    run = files / "runs" / "a-rl_0123456789abcdef"
    run.mkdir(parents=True)
    shutil.copy("my.toml", run / "config.toml")
    (run / "resolved.json").write_text(json.dumps(load("my.toml", sets=["training.seed=7"]).resolved()))
    for name in ("runs/a-rl_01", "a-rl_01", "./runs/rl_0123"):
        code, out, err = config("diff", "my.toml", name)
        assert (code, out.splitlines()[0]) == (1, "training.seed"), err
