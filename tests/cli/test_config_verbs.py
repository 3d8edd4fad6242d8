"""`rltui config`: what it prints resolves to the same run, and what it writes is what was meant and no more."""

import io
import json
import os
import re
import shutil
import sys
import tomllib

import pytest

import rltui.cli.main as entry
from rltui.cli.config import VERBS
from rltui.cli.config.values import leaves
from rltui.samples import samples
from tests.cli.conftest import CONFIG, ROOT
from trainer.config import load, load_text

SDK_EXAMPLE = (ROOT / "tests" / "config" / "sdk_example.toml").read_text()
RATE = "learning_rate = 1e-3"


@pytest.fixture
def config(capsys):
    """`rltui config ARGS` in this process: exit code, stdout, stderr."""

    def run(*args):
        code = entry.main(["config", *map(str, args)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def in_json(config):
    def run(*args):
        code, out, _ = config(*args, "--json")
        (line,) = out.splitlines()
        return code, json.loads(line)

    return run


@pytest.fixture
def files(here):
    """my.toml, a valid config; old.toml, the SDK's example in old spellings."""
    (here / "old.toml").write_text(SDK_EXAMPLE)
    return here


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


# --- the group


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_with_an_example(verb, capsys):
    assert entry.main(["config", verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert f"rltui config {verb}" in out[out.index("examples:") :]


def test_alone_it_lists_the_verbs(config):
    code, out, _ = config()
    assert code == 0
    assert all(verb in out for verb in VERBS)


def test_an_unknown_verb_names_the_nearest(config):
    code, _, err = config("mirgate")
    assert code == 2
    assert "`rltui config migrate`" in err


# --- show


@pytest.mark.parametrize("origin", [(), ("--origin",)])
def test_what_show_prints_is_toml_of_the_resolved_values(files, config, origin):
    for name in ("my.toml", "old.toml"):
        code, out, _ = config("show", name, *origin)
        assert code == 0
        assert prune(tomllib.loads(out)) == prune(plain(load(name).values))


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
    assert prune(tomllib.loads(out)) == prune(plain(load("old.toml").values))


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
        CONFIG.replace(RATE, "learning_rate = 1_0.0e-4").replace("group_size = 4", "group_size = 5")
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


# --- set


def test_set_changes_that_value_and_not_one_byte_more(files, config):
    before = SDK_EXAMPLE.encode()
    code, out, _ = config("set", "old.toml", "training.learning_rate", "1_0e-6")
    assert code == 0
    assert "training.learning_rate: 5e-5 -> 1_0e-6   old.toml:36" in out
    assert (files / "old.toml").read_bytes() == before.replace(b"5e-5", b"1_0e-6")


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
    broken = CONFIG.replace("group_size = 4", "group_size = 5").replace('env_name = "facts"\n', "").replace(RATE, "")
    (files / "my.toml").write_text(broken)
    code, _, err = config("set", "my.toml", "rollout.env_name", "facts")
    assert code == 0
    assert "2 older problem(s)" in err
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


# --- diff


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
    assert "resolved.json cannot be read" in err
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


# --- new


def test_new_writes_a_sample_to_the_byte_and_never_over_a_file(files, config):
    code, out, _ = config("new", "demo")
    assert code == 0
    assert "rltui validate demo.toml" in out or "-m rltui validate demo.toml" in out
    assert (files / "demo.toml").read_bytes() == samples()["demo"].read_bytes()
    (files / "demo.toml").write_text("mine")
    code, _, err = config("new", "demo")
    assert code == 2
    assert "demo.toml exists" in err
    assert (files / "demo.toml").read_text() == "mine"


def test_new_with_sets(files, config):
    assert config("new", "demo", "--out", "b.toml", "--set", "training.learning_rate=5e-5")[0] == 0
    before, after = samples()["demo"].read_text(), (files / "b.toml").read_text()
    changed = [line for line in after.splitlines() if line not in before.splitlines()]
    assert len(changed) == 1
    assert re.match(r"learning_rate = 5e-5 +# ", changed[0])
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


def test_new_to_stdout(files, config):
    code, out, _ = config("new", "--from", "old.toml", "--out", "-")
    assert (code, out) == (0, SDK_EXAMPLE)
    assert sorted(os.listdir()) == ["my.toml", "old.toml"]


# --- migrate


def test_migrate_rewrites_in_place_and_keeps_a_backup(files, config):
    before = load("old.toml").values
    code, out, _ = config("migrate", "old.toml", "--check")
    assert code == 1
    assert "model.base -> policy.model_name" in out
    assert (files / "old.toml").read_text() == SDK_EXAMPLE
    code, out, err = config("migrate", "old.toml")
    assert code == 0
    assert "old.toml.bak" in out + err
    assert (files / "old.toml.bak").read_text() == SDK_EXAMPLE
    after = load("old.toml")
    assert after.values == before
    assert not [item for item in after.warnings if item.code == "migrated"]
    text = (files / "old.toml").read_text()
    assert config("migrate", "old.toml", "--check")[0] == 0
    assert config("migrate", "old.toml")[0] == 0
    assert (files / "old.toml").read_text() == text
    comments = [line.partition("#")[2] for line in SDK_EXAMPLE.splitlines() if "#" in line]
    assert all(comment in text for comment in comments)


def test_migrate_stdout_writes_nothing(files, config, in_json):
    code, out, err = config("migrate", "old.toml", "--stdout")
    assert code == 0
    assert load_text(out, "x").values == load("old.toml").values
    assert "model.base -> policy.model_name" in err
    assert (files / "old.toml").read_text() == SDK_EXAMPLE
    _, data = in_json("migrate", "old.toml", "--stdout")
    assert data["text"] == out
    assert {"old": "model.base", "new": "policy.model_name"} in data["moved"]


def test_migrate_names_conflicts_and_writes_nothing(files, config, in_json):
    text = SDK_EXAMPLE + '\n[policy]\nmodel_name = "another/model"\n'
    (files / "old.toml").write_text(text)
    code, _, err = config("migrate", "old.toml")
    assert code == 2
    assert "model.base" in err
    assert "another/model" in err
    assert (files / "old.toml").read_text() == text
    code, data = in_json("migrate", "old.toml", "--check")
    assert (code, data["ok"], data["written"]) == (2, False, False)


def test_migrate_of_no_toml_is_2(files, config):
    (files / "old.toml").write_text("x = [")
    code, _, err = config("migrate", "old.toml")
    assert code == 2
    assert "not TOML" in err


# --- schema


def test_schema_is_json_schema_of_every_section(files, config):
    code, out, _ = config("schema")
    assert code == 0
    schema = json.loads(out)
    assert "training" in schema["properties"]
    assert config("schema", "--out", "s.json")[0] == 0
    assert json.loads((files / "s.json").read_text()) == schema
    assert config("schema", "--out", "no/s.json")[0] == 2


# --- all of them


@pytest.mark.parametrize(
    "args",
    [
        ("show", "gone.toml"),
        ("get", "gone.toml", "training.seed"),
        ("set", "gone.toml", "training.seed", "1"),
        ("set", "-", "training.seed", "1"),
        ("diff", "gone.toml", "gone.toml"),
        ("migrate", "gone.toml"),
        ("migrate", "-"),
        ("new", "--from", "gone.toml"),
        ("show", "my.toml", "nonsense"),
        ("get", "my.toml", "training.nonsense"),
    ],
)
def test_what_cannot_be_done_is_2_in_words_and_in_json(files, config, in_json, args):
    code, out, err = config(*args)
    assert (code, out) == (2, "")
    assert err
    assert "fault of its own" not in err
    code, data = in_json(*args)
    assert (code, data["ok"]) == (2, False)


def test_standard_input_is_a_config_too(files, config, monkeypatch):
    for verb in (["show", "-", "training.group_size"], ["get", "-", "training.group_size"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONFIG.encode())))
        code, out, _ = config(*verb)
        assert code == 0
        assert "4" in out


def test_leaves_of_resolved_values_are_every_key(files):
    loaded = load("my.toml")
    found = leaves(loaded.resolved()["values"])
    assert found.keys() == loaded.origins.keys() - {"tags"}


def test_what_is_printed_cannot_act_on_the_terminal_and_is_whole(files, config):
    long = "x" * 20_000
    (files / "my.toml").write_text(CONFIG + f'[tags]\nevil = "\u202e\x9b2J"\nlong = "{long}"\n"\u202e" = 1\n')
    for args in (["show", "my.toml"], ["get", "my.toml", "tags.evil"], ["get", "my.toml", "tags.evil", "--given"]):
        code, out, _ = config(*args)
        assert code == 0
        assert not set(out) & {"\u202e", "\x9b", "\x1b"}
    assert tomllib.loads(config("show", "my.toml", "tags")[1])["tags"]["long"] == long
    assert tomllib.loads("x = " + config("get", "my.toml", "tags.evil", "--given")[1])["x"] == "\u202e\x9b2J"
    code, out, _ = config("set", "my.toml", "tags.evil", "\x1b[2Jcalm")
    assert code == 0
    assert not set(out) & {"\u202e", "\x9b", "\x1b"}


SECRET = "sk-proj-abcdefghijklmnop1234567890"


def test_secrets_are_neither_written_nor_repeated(files, config):
    code, _, err = config("set", "my.toml", "services.judge_url", SECRET, "--force")
    assert code == 2
    assert SECRET not in err
    assert "--force" not in err
    assert (files / "my.toml").read_text() == CONFIG
    (files / "my.toml").write_text(CONFIG + f'[judge.options]\napi_key_env = "{SECRET}"\n')
    for args in (
        ["get", "my.toml", "api_key_env", "--given"],
        ["set", "my.toml", "--unset", "judge.options.api_key_env", "--dry-run"],
        ["set", "my.toml", "judge.options.api_key_env", "OPENAI_API_KEY"],
    ):
        _, out, err = config(*args)
        assert SECRET not in out + err
    assert load("my.toml").config.judge.options.api_key_env == "OPENAI_API_KEY"
