"""Finding the verb, and what happens when there is none."""

import json
import os
import stat
import subprocess
import sys
from types import SimpleNamespace

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
    assert ("--theme" if verb == "attach" else "--json") in capsys.readouterr().out  # the interface prints no data


def test_help_on_a_verb_is_its_own_where_no_topic_has_the_name(capsys):
    assert entry.main(["help", "judge"]) == 0 and "usage: rltui judge" in capsys.readouterr().out
    assert entry.main(["help", "doctor"]) == 0 and "What is wrong with the run" in capsys.readouterr().out


def test_an_unknown_verb_names_the_nearest(capsys):
    assert entry.main(["tran", "x"]) == 2
    assert "`rltui train`" in capsys.readouterr().err


def test_wrong_usage_is_2(capsys):
    assert entry.main(["show"]) == 2
    assert entry.main(["runs", "--jsn"]) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["show", "--json"], "required: RUN"),
        (["runs", "--json", "--nonsense"], "--nonsense"),
        (["metrics", "x", "y", "--all", "--json"], "--all"),
        (["config", "--json"], "no verb"),
        (["tran", "--json"], "rltui train"),
    ],
)
def test_wrong_usage_with_json_is_one_object(capsys, given, words):
    assert entry.main(given) == 2
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["schema"], told["ok"]) == (1, False) and words in told["error"]["message"]
    assert told["error"]["message"] in err


def test_a_fault_of_our_own_with_json_is_one_object(monkeypatch, capsys):
    monkeypatch.setattr("rltui.cli.runs.run", lambda args: 1 / 0)
    assert entry.main(["runs", "--json"]) == 3
    assert "ZeroDivisionError" in json.loads(capsys.readouterr().out)["error"]["message"]


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


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["validate", "my.toml"], 0),
        (["validate", "bad.toml"], 2),
        (["validate", "bad.toml", "--json"], 2),
        (["config", "set", "my.toml", "training.seed", "7"], 0),
        (["config", "set", "my.toml", "training.group_size", "3"], 2),
        (["config", "diff", "my.toml", "other.toml"], 1),
        (["explain", "training"], 0),
        (["train", "--help"], 0),
        (["train", "bad.toml"], 2),
        (["nonsense"], 2),
    ],
)
def test_a_closed_pipe_changes_neither_the_work_nor_its_exit_status(here, args, code):
    (here / "bad.toml").write_text("x = [")
    (here / "other.toml").write_text((here / "my.toml").read_text().replace("group_size = 4", "group_size = 2"))
    command = [sys.executable, "-m", "rltui", *args]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=writer, env=environment(), timeout=60)
    os.close(writer)
    assert done.returncode == code
    assert ("seed = 7" in (here / "my.toml").read_text()) == ("7" in args)


def test_a_full_disk_behind_stdout_is_told(here):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rltui", "validate", "my.toml"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=60,
        )
    assert done.returncode == 3
    assert b"no space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--dry-run", "my.toml", "training.seed", "7"],
        ["my.toml", "--dry-run", "training.seed", "7"],
        ["my.toml", "training.seed", "--dry-run", "7"],
        ["my.toml", "training.seed", "7", "--dry-run"],
    ],
)
def test_options_may_stand_anywhere(here, capsys, args):
    assert entry.main(["config", "set", *args]) == 0
    assert "+seed = 7" in capsys.readouterr().out


def test_files_may_follow_options(here, capsys):
    assert entry.main(["validate", "my.toml", "--set", "training.seed=1", "gone.toml"]) == 2
    assert "gone.toml: no such file" in capsys.readouterr().err


def test_out_is_a_file_like_any_other_and_leaves_nothing_beside_it(here, capsys):
    (here / "folder").mkdir()
    assert entry.main(["validate", "my.toml", "--out", "folder"]) == 2
    assert entry.main(["validate", "my.toml", "--out", "out.json"]) == 0
    assert {path.name for path in here.iterdir()} == {"folder", "my.toml", "out.json"}
    (here / "other").touch()
    assert (here / "out.json").stat().st_mode == (here / "other").stat().st_mode


def test_out_never_replaces_what_is_read(here, capsys):
    before = (here / "my.toml").read_text()
    for args in (["validate", "my.toml"], ["config", "set", "my.toml", "training.seed", "7"]):
        assert entry.main([*args, "--out", "./my.toml"]) == 2
        assert "give another --out" in capsys.readouterr().err
    assert (here / "my.toml").read_text() == before


def test_out_goes_through_links_and_into_pipes(here, capsys):
    (here / "kept").mkdir()
    (here / "kept" / "real.json").write_text("old")
    (here / "link.json").symlink_to("kept/real.json")
    (here / "new.json").symlink_to("kept/new.json")
    for name in ("link.json", "new.json"):
        assert entry.main(["validate", "my.toml", "--out", name]) == 0
        assert (here / name).is_symlink()
        assert json.loads((here / name).read_text())["ok"] is True
    assert {path.name for path in (here / "kept").iterdir()} == {"real.json", "new.json"}
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert entry.main(["validate", "my.toml", "--out", "pipe"]) == 0
    assert json.loads(os.read(reader, 100_000))["ok"] is True
    os.close(reader)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_out_never_replaces_a_device(tmp_path, monkeypatch):
    device = tmp_path / "device"
    device.touch()
    number, seen = device.stat().st_ino, os.stat
    as_device = SimpleNamespace(st_mode=stat.S_IFCHR | 0o666)
    monkeypatch.setattr(
        "rltui.cli.output.os.stat", lambda path, **more: as_device if path == device else seen(path, **more)
    )
    emit({"a": 1}, as_json=False, out=device)
    monkeypatch.undo()
    assert device.stat().st_ino == number
    assert json.loads(device.read_text()) == {"schema": 1, "a": 1}


def test_out_to_links_that_go_round_is_told(here, capsys):
    (here / "a").symlink_to("b")
    (here / "b").symlink_to("a")
    assert entry.main(["validate", "my.toml", "--out", "a"]) == 2
    assert "cannot write a" in capsys.readouterr().err


STREAMS = {
    "words to a full disk": (">/dev/null 2>/dev/full", 0),
    "data and words to a full disk": (">/dev/full 2>/dev/full", 3),
    "no stdout": (">&-", 0),
    "no stderr": ("2>&-", 0),
    "no stream at all": ("<&- >&- 2>&-", 0),
}


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("args", ["validate old.toml", "config migrate old.toml --stdout"])
def test_streams_that_take_nothing_change_no_result(files, args, streams):
    ends, code = STREAMS[streams]
    command = f"{sys.executable} -m rltui {args} {ends}"
    done = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, timeout=60)
    assert done.returncode == code
    if "no stdout" in streams:
        assert b"group_size" not in done.stderr, "data goes nowhere, not among the words"


def test_a_config_that_is_wrong_is_2_though_nobody_can_be_told(here):
    (here / "bad.toml").write_text("x = [")
    for ends in ("2>/dev/full", ">&- 2>&-"):
        command = f"{sys.executable} -m rltui config set bad.toml a 1 {ends}"
        assert subprocess.run(["sh", "-c", command], env=environment(), timeout=60).returncode == 2


def test_behind_two_dashes_stand_names_only(here, capsys):
    (here / "-x.toml").write_text((here / "my.toml").read_text())
    assert entry.main(["validate", "my.toml", "--strict", "--", "-x.toml"]) == 0
    assert "\n-x.toml: valid" in capsys.readouterr().out
    assert entry.main(["config", "set", "--dry-run", "--", "-x.toml", "policy.label", "-odd"]) == 0
    assert '+label = "-odd"' in capsys.readouterr().out
    assert entry.main(["train", "--dry-run", "--", "-x.toml"]) == 0
