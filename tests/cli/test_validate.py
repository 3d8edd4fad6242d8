"""`rltui validate`: everything wrong at once, what a good config amounts to, and what it never loads."""

import io
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import rltui.cli.main as entry
from rltui.text import clean
from tests.cli.conftest import CONFIG, ROOT, environment

SDK_EXAMPLE = ROOT / "tests" / "config" / "sdk_example.toml"
BROKEN = CONFIG.replace("group_size = 4", "group_size = 5").replace("max_turns = 1", 'max_turns = "1"')


def validate(capsys, *args):
    code = entry.main(["validate", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out, err


def report(capsys, *args):
    code, out, _ = validate(capsys, *args, "--json")
    (line,) = out.splitlines()
    return code, json.loads(line)


def test_a_good_config_is_two_lines_on_stdout(here, capsys):
    code, out, err = validate(capsys, "my.toml")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "my.toml: valid",
        "  2 iterations of 8 episodes in 2 groups, 2 steps of 4: 4 steps; reward: env 1",
    ]


def test_the_last_step_of_an_iteration_may_be_smaller(here, capsys):
    _, out, _ = validate(capsys, "my.toml", "--set", "training.batch_size=3")
    assert "3 steps of 3 (the last of 2): 6 steps" in out
    _, out, _ = validate(capsys, "my.toml", "--set", "training.batch_size=9")
    assert "1 step of 8: 2 steps" in out


def test_all_errors_come_at_once_in_the_documented_format(here, capsys):
    (here / "my.toml").write_text(BROKEN)
    code, out, err = validate(capsys, "my.toml")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    first = lines.index('my.toml:15:13: rollout.max_turns = "1"')
    second = lines.index("my.toml:22:14: training.group_size = 5")
    assert first < second
    assert lines[second + 1 : second + 4] == [
        "  episodes per iteration = episodes_per_batch 8 x batches_per_step 1 = 8; 8 / 5 = 1.6 groups",
        "  allowed: a divisor of 8 that is >= 2 (nearest: 4, 8)",
        "  fix: group_size = 4        or   --set rollout.episodes_per_batch=10",
    ]
    assert lines[-1] == "my.toml: 2 problems"


def test_json_has_the_same_fields(here, capsys):
    (here / "my.toml").write_text(BROKEN)
    code, data = report(capsys, "my.toml")
    assert code == 2
    assert set(data) == {"schema", "ok", "file", "errors", "warnings", "refusals", "derived", "blend", "config_hash"}
    assert (data["schema"], data["ok"], data["derived"]) == (1, False, None)
    assert [(item["line"], item["column"], item["key"], item["value"]) for item in data["errors"]] == [
        (15, 13, "rollout.max_turns", '"1"'),
        (22, 14, "training.group_size", "5"),
    ]
    assert all(item["why"] and item["allowed"] and item["fix"] for item in data["errors"])


def test_json_of_a_valid_config(here, capsys):
    code, data = report(capsys, "my.toml", "--out", "report.json")
    assert (code, data["ok"], data["errors"]) == (0, True, [])
    assert data["derived"] == {"E": 8, "U": 4, "m": 2, "groups": 2, "iterations": 2, "steps": 4}
    assert data["blend"] == {"env": 1.0, "event": 0.0, "outcome": 0.0}
    assert len(data["config_hash"]) == 64
    assert json.loads((here / "report.json").read_text()) == data


def test_the_sdk_example_is_valid_and_says_what_it_gives(here, capsys):
    code, out, err = validate(capsys, SDK_EXAMPLE)
    assert code == 0
    assert "20 iterations of 32 episodes in 8 groups, 2 steps of 16: 40 steps" in out
    assert "model.base -> policy.model_name" in err
    assert err.count("holds old spellings") == 2
    assert "a run would not start" in err, "its task app is a template's"


def test_strict_does_not_mind_what_the_machine_has(here, capsys):
    """A file is right or wrong the same way on every machine."""
    (here / "gpus.toml").write_text((here / "my.toml").read_text() + '[compute]\ngpu_type = "H100:4096"\n')
    code, data = report(capsys, "gpus.toml", "--strict")
    assert code == 0 and [item["code"] for item in data["warnings"]] == ["gpus_found"]


def test_strict_minds_warnings_but_not_notes(here, capsys):
    assert validate(capsys, "my.toml", "--strict")[0] == 0
    code, data = report(capsys, SDK_EXAMPLE, "--strict")
    assert (code, data["ok"], data["errors"]) == (1, False, [])
    assert {item["level"] for item in data["warnings"]} == {"warning", "note"}
    (here / "noted.toml").write_text(CONFIG + "\n[display]\ncolour = true\n")
    code, data = report(capsys, "noted.toml", "--strict")
    assert code == 0
    assert [(item["level"], item["code"]) for item in data["warnings"]] == [("note", "no_effect")]


def test_unknown_keys_are_errors_unless_allowed(here, capsys):
    (here / "my.toml").write_text(CONFIG + "group_sise = 4\n")
    code, _, err = validate(capsys, "my.toml")
    assert code == 2
    assert "did you mean `training.group_size`, which my.toml:22:14 sets already?" in err
    assert validate(capsys, "my.toml", "--allow-unknown")[0] == 0
    assert validate(capsys, "my.toml", "--allow-unknown", "--strict")[0] == 1


def test_set_wins_and_is_checked(here, capsys):
    code, _, err = validate(capsys, "my.toml", "--set", "training.group_size=3")
    assert code == 2
    assert "\n--set: training.group_size = 3\n" in err
    assert validate(capsys, "my.toml", "--set", "training.group_size=2")[0] == 0


def test_several_files_the_worst_counts(here, capsys):
    (here / "bad.toml").write_text(BROKEN)
    code, data = report(capsys, "my.toml", "bad.toml", SDK_EXAMPLE)
    assert code == 2
    assert data["ok"] is False
    assert [(item["file"], item["ok"]) for item in data["files"]] == [
        ("my.toml", True),
        ("bad.toml", False),
        (str(SDK_EXAMPLE), True),
    ]


def test_a_job_config_in_json_has_pointers_for_places(here, capsys):
    import tomllib

    body = tomllib.loads(CONFIG)
    (here / "job.json").write_text(json.dumps(body))
    assert validate(capsys, "job.json")[0] == 0
    body["training"]["group_size"] = 5
    (here / "job.json").write_text(json.dumps(body))
    code, _, err = validate(capsys, "job.json")
    assert code == 2
    assert err.startswith("job.json#/training/group_size: training.group_size = 5\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": \n,}', "job.json:2:1: not JSON"),
        ("[1]", "a JSON object is wanted"),
        ("[" * 100_000, "nested too deeply"),
        ('{"job_type": "rl", "data": {"config": {}}}', "its data.config"),
    ],
)
def test_what_is_no_config_in_json_says_so(here, capsys, content, says):
    (here / "job.json").write_text(content)
    code, _, err = validate(capsys, "job.json")
    assert code == 2
    assert says in err


@pytest.mark.parametrize("name", ["gone.toml", "gone.json"])
def test_a_file_that_is_not_there(here, capsys, name):
    code, _, err = validate(capsys, name)
    assert code == 2
    assert f"{name}: no such file" in err


@pytest.mark.parametrize("name", ["x.toml", "x.json"])
def test_a_file_that_is_no_text(here, capsys, name):
    (here / name).write_bytes(b"\xff\xfe\x00")
    code, _, err = validate(capsys, name)
    assert code == 2
    assert "not UTF-8 text (byte 0)" in err


def test_a_runs_folder_stands_for_its_config(here, capsys):
    run = here / "runs" / "a-rl_0123456789abcdef"
    run.mkdir(parents=True)
    shutil.copy("my.toml", run / "config.toml")
    code, out, _ = validate(capsys, run)
    assert code == 0
    assert "valid" in out


def test_standard_input_toml_or_json(here, capsys, monkeypatch):
    for text, place in ((BROKEN, "stdin:22:14: training.group_size"), ('{"training": 5}', "stdin#/training: training")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code, _, err = validate(capsys, "-")
        assert code == 2
        assert place in err
    assert validate(capsys, "-", "-")[0] == 2


def test_hostile_text_cannot_act_on_the_terminal(here, capsys):
    evil = "\x1b]0;owned\x07\u202e\x1b[2J"
    (here / "job.json").write_text(json.dumps({"training": {evil: 1, "seed": evil}, evil: {"x": 1}}))
    code, _, err = validate(capsys, "job.json")
    assert code == 2
    assert all(line == clean(line, 10_000) or "  " in line for line in err.splitlines())
    assert not set(err) & {"\x1b", "\x07", "\u202e", "\x9b"}
    (here / "evil.toml").write_text(CONFIG + '"\\u001b[2J\\u202e" = "\\u001b]52;c;AA\\u0007"\n')
    code, _, err = validate(capsys, "evil.toml")
    assert code == 2
    assert not set(err) & {"\x1b", "\x07", "\u202e"}


JUDGED = CONFIG + "[judge]\nenabled = true\n[judge.options]\nmodel = 'm'\nprovider = 'openai'\n"


def test_a_template_is_valid_but_no_run_of_it_would_start(here, capsys):
    (here / "my.toml").write_text(CONFIG.replace("http://127.0.0.1:9", "https://your-tunnel.example"))
    code, out, _ = validate(capsys, "my.toml")
    assert code == 0
    assert out.splitlines()[0].endswith("; but a run of it would not start: services.task_url")


def test_overruled_values_are_one_line_each_in_one_block(here, capsys, monkeypatch):
    monkeypatch.setenv("RLTUI__POLICY__LABEL", "other")
    (here / "my.toml").write_text(CONFIG + "seed = 0\n")
    _, _, err = validate(capsys, "my.toml", "--set", "training.seed=3")
    line = (CONFIG + "seed = 0\n").splitlines().index("seed = 0") + 1
    assert err.splitlines() == [
        'note: policy.label = "my run" (line 11) is overruled by env RLTUI__POLICY__LABEL: "other"',
        f"note: training.seed = 0 (line {line}) is overruled by --set: 3",
    ]


def test_warnings_stand_beside_the_errors(here, capsys):
    (here / "my.toml").write_text(BROKEN.replace("model_name", "model_name_") + "[model]\nbase = 'builtin:tiny'\n")
    code, data = report(capsys, "my.toml")
    assert code == 2
    assert [item["code"] for item in data["warnings"]] == ["migrated"]
    _, _, err = validate(capsys, "my.toml")
    assert re.search(r"^my\.toml: 3 problems, 1 warning$", err, re.MULTILINE)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_prose_fits_the_terminal_and_what_is_pasted_stays_whole(here, capsys, monkeypatch, columns):
    shutil.copy(SDK_EXAMPLE, "sdk.toml")
    _, _, unwrapped = validate(capsys, "sdk.toml", "--set", "training.group_size=5")
    monkeypatch.setenv("COLUMNS", str(columns))
    _, _, err = validate(capsys, "sdk.toml", "--set", "training.group_size=5")
    assert err.split() == unwrapped.split()
    for line in err.splitlines():
        assert len(line) <= columns or re.match(r"\S+:\d+:\d+: |  fix: ", line), line
    for line in unwrapped.splitlines():
        if line.startswith("  fix: ") and " = " in line:
            assert line in err.splitlines()


def test_a_closed_pipe_ends_it_quietly(here):
    command = [sys.executable, "-m", "rltui", "validate", *["my.toml"] * 200]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert b"Traceback" not in err
    assert b"Exception" not in err


HEAVY = {
    "torch",
    "textual",
    "transformers",
    "peft",
    "numpy",
    "httpx",
    "uvicorn",
    "starlette",
    "tomlkit",
    "msgspec",
    "rich",
}


@pytest.mark.parametrize(
    "args",
    [["validate", "my.toml"], ["explain", "group_size"], ["config", "show", "my.toml"]],
    ids=lambda args: args[0],
)
def test_it_loads_nothing_heavy(here, args):
    code = (
        "import sys; from rltui.cli.main import main;"
        f"assert main({args!r}) == 0;"
        f"loaded = {HEAVY!r} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, stdout=subprocess.DEVNULL)


def test_the_environment_counts(here, capsys, monkeypatch):
    monkeypatch.setitem(os.environ, "RLTUI__TRAINING__GROUP_SIZE", "3")
    code, _, err = validate(capsys, "my.toml")
    assert code == 2
    assert "env RLTUI__TRAINING__GROUP_SIZE: training.group_size = 3" in err


def test_the_verdict_and_what_is_overruled_fit_the_terminal(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (here / "my.toml").write_text(JUDGED.replace("http://127.0.0.1:9", "https://your-tunnel.example"))
    label = "a-rather-long-label-of-forty-characters-x"
    code, out, err = validate(capsys, "my.toml", "--set", f"policy.label={label}")
    assert code == 0
    assert f'is overruled by --set: "{label}"' in " ".join(err.split())
    assert "but a run of it would not start: services.task_url" in " ".join(out.split())
    assert [line for line in (out + err).splitlines() if len(line) > 80 and "  fix: " not in line] == []


def test_a_task_app_that_is_not_there_is_part_of_the_verdict(here, capsys):
    (here / "bad.toml").write_text(CONFIG.replace("http://127.0.0.1:9", "builtin:fact"))
    code, data = report(capsys, "bad.toml")
    assert (code, data["ok"]) == (0, True)
    (item,) = data["refusals"]
    assert (item["line"], item["fix"]) == (7, 'task_url = "builtin:facts"')
    assert validate(capsys, "bad.toml", "--strict")[0] == 1
    _, out, err = validate(capsys, "my.toml", "--set", "services.task_url=builtin:fact")
    assert "; but a run of it would not start: services.task_url" in out
    assert "  fix: --set services.task_url=builtin:facts" in err.splitlines()


def test_a_task_app_file_is_looked_for_where_one_stands(here, capsys, monkeypatch):
    args = ("my.toml", "--set", "services.task_url=apps/mine.py", "--strict")
    code, out, err = validate(capsys, *args)
    assert code == 0, "the file may be right in another folder"
    assert f"there is no file {here}/apps/mine.py" in err
    assert "would not start" in out
    (here / "apps").mkdir()
    (here / "apps" / "mine.py").touch()
    assert validate(capsys, *args)[2].count("no file") == 0
    monkeypatch.setenv("TASK_APP_URL", "builtin:gues")
    assert "env TASK_APP_URL: warning: services.task_url" in validate(capsys, "my.toml")[2]
