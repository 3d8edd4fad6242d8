"""`rltui config set`: what it writes is what was meant and no more."""

import os
import shutil
import tomllib

import pytest

from tests.cli.conftest import CONFIG, SDK_EXAMPLE
from trainer.config import load


def test_set_changes_that_value_and_not_one_byte_more(files, config):
    before = SDK_EXAMPLE.encode()
    assert before.count(b"5e-5  ") == 1
    code, out, _ = config("set", "old.toml", "training.learning_rate", "1_0e-6")
    assert code == 0
    assert "training.learning_rate: 5e-5 -> 1_0e-6   old.toml:36" in out
    # the comment keeps its column
    assert (files / "old.toml").read_bytes() == before.replace(b"5e-5  ", b"1_0e-6")


@pytest.mark.parametrize(
    ("typed", "written", "value"),
    [
        ("lora", '"lora"', "lora"),
        ('"a b"', '"a b"', "a b"),
        ("'c'", "'c'", "c"),
        ("http://x/y?a=1#z", '"http://x/y?a=1#z"', "http://x/y?a=1#z"),
        ("1979-05-27", '"1979-05-27"', "1979-05-27"),
        ("a # b", '"a # b"', "a # b"),
    ],
)
def test_set_writes_a_bare_word_as_a_string(files, config, typed, written, value):
    assert config("set", "my.toml", "policy.label", typed)[0] == 0
    assert f"label = {written}\n" in (files / "my.toml").read_text()
    assert load("my.toml").config.policy.label == value


@pytest.mark.parametrize("pairs", [["training.seed=4"], ["training.seed", "=", "4"], ["training.seed", "4"]])
def test_set_takes_key_equals_value(files, config, pairs):
    code, _, err = config("set", "my.toml", *pairs, "policy.label", "a=b", 'tags."x=y"', "1")
    assert code == 0, err
    loaded = load("my.toml")
    assert (loaded.config.training.seed, loaded.config.policy.label) == (4, "a=b")
    assert loaded.values["tags"]["x=y"] == 1


def test_set_several_with_new_sections_and_unset(files, config, in_json):
    code, data = in_json(
        "set", "my.toml", "training.lora.r", "8", "evaluation.seeds", "[7, 8]", "evaluation.instances", "2",
        "evaluation.every_n_iters", "1", "policy.top_k", "-1", "--unset", "rollout.max_concurrent_rollouts",
    )  # fmt: skip
    assert code == 0
    assert data["written"] is True
    loaded = load("my.toml")
    assert loaded.config.training.lora.r == 8
    assert loaded.config.evaluation.seeds == [7, 8]
    assert loaded.config.policy.top_k == -1
    assert loaded.origins["rollout.max_concurrent_rollouts"].kind == "derived"
    text = (files / "my.toml").read_text().splitlines()
    for change in data["changes"]:
        if change["new"] is None:
            assert (change["key"], change["old"]) == ("rollout.max_concurrent_rollouts", "8")
        else:
            assert text[change["line"] - 1] == f"{change['key'].rpartition('.')[2]} = {change['new']}"


def test_set_refuses_what_breaks_the_config(files, config, in_json):
    code, out, err = config("set", "my.toml", "training.group_size", "3")
    assert (code, out) == (2, "")
    assert "nearest: 2, 4" in err
    assert "nothing was written" in err
    assert (files / "my.toml").read_text() == CONFIG
    code, data = in_json("set", "my.toml", "training.group_sise", "4")
    assert code == 2
    assert "training.group_size" in data["error"]["errors"][0]["why"]
    assert (files / "my.toml").read_text() == CONFIG


def test_set_force_writes_it_and_says_what_is_wrong(files, config):
    code, _, err = config("set", "my.toml", "training.group_size", "3", "--force")
    assert code == 0
    assert "training.group_size = 3" in err
    assert "group_size = 3" in (files / "my.toml").read_text()


def test_set_repairs_a_broken_config_one_key_at_a_time(files, config):
    broken = (
        CONFIG.replace("group_size = 4", "group_size = 5")
        .replace('env_name = "facts"\n', "")
        .replace("learning_rate = 1e-3", "")
    )
    (files / "my.toml").write_text(broken)
    code, _, err = config("set", "my.toml", "rollout.env_name", "facts")
    assert code == 0
    assert "2 older problems" in err
    assert config("set", "my.toml", "training.group_size", "6")[0] == 2, "still wrong where it was touched"
    assert config("set", "my.toml", "training.group_size", "2")[0] == 0
    assert config("set", "my.toml", "training.learning_rate", "1e-4")[0] == 0
    assert load("my.toml").config.training.group_size == 2


def test_set_unset_of_a_required_key_is_refused(files, config):
    code, _, err = config("set", "my.toml", "--unset", "training.group_size")
    assert code == 2
    assert "training.group_size" in err


def test_set_writes_under_the_spelling_of_the_file(files, config):
    for key, value in (("policy.model_name", "a/b"), ("model.label", "mine")):
        assert config("set", "old.toml", key, value)[0] == 0
    data = tomllib.loads((files / "old.toml").read_text())
    assert data["model"] == {"base": "a/b", "trainer_mode": "lora", "label": "mine"}
    assert "policy" not in data
    code, _, err = config("set", "my.toml", "model.base", "a/b")
    assert code == 0
    assert "model.base is written as policy.model_name" in err
    assert load("my.toml").config.policy.model_name == "a/b"


def test_set_unset_takes_the_spelling_of_the_file(files, config):
    assert config("set", "old.toml", "--unset", "compute.topology.tensor_parallel")[0] == 0
    assert "tensor_parallel" not in tomllib.loads((files / "old.toml").read_text())["topology"]
    code, _, err = config("set", "old.toml", "--unset", "training.max_lag")
    assert code == 0
    assert "training.max_lag is not in old.toml" in err


def test_set_refuses_an_old_key_whose_value_means_something_else(files, config):
    code, _, err = config("set", "my.toml", "hyperparams.clip_epsilon", "0.1")
    assert code == 2
    assert "set training.clip_eps_low instead" in err


def test_set_dry_run_is_a_diff_and_writes_nothing(files, config):
    code, out, _ = config("set", "my.toml", "training.group_size", "2", "--dry-run")
    assert code == 0
    assert "-group_size = 4\n+group_size = 2\n" in out
    assert (files / "my.toml").read_text() == CONFIG


def test_set_the_same_value_writes_nothing(files, in_json):
    stamp = os.stat("my.toml").st_mtime_ns
    code, data = in_json("set", "my.toml", "training.group_size", "4")
    assert (code, data["written"]) == (0, False)
    assert os.stat("my.toml").st_mtime_ns == stamp


def test_set_keeps_crlf_and_a_byte_order_mark(files, config):
    content = ("\ufeff" + CONFIG.replace("\n", "\r\n")).encode()
    (files / "my.toml").write_bytes(content)
    assert config("set", "my.toml", "training.group_size", "2")[0] == 0
    assert (files / "my.toml").read_bytes() == content.replace(b"group_size = 4", b"group_size = 2")


@pytest.mark.parametrize(
    "args",
    [
        ("training.seed",),
        (),
        ("training.seed", "[1"),
        ("a..b", "1"),
        ("training.seed", "1", "--unset", "training.seed"),
    ],
)
def test_set_with_wrong_usage_is_2(files, config, args):
    assert config("set", "my.toml", *args)[0] == 2
    assert (files / "my.toml").read_text() == CONFIG


def test_set_leaves_the_record_of_a_run_alone(files, config):
    run = files / "runs" / "a-rl_0123456789abcdef"
    run.mkdir(parents=True)
    shutil.copy("my.toml", run / "config.toml")
    for verb in (["set", run / "config.toml", "training.seed", "1"], ["migrate", run / "config.toml", "--check"]):
        code, _, err = config(*verb)
        assert code == (2 if verb[0] == "set" else 0), err
    assert (run / "config.toml").read_text() == CONFIG
    assert config("new", "--from", run, "--out", "again.toml")[0] == 0
    assert (files / "again.toml").read_text() == CONFIG


def test_set_says_that_json_is_not_its_matter(files, config):
    (files / "job.json").write_text("{}")
    code, _, err = config("set", "job.json", "training.seed", "7")
    assert (code, err) == (2, "job.json is JSON, and this verb edits TOML files only; nothing was written\n")
    assert (files / "job.json").read_text() == "{}"
