"""`rltui config`: what all of its verbs share, and the schema."""

import io
import json
import sys
import tomllib

import pytest

import rltui.cli.main as entry
from rltui.cli.config import VERBS
from rltui.cli.config.values import leaves
from tests.cli.conftest import CONFIG
from trainer.config import load


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_with_an_example(verb, capsys):
    assert entry.main(["config", verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert ("--theme" if verb == "edit" else "--json") in out  # the interface prints no data
    assert f"rltui config {verb}" in out[out.index("examples:") :]


def test_alone_it_lists_the_verbs(config):
    code, out, _ = config()
    assert code == 0
    assert all(verb in out for verb in VERBS)


def test_an_unknown_verb_names_the_nearest(config):
    code, _, err = config("mirgate")
    assert code == 2
    assert "`rltui config migrate`" in err


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
