"""No verb of `rltui config` writes, copies or repeats what looks like a secret."""

import os

import pytest

from tests.cli.conftest import CONFIG, SDK_EXAMPLE
from trainer.config import load

SECRET = "sk-proj-abcdefghijklmnop1234567890"


def test_secrets_are_neither_written_nor_repeated(files, config):
    code, _, err = config("set", "my.toml", "services.judge_url", SECRET, "--force")
    assert code == 2
    assert SECRET not in err
    assert "--force" not in err
    assert (files / "my.toml").read_text() == CONFIG
    (files / "my.toml").write_text(CONFIG + f'[judge.options]\napi_key_env = "{SECRET}"\n')
    for args in (
        ["get", "my.toml", "api_key_env", "--given"],
        ["set", "my.toml", "--unset", "judge.options.api_key_env", "--dry-run"],
        ["set", "my.toml", "judge.options.api_key_env", "OPENAI_API_KEY"],
    ):
        _, out, err = config(*args)
        assert SECRET not in out + err
    assert load("my.toml").config.judge.options.api_key_env == "OPENAI_API_KEY"


@pytest.mark.parametrize(
    "args",
    [
        ("tags.x", f'"{SECRET}'),
        ("tags.x", f'"{SECRET}" 1'),
        ("tags.x", SECRET, "--dry-run"),
        ("tags.x", SECRET, "--force"),
        (f"tags.{SECRET}", "1", "--force", "--json"),
        (f"tags.{SECRET}", "1", "--unset", f"tags.{SECRET}"),
    ],
)
def test_a_secret_that_is_typed_is_not_repeated(files, config, args):
    code, out, err = config("set", "my.toml", *args)
    assert code == 2
    assert SECRET not in out + err
    assert (files / "my.toml").read_text() == CONFIG


def test_no_copy_is_made_of_a_secret(files, config):
    escaped = SECRET.replace("j", "\\u006a")
    text = (
        f'{SDK_EXAMPLE}\n# once {SECRET}\n[judge.options]\napi_key_env = "{escaped}"\n[tags]\npassword = "hunter222"\n'
    )
    (files / "old.toml").write_text(text)
    for args in (
        ["migrate", "old.toml"],
        ["migrate", "old.toml", "--stdout"],
        ["migrate", "old.toml", "--stdout", "--json"],
        ["new", "--from", "old.toml", "--out", "-"],
        ["new", "--from", "old.toml", "--out", "new.toml"],
    ):
        code, out, err = config(*args)
        assert code == 2, args
        assert "looks like a secret" in err
        assert SECRET not in out + err
    assert sorted(os.listdir()) == ["my.toml", "old.toml"]
    code, out, err = config("set", "old.toml", "--unset", "tags.password", "training.seed", "1", "--dry-run")
    assert code in (0, 2)
    assert not [word for word in (SECRET, escaped, "hunter222") if word in out + err]
