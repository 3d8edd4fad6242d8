"""`rltui keys` and `rltui help TOPIC`: the same table, the same text, and what is wrong in a file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rltui.actions.table import BY_ID
from rltui.cli import help_topics, keys
from rltui.cli.main import _verb


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """`call(module, *arguments)` -> (exit status, stdout, stderr), with an own folder of settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "90")

    def run(module, *arguments):
        code = _verb("rltui x", module.__name__, "x", list(arguments))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def keys_toml(tmp_path):
    (tmp_path / "rltui").mkdir()
    return tmp_path / "rltui" / "keys.toml"


def test_keys_prints_every_action(call):
    code, out, err = call(keys)
    assert code == 0 and err == "cut to 90 columns; `rltui help PLACE` has the whole sentences, --json all of this\n"
    assert all(f" {id} " in out for id in BY_ID) and max(map(len, out.splitlines())) <= 90


def test_keys_as_json_has_the_users_keys(call, keys_toml):
    keys_toml.write_text('"runs.sort" = ["s", "f2"]\n')
    code, out, _ = call(keys, "--json")
    data = json.loads(out)
    sort = next(action for action in data["actions"] if action["id"] == "runs.sort")
    assert code == 0 and data["ok"] and (sort["keys"], sort["default"], sort["changed"]) == (["s", "f2"], ["o"], True)
    assert {action["id"] for action in data["actions"]} == set(BY_ID)


def test_a_conflict_is_a_finding_with_both_ids(call, keys_toml):
    keys_toml.write_text('"runs.sort" = "/"\n')
    code, out, err = call(keys, "--json")
    assert code == 1 and "runs.sort" in err and "runs.filter" in err
    assert json.loads(out)["conflicts"] == [{"key": "/", "actions": ["runs.sort", "runs.filter"]}]


def test_a_bad_file_is_named_with_its_line(call, keys_toml):
    keys_toml.write_text('"runs.sort" = "s"\n"runs.filtr" = "x"\n')
    code, _, err = call(keys)
    assert code == 2 and f"{keys_toml}:2: " in err and "runs.filter" in err


def test_help_prints_a_topic_and_refuses_another(call, keys_toml):
    keys_toml.write_text('"logs.wrap" = "b"\n')
    code, out, _ = call(help_topics, "logs")
    assert code == 0 and out.startswith("Logs\n") and "  b " in out and max(map(len, out.splitlines())) <= 92
    code, out, err = call(help_topics, "transcripts")
    assert (code, out) == (2, "") and "did you mean transcript?" in err
    code, out, _ = call(help_topics)
    assert code == 0 and "copying" in out


def test_they_load_neither_textual_nor_pydantic():
    code = "import sys, rltui.cli.keys, rltui.cli.help_topics; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"textual", "pydantic", "numpy", "httpx", "tomlkit"} & set(loaded)
