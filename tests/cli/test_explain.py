"""`rltui explain`: every name that a config may hold has an answer, and no other has."""

import json

import pytest

import rltui.cli.main as entry
from rltui.cli.keynames import meanings
from trainer.config.keys import all_keys, all_sections
from trainer.config.migrations import MOVES, NO_EFFECT


def explain(capsys, *args):
    code = entry.main(["explain", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out, err


def asked(capsys, *args):
    code, out, _ = explain(capsys, *args, "--json")
    assert code == 0
    (line,) = out.splitlines()
    return json.loads(line)


def test_a_key_has_help_type_default_and_old_names(capsys):
    code, out, err = explain(capsys, "training.group_size")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "training.group_size"
    assert lines[1].strip().startswith(all_keys()["training.group_size"].summary)
    facts = dict(line.strip().split("  ", 1) for line in lines[2:] if "  " in line.strip())
    assert facts["type"].strip() == "integer >= 2, in episodes"
    assert "must be given" in facts["default"]
    assert "trainer.group_size" in facts["old names"]


def test_a_derived_key_shows_its_formula(capsys):
    assert "derived: max(4, training.weight_sync_interval)" in explain(capsys, "training.max_lag")[1]


def test_live_and_resume_are_told_apart(capsys):
    assert "may change while a run is going" in explain(capsys, "training.learning_rate")[1]
    assert "may differ when a run is resumed" in explain(capsys, "training.num_epochs")[1]
    assert "no: a run keeps it" in explain(capsys, "training.group_size")[1]


@pytest.mark.parametrize("kind", ["keys", "sections", "old", "no_effect"])
def test_every_name_has_an_answer(kind, capsys):
    names = {
        "keys": [key for key in all_keys() if key != "tags"],
        "sections": all_sections(),
        "old": [move.old for move in MOVES],
        "no_effect": [key.replace("*", "anything") for key in NO_EFFECT],
    }[kind]
    for name in names:
        data = asked(capsys, name)
        expected = {"keys": "key", "sections": "section", "old": "old", "no_effect": "no_effect"}[kind]
        assert data["kind"] == expected, name
        if kind == "old":
            assert data["now"] in all_keys(), name
        code, out, _ = explain(capsys, name)
        assert code == 0
        assert "None" not in out, name


def test_an_old_spelling_explains_where_it_moved(capsys):
    code, out, _ = explain(capsys, "model.base")
    assert code == 0
    assert out.startswith("model.base  is an old spelling of policy.model_name")
    assert all_keys()["policy.model_name"].summary.split(":")[0] in out
    assert asked(capsys, "verifier.options.model")["now"] == "judge.options.model"


def test_a_key_without_effect_says_why(capsys):
    assert "NCCL chooses the transport" in " ".join(explain(capsys, "rdma.enabled")[1].split())


def test_an_old_section_lists_its_moves(capsys):
    data = asked(capsys, "topology")
    assert data["moved"]["topology.tensor_parallel"] == "compute.topology.tensor_parallel"
    assert "topology.use_rdma" in data["no_effect"]


def test_a_section_lists_its_keys_within_the_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = explain(capsys, "training")
    assert code == 0
    lines = out.splitlines()
    for known in all_keys().values():
        if known.section == "training":
            assert any(line.split()[0] == known.name for line in lines[1:]), known.name
    assert any("[training.lora]" in line for line in lines)
    assert max(len(line) for line in lines if " -> " not in line and not line.startswith("[")) <= 60
    assert "\N{HORIZONTAL ELLIPSIS}" not in out
    text = " ".join(out.split())
    for known in all_keys().values():
        if known.section == "training":
            assert " ".join(known.summary.split()) in text, "no help is cut"
    assert 'anchor "behavior" ' in text
    assert "learning_rate required " in text


def test_alone_it_lists_the_sections(capsys):
    code, out, _ = explain(capsys)
    assert code == 0
    assert all(f"[{section}]" in out for section in all_sections())


def test_a_last_name_is_enough_where_it_is_the_only_one(capsys):
    assert asked(capsys, "group_size")["key"] == "training.group_size"
    assert asked(capsys, "clip_epsilon")["key"] == "hyperparams.clip_epsilon"


def test_a_last_name_of_several_explains_each_the_likeliest_first(capsys):
    data = asked(capsys, "max_turns")
    assert [item["key"] for item in data["meanings"]] == ["rollout.max_turns", "training.max_turns"]
    _, out, _ = explain(capsys, "max_turns")
    assert all(all_keys()[key].summary in out for key in ("rollout.max_turns", "training.max_turns"))
    assert [item["key"] for item in asked(capsys, "task_url")["meanings"]] == ["services.task_url", "smoke.task_url"]


@pytest.mark.parametrize(
    ("name", "key"), [("lr", "training.learning_rate"), ("num_generations", "training.group_size")]
)
def test_what_other_systems_call_so_is_explained(capsys, name, key):
    data = asked(capsys, name)
    assert (data["key"], data["called"]) == (key, name)
    assert f"{name} is a name of other systems for {key}" in explain(capsys, name)[1]


def test_a_word_lists_the_keys_that_speak_of_it(capsys):
    keys = [row["key"] for row in asked(capsys, "advantage")["keys"]]
    assert keys[0] == "training.advantage_std"
    assert "training.group_size" in keys
    code, out, _ = explain(capsys, "learning rate")
    assert code == 0
    assert "training.learning_rate" in out


def test_an_exact_name_mentions_its_namesakes(capsys):
    data = asked(capsys, "type")
    assert data["key"] == "type"
    assert "algorithm.type" in data["also"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gruop_size", "training.group_size"),
        ("gruop", "group"),
        ("trainign.group_size", "training.group_size"),
        ("log_intervall", None),
    ],
)
def test_an_unknown_name_is_2_with_the_nearest(capsys, name, near):
    code, _, err = explain(capsys, name)
    assert code == 2
    assert f"did you mean {near or ''}" in err


@pytest.mark.parametrize("name", ["", "a..b", "x\x1b[2J", "=", "a b", "\u202e"])
def test_what_is_no_key_at_all_is_2(capsys, name):
    code, _, err = explain(capsys, name)
    assert code == 2
    assert not set(err) & {"\x1b", "\u202e"}


def test_keys_of_free_tables_are_known_as_such(capsys):
    assert meanings("rollout.env_config.a.b")[0].now == "rollout.env_config"
    assert meanings("vllm.some_engine_option")[0].kind == "inner"
    assert meanings('tags."a.b"')[0].path == 'tags."a.b"'
    assert meanings("training.group_size.x") == []


def test_with_a_config_its_value_there_and_where_it_comes_from(here, capsys):
    _, out, _ = explain(capsys, "group_size", "--config", "my.toml")
    assert "4   (my.toml:22:14)" in out
    _, out, _ = explain(capsys, "max_lag", "--config", "my.toml")
    assert "4   (derived: max(4, training.weight_sync_interval))" in out
    (here / "old.toml").write_text((here / "my.toml").read_text().replace("[policy]", "[model]"))
    (here / "old.toml").write_text((here / "old.toml").read_text().replace("model_name", "base"))
    (leaf,) = asked(capsys, "model.base", "--config", "old.toml")["new"]["here"]
    assert (leaf["value"], leaf["origin"], leaf["was"]) == ("builtin:tiny", "migrated", "model.base")


def test_with_a_config_that_is_wrong_its_errors(here, capsys):
    (here / "my.toml").write_text("x = ")
    code, _, err = explain(capsys, "group_size", "--config", "my.toml")
    assert code == 2
    assert "my.toml:1:" in err
    assert "not TOML" in err
