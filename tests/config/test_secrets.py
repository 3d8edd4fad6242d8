"""What looks like a secret is refused, whatever form it has and wherever it stands, and nothing repeats it."""

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, load, load_mapping
from trainer.config.rewrite import rewrite
from trainer.config.secrets import is_secret, masked

KEY = "sk-proj-abc123def456ghi789jkl"

FOUND = {
    "the parameter key of a URL": ("judge.options.base_url", "http://h/v1?key=abcdefgh", "abcdefgh"),
    "a parameter of a URL": ("services.task_url", "http://h/?api_key=abcdEFGH12345678", "abcdEFGH"),
    "a token in a URL": ("inference.public_url", "https://x.y?a=1&token=abcdefgh1234", "abcdefgh1234"),
    "a password without a user": ("services.task_url", "http://:hunter22@h:80/", "hunter22"),
    "a user that is a token": ("services.task_url", "http://tok3nabc@h/", "tok3nabc"),
    "an escaped password": ("services.task_url", "http://u:p%40w@h/", "p%40w"),
    "token": ("rollout.env_config.token", "abcd1234efgh5678ijkl", "abcd1234"),
    "api_token": ("rollout.env_config.api_token", "abcd1234efgh5678", "abcd1234"),
    "a key with spaces": ("rollout.env_config.apikey", '"abcd efgh 1234"', "abcd efgh"),
    "api-key": ("rollout.env_config.API-KEY", "abcdefgh1234", "abcdefgh"),
    "a provider's key": ("rollout.env_config.openai_key", "abcd1234efgh5678", "abcd1234"),
    "a short password": ("rollout.env_config.password", "hunter2", "hunter2"),
    "a secret token": ("rollout.env_config.secret_token", "abcdefgh", "abcdefgh"),
    "pass": ("rollout.env_config.pass", "hunter2xyz", "hunter2"),
    "pw": ("rollout.env_config.pw", "hunter2xyz", "hunter2"),
    "a passphrase": ("rollout.env_config.ssh_passphrase", "hunter2xyz", "hunter2"),
    "a number": ("rollout.env_config.password", "12345678901", "12345678901"),
    "basic authentication": ("rollout.env_config.x", '"Basic dXNlcjpwYXNzd29yZA=="', "dXNlcjpw"),
    "a tracker's key": ("logging.wandb", "0123456789abcdef0123456789abcdef01234567", "0123456789ab"),
    "the file of variables": ("env_file_path", KEY, KEY),
    "the name of a tag": (f"tags.{KEY}", "1", KEY),
    "the name of a key": (f"training.{KEY}", "1", KEY),
    "the name of a section": (f"{KEY}.x", "1", KEY),
    "a name in a table": (f"rollout.env_config.{KEY}", "1", KEY),
}

PASS = [
    ("rollout.env_config.eos_token", "<|endoftext|>"),
    ("rollout.env_config.token", "word"),
    ("rollout.env_config.api_key", "EMPTY"),
    ("rollout.env_config.api_key", "$OPENAI_API_KEY"),
    ("rollout.env_config.api_key", "${OPENAI_API_KEY}"),
    ("rollout.env_config.password", "is asked for"),
    ("rollout.env_config.max_tokens", 1_000_000),
    ("rollout.env_config.secret", True),
    ("rollout.env_config.first_pass", "greedy-search"),
    ("rollout.env_config.bypass", "the-cache"),
    ("rollout.env_config.commit", "0123456789abcdef0123456789abcdef01234567"),
    ("rollout.env_config.sort_key", "created_at_2024_descending"),
    ("rollout.env_config.text", "Basic understanding of 12 Things, a bearer of news"),
    ("rollout.env_config.repo", "ssh://git@github.com/a/b"),
    ("services.task_url", "http://127.0.0.1:8001/a@b?key=short"),
    ("logging.wandb", "my-project-2024-grpo-lora-runs"),
    ("logging.runs_dir", "/data/2024/experiment-12345/runs/of/mine"),
    ("judge.options.api_key_env", "OPENAI_API_KEY"),
]


@pytest.mark.parametrize("name", FOUND)
def test_it_is_refused_and_not_repeated(small, name: str) -> None:
    key, value, secret = FOUND[name]
    with pytest.raises(ConfigError) as caught:
        small(f"{key}={value}")
    assert "secret" in {item.code for item in caught.value.problems}
    assert secret not in str(caught.value) and secret not in repr(caught.value.problems)


def test_a_table_that_is_not_closed(small) -> None:
    with pytest.raises(ConfigError) as caught:
        small('rollout.env_config={ password = "hunter2xyz"')
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("key", "value"), PASS)
def test_what_only_resembles_one_passes(key: str, value: object) -> None:
    assert not is_secret(key, value)


def test_a_json_pointer_does_not_repeat_it() -> None:
    with pytest.raises(ConfigError) as caught:
        load_mapping({"tags": {KEY: 1}}, environ={}, device="cpu")
    assert KEY not in str(caught.value) and "body#/tags/***" in str(caught.value)


def test_allowing_unknown_keys_shows_none_either(small) -> None:
    with pytest.raises(ConfigError) as caught:
        small(f"training.{KEY}=1", allow_unknown=True)
    assert KEY not in str(caught.value)


def test_the_file_of_variables_is_not_looked_for_under_a_secret(tmp_path) -> None:
    (tmp_path / "my.toml").write_text(f'env_file_path = "{KEY}"\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "my.toml", environ={}, device="cpu")
    assert KEY not in str(caught.value) and "env_file" not in {item.code for item in caught.value.problems}


def test_a_line_without_its_secrets() -> None:
    line = f'api_key = {KEY} # and "https://u:p@h"'
    assert masked(line) == 'api_key = *** # and "***h"' and masked("a = 1") == "a = 1"


def test_a_rewrite_that_leaves_keys_alone_does_not_repeat_them() -> None:
    text = f'{SMALL}[rubric]\nmodel = "{KEY}"\n[judge.options]\nmodel = "{KEY}2"\n'
    assert KEY not in "\n".join(map(str, rewrite(text, "my.toml").left))
