"""`env_file_path`: variables for a run and its children. They count less than what is set, and are shown nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, load, load_mapping

SECRET = "sk-proj-abc123def456ghi789jkl"
WITHOUT_URL = SMALL.replace('[services]\ntask_url = "http://localhost:8001"\n', "")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config in a folder of its own, beside a file of variables."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "my.env").write_text(
        f"# for tests\nTASK_APP_URL=http://from-file:1\nexport RLTUI__TRAINING__SEED=7\n"
        f"OPENAI_API_KEY='{SECRET}'\nQUOTED=\"a b\"\nEMPTY=\n"
    )
    path = folder / "my.toml"
    path.write_text('env_file_path = "my.env"\n' + WITHOUT_URL)
    return path


def test_its_variables_are_loaded_first(config: Path) -> None:
    loaded = load(config, environ={}, device="cpu")
    assert loaded.config.services.task_url == "http://from-file:1"
    assert loaded.config.training.seed == 7
    origin = loaded.origins["training.seed"]
    assert (origin.kind, origin.at) == ("env", "RLTUI__TRAINING__SEED of my.env")
    [note] = [item for item in loaded.warnings if item.code == "env_file"]
    assert (note.level, note.line, note.value) == ("note", 1, '"my.env"') and "5 variables" in note.why


def test_variables_that_are_set_already_win(config: Path) -> None:
    loaded = load(config, environ={"TASK_APP_URL": "http://from-shell"}, device="cpu")
    assert loaded.config.services.task_url == "http://from-shell"
    assert loaded.origins["services.task_url"].at == "TASK_APP_URL"
    [note] = [item for item in loaded.warnings if item.code == "env_file"]
    assert "set already, so not taken from it: TASK_APP_URL" in note.why


def test_they_can_be_exported_and_win_over_nothing(config: Path) -> None:
    environ = {"QUOTED": "mine"}
    load(config, environ=environ, device="cpu").export(environ)
    assert environ["OPENAI_API_KEY"] == SECRET and environ["QUOTED"] == "mine" and environ["EMPTY"] == ""


def test_values_are_shown_nowhere(config: Path) -> None:
    loaded = load(config, environ={}, device="cpu")
    told = [repr(loaded), json.dumps(loaded.resolved()), *map(str, loaded.warnings), *map(repr, loaded.warnings)]
    assert not any(SECRET in text for text in told)


def test_the_judges_key_may_be_in_it(config: Path) -> None:
    sets = ["judge.enabled=true"]
    codes = {item.code for item in load(config, sets=sets, environ={}, device="cpu").launch_problems()}
    assert "judge_key" not in codes


def test_the_path_is_relative_to_the_config_or_absolute_and_set_may_name_another(config: Path, tmp_path: Path) -> None:
    (tmp_path / "other.env").write_text("TASK_APP_URL=http://other\n")
    for name in (tmp_path / "other.env", Path("..") / "other.env"):
        loaded = load(config, sets=[f"env_file_path={name}"], environ={}, device="cpu")
        assert loaded.config.services.task_url == "http://other"


@pytest.mark.parametrize(
    ("value", "content", "words", "code"),
    [
        ('"none.env"', None, "no such file; the path is relative to the config's folder", "env_file"),
        ('"."', None, "Is a directory", "env_file"),
        ('"~nobody-of-that-name/x"', None, "no file can have this path", "env_file"),
        ('"a\\u0000b"', None, "no file can have this path", "env_file"),
        ('"bad.env"', b"A=1\nthis is not it\n", "not a NAME=value line: 2", "env_file"),
        ('"bad.env"', b"A=\xff\n", "is not UTF-8 text", "env_file"),
        ('"bad.env"', b"A=\0\n", "is no file of variables", "env_file"),
        ("3", None, "the path of a file of variables is wanted", "type"),
        ('""', None, "the path of a file of variables is wanted", "type"),
    ],
)
def test_what_cannot_be_read_is_an_error_beside_the_others(
    config: Path, value: str, content: bytes | None, words: str, code: str
) -> None:
    if content is not None:
        (config.parent / "bad.env").write_bytes(content)
    config.write_text(f"env_file_path = {value}\n" + SMALL.replace("= 4\n", "= 5\n"))
    with pytest.raises(ConfigError) as caught:
        load(config, environ={}, device="cpu")
    first, second = caught.value.problems
    assert (first.code, first.line, second.code) == (code, 1, "batch_arithmetic")
    assert words in first.why and first.fix


def test_a_bad_line_is_named_and_not_quoted(config: Path) -> None:
    (config.parent / "my.env").write_text(f"A=1\n{SECRET} oops\n")
    with pytest.raises(ConfigError) as caught:
        load(config, environ={}, device="cpu")
    assert SECRET not in str(caught.value)


def test_a_copy_of_a_config_is_shown_without_it(config: Path) -> None:
    sets = ["services.task_url=http://x", "env_file_path=gone.env"]
    loaded = load(config, sets=sets, environ={}, device="cpu", follow_env_file=False)
    assert loaded.env_file == {} and "env_file_path" in {item.key for item in loaded.warnings}


def test_a_job_body_names_no_file_of_the_server(config: Path) -> None:
    import tomllib

    body = {"env_file_path": str(config.parent / "my.env"), **tomllib.loads(SMALL)}
    loaded = load_mapping(body, environ={}, device="cpu")
    assert loaded.env_file == {}
    assert [(item.level, item.key) for item in loaded.warnings] == [("note", "env_file_path")]


def test_a_coordinator_and_its_children_have_them(config: Path, tmp_path: Path) -> None:
    """The real first steps of `python -m trainer run`: its environment is what children inherit."""
    code = (
        "import os, sys, subprocess; import trainer.run as run\n"
        "run._locked = lambda arguments, loaded: subprocess.call([sys.executable, '-c',"
        " 'import os; print(len(os.environ[\"OPENAI_API_KEY\"]))'])\n"
        "import argparse; parser = argparse.ArgumentParser(); run.add_arguments(parser)\n"
        f"sys.exit(run.main(parser.parse_args([{str(config)!r}, '--run-dir', {str(tmp_path / 'run')!r}])))\n"
    )
    environ = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "TASK_APP_URL")}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == str(len(SECRET)), done.stderr
