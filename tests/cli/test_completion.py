"""The scripts of `rltui completion`, sourced in the shells they are for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import rltui.cli.main as entry
from rltui.cli.shells.grammar import grammar
from tests.tui.terminal_session import TerminalSession

HOSTILE = "a $(touch owned) 'b' ;-rl_00000000000000ff"
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        assert entry.main(["completion", shell, "--out", str(folder / f"{shell}.json")]) == 0
        (folder / f"rltui.{shell}").write_text(json.loads((folder / f"{shell}.json").read_text())["script"])
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with runs, configs, and what is neither."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs/guess-rl_0000000000000001", "runs/guess-rl_0000000000000002", "runs/no-run", "configs"):
        Path(name).mkdir(parents=True)
    for name in (f"runs/{HOSTILE}", "runs/facts"):
        Path(name).mkdir()
        Path(name, "status.json").touch()
    Path("other/one-rl_0000000000000003").mkdir(parents=True)
    for name in ("my.toml", "my.json", "notes.txt"):
        Path(name).touch()
    return tmp_path


def in_bash(scripts: Path, line: str) -> list[str]:
    """What bash offers at the end of the line, which it splits as readline does."""
    words = [word for part in line.split(" ") for word in part.replace("=", " = ").strip().split(" ") or [""]]
    program = (
        f'source "{scripts}/rltui.bash"; compopt() {{ :; }}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rltui\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", program, "bash", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(filter(None, done.stdout.split("\n")))


def in_fish(scripts: Path, line: str) -> list[str]:
    program = f'source "{scripts}/rltui.fish"; complete -C "$argv[1]"'
    done = subprocess.run(["fish", "--no-config", "-c", program, line], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(offer.split("\t")[0] for offer in done.stdout.splitlines())


def in_zsh(scripts: Path, line: str, home: Path) -> list[str]:
    """What zsh hands to compadd, seen at a terminal: its completion runs nowhere else."""
    (home / ".zshrc").write_text(
        "PS1='ready> '; unsetopt beep; autoload -Uz compinit; compinit -u -D\n"
        f'source "{scripts}/rltui.zsh"\n'
        "compadd() {\n"
        '    local -a got; builtin compadd -O got "$@"; (( $#got )) && print -rl -- $got >> "$OFFERS"\n'
        '    builtin compadd "$@"\n'
        "}\n"
        'offer() { zle complete-word; print >> "$OFFERS"; mv "$OFFERS" "$OFFERS.all" }\n'
        "zle -N offer; bindkey '^I' offer\n"
    )
    offers = home / "offers.all"
    offers.unlink(missing_ok=True)
    env = {"ZDOTDIR": str(home), "OFFERS": str(home / "offers")} | runs_folder()
    with TerminalSession(["zsh", "-i"], env=env, columns=200) as session:
        session.wait_for("ready>")
        session.send(line, "tab")
        session.wait_for(lambda _: offers.exists())
    return sorted(set(filter(None, offers.read_text().splitlines())))


def runs_folder() -> dict[str, str]:
    """Of the environment of this process, which the terminal's is cleaned of."""
    return {name: value for name, value in os.environ.items() if name == "RLTUI__LOGGING__RUNS_DIR"}


@pytest.fixture(params=SHELLS)
def complete(request, scripts, place, tmp_path_factory):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "zsh":
        home = tmp_path_factory.mktemp("home")
        return lambda line: in_zsh(scripts, line, home)
    return lambda line: (in_bash if request.param == "bash" else in_fish)(scripts, line)


def test_verbs_and_those_of_groups(complete):
    assert set(entry.VERBS) <= set(complete("rltui "))
    assert complete("rltui ru") == ["runs"]
    assert {"show", "set", "diff", "new"} <= set(complete("rltui config "))
    assert complete("rltui config sh") == ["show"]


def test_options_are_those_of_the_verb(complete):
    assert {"--json", "--follow", "--runs-dir"} <= set(complete("rltui show --"))
    assert complete("rltui show --fol") == ["--follow"]
    assert "--follow" not in complete("rltui config set --")
    assert "--theme" in complete("rltui --") and "--theme" not in complete("rltui runs --")


def test_runs_by_name_and_only_runs(complete, place):
    runs = {"guess-rl_0000000000000001", "guess-rl_0000000000000002", "facts"}
    offered = complete("rltui show ")
    assert runs <= set(offered) and "no-run" not in offered and "my.toml" not in offered
    assert any("owned" in name for name in offered)
    assert "facts" in complete("rltui show --json fa")
    assert complete("rltui stop --runs-dir other ") == ["one-rl_0000000000000003"]
    assert not (place / "owned").exists()


def test_the_runs_folder_may_come_from_the_environment(complete, monkeypatch):
    monkeypatch.setenv("RLTUI__LOGGING__RUNS_DIR", "other")
    assert complete("rltui attach o") == ["one-rl_0000000000000003"]


def test_configs_folders_keys_and_choices(complete):
    configs = {name.rstrip("/") for name in complete("rltui validate ")}
    assert {"my.toml", "configs"} <= configs and "notes.txt" not in configs
    assert "training.group_size" in complete("rltui explain training.group")
    assert "training.group_size" in complete("rltui config get my.toml training.group_s")
    assert set(complete("rltui completion ")) >= {"bash", "zsh", "fish"}
    assert "demo" in complete("rltui config new ")
    assert {name.rstrip("/") for name in complete("rltui runs con")} == {"configs"}


def test_a_value_of_an_option_is_no_argument(complete):
    assert "my.toml" in complete("rltui train --task-url http my")
    assert {name.rstrip("=") for name in complete("rltui train --set training.group_s")} == {"training.group_size"}


def test_bash_escapes_what_it_puts_on_the_line(scripts, place):
    with TerminalSession(["bash", "--norc", "-i"], env={"PS1": "ready> ", "INPUTRC": "/dev/null"}) as session:
        session.wait_for("ready>")
        session.send(f'source "{scripts}/rltui.bash"; rltui() {{ printf "<%s>" "$@"; }}', "enter")
        session.send("rltui show a", "tab")
        session.wait_for("00ff")
        session.send("enter")
        session.wait_for(f"<show><{HOSTILE}>")
    assert not (place / "owned").exists()


def test_the_grammar_follows_the_parsers():
    verbs = {" ".join(verb.path): verb for verb in grammar()}
    assert set(entry.VERBS) | {"", "config set", "taskapp serve"} <= set(verbs)
    show = verbs["show"]
    assert [argument.takes for argument in show.arguments] == ["run"]
    takes = {flag: option.takes for option in show.options for flag in option.flags}
    assert takes["--runs-dir"] == "folder" and takes["--out"] == "file" and takes["--follow"] == ""
    assert not any(os.linesep in option.about for verb in verbs.values() for option in verb.options)


def test_an_unknown_shell_is_refused_with_the_known_ones(capsys):
    assert entry.main(["completion", "tcsh"]) == 2
    words = capsys.readouterr().err
    assert all(shell in words for shell in SHELLS)
