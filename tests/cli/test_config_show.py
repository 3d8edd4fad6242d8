"""`rltui config show` and `get`: what they print resolves to the same run."""

import json
import re
import tomllib

import pytest

from rltui.samples import samples
from tests.cli.conftest import CONFIG
from trainer.config import load, load_text


def plain(values):
    """Resolved values as TOML can say them: nothing that is unset."""
    if isinstance(values, dict):
        return {name: plain(item) for name, item in values.items() if item is not None}
    return values


def prune(values):
    """Without tables that hold nothing."""
    if not isinstance(values, dict):
        return values
    kept = {name: prune(item) for name, item in values.items()}
    return {name: item for name, item in kept.items() if item != {}}


@pytest.mark.parametrize("origin", [(), ("--origin",)])
def test_what_show_prints_is_a_config_of_the_same_values(files, config, origin):
    for name in ("my.toml", "old.toml", *map(str, samples().values())):
        code, out, _ = config("show", name, *origin)
        assert code == 0
        loaded = load(name)
        assert load_text(out, "shown.toml").values == loaded.values
        given = tomllib.loads(out)
        if loaded.values["compute"]["gpu_type"] is None:
            assert "gpu_count" not in given.get("compute", {}), "half a machine is an error"
        else:
            assert prune(given) == prune(plain(loaded.values))


def test_show_names_each_origin(files, config, monkeypatch):
    monkeypatch.setenv("RLTUI__TRAINING__SEED", "3")
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = config("show", "old.toml", "--origin", "--set", "policy.max_tokens=9")
    found = dict(re.findall(r"^(\w+ = .*?)  +# (.*)$", out, re.MULTILINE))
    assert found["seed = 3"] == "env RLTUI__TRAINING__SEED"
    assert found["max_tokens = 9"] == "--set"
    assert found["group_size = 4"] == "old.toml:35:14"
    assert found['model_name = "Qwen/Qwen3-4B"'] == "old.toml:21:8, migrated from model.base"
    assert found["max_lag = 4"] == "derived: max(4, training.weight_sync_interval)"
    assert found["temperature = 0.7"] == "default"


def test_show_fits_its_comments_into_the_columns_and_leaves_values_whole(files, config, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    _, out, _ = config("show", "old.toml", "--origin")
    assert all(len(line) <= 50 for line in out.splitlines() if len(line.split("  #")[0]) <= 46)
    assert load_text(out, "shown.toml").values == load("old.toml").values


def test_show_given_leaves_defaults_out(files, config):
    _, out, _ = config("show", "my.toml", "--given")
    assert tomllib.loads(out) == tomllib.loads(CONFIG)


def test_show_a_part(files, config, in_json):
    _, out, _ = config("show", "my.toml", "training.lora")
    assert set(tomllib.loads(out)["training"]) == {"lora"}
    _, out, _ = config("show", "my.toml", "group_size")
    assert tomllib.loads(out) == {"training": {"group_size": 4}}
    _, data = in_json("show", "my.toml", "group_size")
    assert data["keys"]["training.group_size"]["at"] == "my.toml:22:14"
    _, out, err = config("show", "old.toml", "model.base")
    assert tomllib.loads(out) == {"policy": {"model_name": "Qwen/Qwen3-4B"}}
    assert "old spelling of policy.model_name" in err


def test_show_json_is_the_resolved_config(files, in_json):
    _, data = in_json("show", "my.toml", "--out", "r.json")
    assert data == json.loads(json.dumps(load("my.toml").resolved()))
    assert json.loads((files / "r.json").read_text()) == data


def test_show_of_a_wrong_config_is_its_errors(files, config):
    code, out, err = config("show", "my.toml", "--set", "training.group_size=3")
    assert (code, out) == (2, "")
    assert "--set: training.group_size = 3" in err


def test_show_given_has_what_was_given_and_overruled(files, config):
    rewards = "[training.rewards]\nstep_rewards_mode = 'decision_stepwise'\nstep_rewards_beta = 0.0\n"
    (files / "my.toml").write_text(CONFIG + rewards)
    code, out, _ = config("show", "my.toml", "training.rewards", "--given", "--origin")
    assert code == 0
    assert out.splitlines()[-1].startswith("step_rewards_beta = 1.0")
    assert "# instead of 0.0 at my.toml" in out.splitlines()[-1]


# --- get


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        ("training.group_size", "4"),
        ("group_size", "4"),
        ("policy.label", '"my run"'),
        ("training.lora.target_modules", '["all-linear"]'),
        ("training.max_lag", "4"),
        ("judge.enabled", "false"),
    ],
)
def test_get_prints_toml(files, config, key, printed):
    assert config("get", "my.toml", key) == (0, f"{printed}\n", "")


def test_get_inside_free_tables(files, config):
    (files / "my.toml").write_text(CONFIG + '[rollout.env_config]\na = { "b.c" = [1, 2] }\n[tags]\nx = "y"\n')
    assert config("get", "my.toml", 'rollout.env_config.a."b.c"')[:2] == (0, "[1, 2]\n")
    assert config("get", "my.toml", "tags.x")[:2] == (0, '"y"\n')
    assert config("get", "my.toml", "rollout.env_config.z")[0] == 1
    assert config("get", "my.toml", "rollout.env_config", "--given")[:2] == (0, '{ a = { "b.c" = [1, 2] } }\n')


def test_get_what_is_unset_is_1(files, config, in_json):
    code, out, err = config("get", "my.toml", "training.max_minutes")
    assert (code, out) == (1, "")
    assert "is unset" in err
    code, data = in_json("get", "my.toml", "training.max_minutes")
    assert (code, data["value"], data["text"]) == (1, None, None)


def test_get_given_keeps_the_spelling_and_reads_wrong_configs(files, config):
    (files / "my.toml").write_text(
        CONFIG.replace("learning_rate = 1e-3", "learning_rate = 1_0.0e-4").replace("group_size = 4", "group_size = 5")
    )
    assert config("get", "my.toml", "learning_rate", "--given")[:2] == (0, "1_0.0e-4\n")
    assert config("get", "my.toml", "training.seed", "--given")[0] == 1
    assert config("get", "my.toml", "learning_rate")[0] == 2


def test_get_across_spellings(files, config):
    code, out, err = config("get", "old.toml", "policy.model_name", "--given")
    assert (code, out) == (0, '"Qwen/Qwen3-4B"\n')
    assert "model.base" in err
    assert config("get", "old.toml", "model.base")[:2] == (0, '"Qwen/Qwen3-4B"\n')


def test_get_a_section_points_to_show(files, config):
    code, _, err = config("get", "my.toml", "training")
    assert code == 2
    assert "rltui config show my.toml training" in err
