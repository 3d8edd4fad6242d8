"""Around the form: the person's editor, whether an address answers, paths that are completed, what can be opened."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rltui.cli.main import main
from rltui.model import drafts
from rltui.model.form_diff import sides, unified
from rltui.model.form_starts import begin, starts
from rltui.model.reach import reach
from rltui.samples import samples
from rltui.screens.config.editor import completed
from rltui.terminal.editor import EditorError, at_line, command, edited
from rltui.words import shortened

SEED = samples()["seed_example"].read_text()


@pytest.mark.parametrize(
    ("editor", "wanted"),
    [
        (["vim"], ["vim", "+7", "f.toml"]),
        (["emacs", "-nw"], ["emacs", "-nw", "+7", "f.toml"]),
        (["/usr/bin/code"], ["/usr/bin/code", "--wait", "--goto", "f.toml:7"]),
        (["hx"], ["hx", "f.toml:7"]),
    ],
)
def test_editors_are_told_the_line_in_their_own_way(editor, wanted):
    assert at_line(editor, "f.toml", 7) == wanted


def test_the_editor_is_the_persons_own_and_its_failures_are_said():
    assert command({"VISUAL": "a -b", "EDITOR": "c"}) == ["a", "-b"]
    assert command({"VISUAL": " ", "EDITOR": "c"}) == ["c"]
    with pytest.raises(EditorError, match="ended with 1"):
        edited("x", "f.toml", 1, {"EDITOR": "false"})
    with pytest.raises(EditorError, match="no-such-editor"):
        edited("x", "f.toml", 1, {"EDITOR": "no-such-editor"})
    assert edited("x = 1\r\n", "f.toml", 1, {"EDITOR": "true"}) == "x = 1\r\n"


def test_an_address_answers_or_says_why_not():
    with socket.socket() as listening, socket.socket() as deaf:
        for taken in (listening, deaf):
            taken.bind(("127.0.0.1", 0))
        listening.listen()
        assert reach(f"http://127.0.0.1:{listening.getsockname()[1]}/x")[0]
        good, said = reach(f"http://127.0.0.1:{deaf.getsockname()[1]}/x")
        assert not good and "refused" in said
    assert not reach("builtin:facts")[0] and not reach("http://[::1")[0]


def test_paths_are_completed_and_hidden_names_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / ".hidden").touch()
    (tmp_path / "evil\x1b[31m").touch()
    assert completed("./ru") == "./runs/" and completed("r") == "runs/"
    assert completed("./.h") == "./.hidden" and completed("./x") is None and completed("./ev") is None


def test_what_can_be_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("# Mine\n[algorithm]\n")
    (tmp_path / "other.toml").write_text("[tool]\n")
    (tmp_path / "a_copy.toml").write_text(samples()["demo"].read_text())
    run = tmp_path / "runs" / "guess-rl_0123456789abcdef"
    run.mkdir(parents=True)
    (run / "config.toml").write_text(SEED)
    found = starts(Path(), [("guess", run, "failed")])
    assert [(one.kind, one.name, one.about) for one in found if one.kind != "preset"] == [
        ("file", "a_copy.toml", "begun as demo"),
        ("file", "mine.toml", "Mine"),
        ("run", "guess", "its config; the run failed"),
    ]
    other = tmp_path.parent / f"{tmp_path.name}-other"
    other.mkdir()
    for path in (tmp_path / "mine.toml", other / "theirs.toml"):
        drafts.keep(drafts.Draft(str(path), "", SEED, SEED, SEED, 1.0))
    listed = starts(Path(), [])
    assert (listed[0].name, listed[-1].name) == ("mine.toml", "theirs.toml")
    assert listed[-1].about.startswith(f"of {shortened(other)}, unsaved edits")
    form = begin(found[-1])
    assert (form.path, form.name, form.text, form.dirty) == (None, "guess.toml", SEED, True)
    demo = begin(next(one for one in found if one.name == "demo"))
    assert "sample_configs" not in demo.text and demo.path is None


def test_a_diff_shows_no_secret_and_sides_are_resolved_values():
    other = SEED.replace("max_turns = 10 ", "max_turns = 12 ")
    assert [side for side in sides(SEED, other, "a", "b") if side.key == "rollout.max_turns"] == [
        ("rollout.max_turns", "10", "12")
    ]
    secret = SEED + '[judge.options]\napi_key = "sk-abcdefghij0123456789"\n'
    assert "abcdefghij" not in "\n".join(unified(SEED, secret, "a", "b"))
    assert "abcdefghij" not in repr(sides(SEED, secret, "a", "b"))


def test_the_verb_says_what_it_cannot_open(tmp_path, capsys):
    assert main(["config", "edit", str(tmp_path / "none.toml")]) == 2
    assert "no file" in capsys.readouterr().err
