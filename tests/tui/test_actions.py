"""The table of actions is whole and without contradiction, and a person's keymap can not break it."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from rltui.actions.contexts import CONTEXTS
from rltui.actions.guide import TOPICS, around, lines, sections, topic
from rltui.actions.keymap import clashes, default_keys, keys_file, load
from rltui.actions.keynames import key_name, shown
from rltui.actions.log import CommandLog
from rltui.actions.table import ACTIONS, BY_ID, LABEL_CELLS
from rltui.cli.main import VERBS


def test_every_action_is_whole():
    assert len(BY_ID) == len(ACTIONS)
    for action in ACTIONS:
        assert re.fullmatch(r"[a-z]+\.[a-z_0-9]+", action.id) and action.context in CONTEXTS, action.id
        assert 0 < len(action.label) <= LABEL_CELLS, action.id
        assert action.help.endswith(".") and len(action.help) <= 100, action.id
        assert action.keys or action.palette, f"{action.id} cannot be reached"
        assert not action.footer or action.keys, action.id
        for key in action.keys:
            assert key_name(key) == key, action.id
        if action.pair:
            assert BY_ID[f"{action.context}.{action.pair}"].label == action.label, action.id
    assert {action.context for action in ACTIONS} == set(CONTEXTS)


def test_no_action_needs_a_key_that_terminals_drop():
    for action in ACTIONS:
        plain = [key for key in action.keys if not re.match(r"(ctrl|alt|shift)\+|f\d", key)]
        old = {("shift+tab",), ("ctrl+c",), ("ctrl+z",)}  # what every terminal sends
        assert plain or not action.keys or action.keys in old, action.id


STANDS_FOR = {"STEP": "3", "N": "3", "VERB": "pause"}  # where a parser wants more than any word


def understood(command: str) -> tuple[str, argparse.Namespace]:
    """The verb of a command line, with its group, and what its own parser makes of the rest."""
    program, *words = shlex.split(command)
    assert program == "rltui"
    verb, verbs = "", VERBS
    while True:
        verb, module = f"{verb} {words[0]}".strip(), importlib.import_module(verbs[words.pop(0)][0])
        if not hasattr(module, "VERBS"):
            break
        verbs = module.VERBS
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    module.configure(parser)
    return verb, parser.parse_intermixed_args([STANDS_FOR.get(word, word) for word in words])


@pytest.mark.parametrize("action", [action for action in ACTIONS if action.cli], ids=lambda action: action.id)
def test_a_twin_is_a_command_that_its_verb_understands(action):
    verb, _ = understood(action.cli)
    if action.context == "monitor" and action.name in VERBS:  # a tab
        assert verb == action.name


TWINS = {  # what is done, and which verb with which of its arguments does the same
    "runs.steer": ("steer", {"run": "RUN", "verb": "pause"}),
    "monitor.steer": ("steer", {"run": "RUN", "verb": "pause"}),
    "monitor.past": ("overview", {"at": 3}),
    "monitor.logs": ("logs", {"follow": True}),
    "runs.copy_config": ("config new", {"source": "RUN"}),
    "metrics.filter": ("metrics", {"name": "RE"}),
    "metrics.write": ("export", {"what": "metrics"}),
    "rollouts.filter": ("rollouts", {"where": "EXPR"}),
    "rollouts.sort": ("rollouts", {"sort": "ORDER"}),
    "transcript.write": ("rollout", {"out": Path("FILE")}),
    "logs.write": ("logs", {"last": 0}),
    "compare.write": ("compare", {"runs": ["A", "B"]}),
    "compare.earlier": ("compare", {"at": 3}),
    "config.save": ("config set", {}),
    "config.migrate": ("config migrate", {}),
    "smoke.hand": ("smoke", {"policy": "human"}),
    "smoke.write": ("smoke", {"out": Path("FILE")}),
    "launch.dry_run": ("train", {"dry_run": True}),
    "launch.target": ("train", {"target": "T"}),
}


@pytest.mark.parametrize("id", TWINS)
def test_a_twin_does_what_its_action_does(id):
    verb, arguments = TWINS[id]
    found, args = understood(BY_ID[id].cli)
    assert found == verb and {name: getattr(args, name) for name in arguments} == arguments


def test_no_two_actions_of_one_place_share_a_key():
    assert list(clashes(default_keys())) == []


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    return path


def test_the_users_keys_win_in_every_spelling_of_toml(tmp_path):
    keymap = load(
        written(tmp_path, '"rollouts.sort" = "s"\nlogs.wrap = "Ctrl+W"\n[list]\nup = ["Up", "i"]\nfirst = []\n')
    )
    assert (keymap.problems, keymap.conflicts) == ((), ())
    assert keymap.of("rollouts.sort") == ("s",) and keymap.of("logs.wrap") == ("ctrl+w",)
    assert keymap.of("list.up") == ("up", "i") and keymap.of("list.first") == ()
    assert keymap.of("list.down") == BY_ID["list.down"].keys
    assert keymap.changed == {"rollouts.sort", "logs.wrap", "list.up", "list.first"}


def test_two_actions_may_swap_their_keys(tmp_path):
    keymap = load(written(tmp_path, '"runs.sort" = "/"\n"runs.filter" = "o"\n'))
    assert not keymap.conflicts and keymap.of("runs.sort") == ("/",)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        ('"runs.sort" = "space"', {"runs.sort", "runs.mark"}),  # within a place
        ('"logs.wrap" = "q"', {"logs.wrap", "app.quit"}),  # with everywhere
        ('"app.quit" = "L"', {"app.quit", "monitor.logs"}),
        ('"logs.wrap" = "j"', {"logs.wrap", "list.down"}),  # with what the same widget has
    ],
)
def test_a_key_with_two_meanings_is_reported_and_left_out(tmp_path, line, ids):
    keymap = load(written(tmp_path, line))
    [conflict] = keymap.conflicts
    assert set(conflict.ids) == ids and all(id in str(conflict) for id in ids)
    assert keymap.keys == default_keys() and not keymap.changed


def test_lines_left_out_leave_a_keymap_without_conflict(tmp_path):
    # runs.sort keeps "o" after its own conflict, so the line that took "o" has to go as well
    keymap = load(written(tmp_path, '"runs.sort" = "q"\n"runs.filter" = "o"\n"runs.mark" = "m"\n'))
    assert len(keymap.conflicts) == 2 and keymap.changed == {"runs.mark"}
    assert list(clashes(keymap.keys)) == []


def test_a_key_may_mean_something_else_in_another_place():
    keys = default_keys() | {"chart.ema": ("x",), "palette.run": ("q",)}
    assert list(clashes(keys)) == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('\n"runs.srot" = "x"\n', 2, "did you mean runs.sort"),
        ('[runs]\n\nsort = "pagup"\n', 3, "did you mean pageup"),
        ('"runs.sort" = 3\n', 1, "a key is text"),
        ('"runs.sort" = ""\n', 1, "a key is text"),
        ('"runs.sort" = "\\u001b"\n', 1, "control character"),
        ('"runs.sort" = \n', 1, "no valid TOML"),
        ('"runs.sort" = "hyper+x"\n', 1, "no such key"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, line, words):
    path = written(tmp_path, text)
    [problem] = load(path).problems
    assert problem.line == line and words in str(problem) and str(problem).startswith(f"{path}:{line}: ")


def test_a_file_that_cannot_be_read_leaves_the_defaults(tmp_path):
    (tmp_path / "keys.toml").write_bytes(b'"runs.sort" = "s"\n"\xff')
    assert load(tmp_path / "keys.toml").problems[0].line == 2
    for path in (tmp_path, tmp_path / "none.toml"):
        assert load(path).keys == default_keys()
    assert load(tmp_path).problems and not load(tmp_path / "none.toml").problems


def test_keys_are_spelled_one_way():
    assert [key_name(key) for key in ("Esc", "RETURN", " ", "S", "Shift+Ctrl+Up", "ctrl++", "ctrl+i")] == [
        *("escape", "enter", "space", "S", "ctrl+shift+up", "ctrl++", "tab")
    ]
    assert [shown(key) for key in ("escape", "ctrl+p", "left", "+", "S")] == ["esc", "^p", "←", "+", "S"]
    assert shown("left", ascii=True) == "left"


def test_the_file_follows_xdg():
    assert str(keys_file({"XDG_CONFIG_HOME": "/c"})) == "/c/rltui/keys.toml"
    assert str(keys_file({"HOME": "/h"})) == "/h/.config/rltui/keys.toml"


def test_help_has_the_nearest_place_first_and_the_users_keys(tmp_path):
    keymap = load(written(tmp_path, '"logs.wrap" = "b"\n"logs.level" = []\n'))
    found = sections(around("logs"), keymap)
    assert [section.title for section in found] == ["Logs", "List", "Every screen", "Everywhere"]
    rows = {label: keys for keys, label, _ in found[0].rows}
    assert rows["wrap"] == "b" and "level" not in rows
    assert all(label != "open" for _, label, _ in found[1].rows)  # a text has no row to open


@pytest.mark.parametrize("name", [*TOPICS, *CONTEXTS])
def test_every_topic_fits_a_narrow_screen(name):
    printed = lines(topic(name, load(Path("/nowhere"))) or [], 60)
    assert len(printed) > 2
    assert all(len(left) + len(right) <= 62 for _, left, right in printed)


def test_the_example_in_the_help_is_a_file_that_works():
    example = "\n".join(line for line in TOPICS["keys"][1] if line.startswith("    "))
    assert set(tomllib.loads(example)) <= set(BY_ID)


def test_the_command_log_is_bounded_and_clean():
    times = iter(range(100))
    log = CommandLog(most=3, clock=lambda: next(times))
    for number in range(5):
        log.add(f"rltui stop run-{number}\x1b]52;c;x\x07", "asked\n\x1b[2J")
    assert [did.command for did in log.rows()] == ["rltui stop run-2", "rltui stop run-3", "rltui stop run-4"]
    assert log.first == 2 and [did.at for did in log.rows()] == [2, 3, 4] and log.rows()[0].answer == "asked"
