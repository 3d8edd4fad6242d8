"""Finding the verb, and what happens when there is none."""

import json
import subprocess
import sys

import pytest

import rltui.cli.main as entry
from rltui.cli.output import CliError, emit
from tests.cli.conftest import ROOT, environment


@pytest.mark.parametrize("args", [[], ["--help"], ["help"], ["-h"]])
def test_help_lists_the_verbs(args, capsys):
    assert entry.main(args) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in entry.VERBS)


@pytest.mark.parametrize("verb", entry.VERBS)
def test_each_verb_explains_itself(verb, capsys):
    assert entry.main([verb, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_an_unknown_verb_names_the_nearest(capsys):
    assert entry.main(["tran", "x"]) == 2
    assert "`rltui train`" in capsys.readouterr().err


def test_wrong_usage_is_2(capsys):
    assert entry.main(["show"]) == 2
    assert entry.main(["runs", "--jsn"]) == 2


def test_a_fault_of_our_own_shows_no_traceback(monkeypatch, capsys):
    monkeypatch.setattr("rltui.cli.runs.run", lambda args: 1 / 0)
    assert entry.main(["runs"]) == 3
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err


def test_an_interrupt_is_130(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("rltui.cli.runs.run", interrupted)
    assert entry.main(["runs"]) == 130


def test_json_has_no_nan_and_only_ascii(capsys):
    emit({"a": float("nan"), "b": [float("inf"), 1.5], "c": "\x1b\u202e"}, as_json=True)
    line = capsys.readouterr().out
    assert line.isascii()
    assert json.loads(line) == {"schema": 1, "a": None, "b": [None, 1.5], "c": "\x1b\u202e"}


def test_out_names_the_file_that_cannot_be_written(tmp_path):
    with pytest.raises(CliError, match="cannot write"):
        emit({}, as_json=False, out=tmp_path / "no" / "file")


def test_the_verbs_that_only_read_load_nothing_heavy(here):
    code = (
        "import sys; from rltui.cli.main import main; main(['runs']);"
        "heavy = {'torch', 'transformers', 'peft', 'textual', 'pydantic', 'tomlkit', 'httpx'};"
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, cwd=ROOT)
