"""What a user reads when a config is wrong."""

import os
import string
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.texts import SDK_EXAMPLE, SMALL
from trainer.config import ConfigError, all_keys, load, render
from trainer.config.suggest import distance, nearest_key


def test_worked_example_to_the_letter(small) -> None:
    text = SDK_EXAMPLE.replace("group_size = 4 ", "group_size = 5 ")
    with pytest.raises(ConfigError) as caught:
        small(text=text)
    assert str(caught.value) == (
        "my.toml:35:14: training.group_size = 5\n"
        "  episodes per iteration = episodes_per_batch 32 x batches_per_step 1 = 32; 32 / 5 = 6.4 groups\n"
        "  allowed: a divisor of 32 that is >= 2 (nearest: 4, 8)\n"
        "  fix: group_size = 4        or   --set rollout.episodes_per_batch=35"
    )
    assert caught.value.exit_code == 2


def test_all_errors_of_a_file_at_once_in_its_order(errors) -> None:
    text = SMALL.replace('"lora"', '"lorra"').replace("max_turns = 2", "max_turns = true").replace("= 4", '= "4"')
    problems = errors(text=text)
    assert [(p.line, p.key) for p in problems] == [
        (9, "policy.trainer_mode"),
        (14, "rollout.max_turns"),
        (20, "training.group_size"),
    ]
    assert [p.fix for p in problems] == ['trainer_mode = "lora"', "max_turns = 10", "group_size = 4"]


def test_missing_keys_are_one_error_with_a_block_to_paste(errors, small) -> None:
    text = SMALL.replace("batch_size = 16\n", "").replace('[services]\ntask_url = "http://localhost:8001"\n', "")
    text = text.replace('model_name = "builtin:tiny"\n', "") + "[evaluation]\n"
    [problem] = errors(text=text)
    for key in ("services.task_url", "policy.model_name", "training.batch_size", "evaluation.seeds"):
        assert key in problem.why
    block = tomllib.loads("\n".join(problem.fix.splitlines()[1:]))
    assert set(block) == {"services", "policy", "training", "evaluation"}


def test_task_url_may_come_from_the_environment(small) -> None:
    text = SMALL.replace('[services]\ntask_url = "http://localhost:8001"\n', "")
    loaded = small(text=text, environ={"TASK_APP_URL": "http://app/"})
    assert loaded.config.services.task_url == "http://app"
    assert loaded.origins["services.task_url"].at == "TASK_APP_URL"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("trainig.group_size", "training.group_size"),
        ("rollout.group_size", "training.group_size"),
        ("training.lora.rank", "training.lora.r"),
        ("lora.rr", "training.lora.r"),
        ("model.bse", "policy.model_name"),
        ("evaluation.every_n_iter", "evaluation.every_n_iters"),
    ],
)
def test_unknown_key_names_the_one_that_was_meant(errors, given: str, meant: str | None) -> None:
    [problem] = [p for p in errors(f"{given}=1") if p.code == "unknown_key"]
    if meant is not None:
        assert problem.fix == meant and meant in problem.why


def test_unknown_key_has_the_position_of_its_name_and_can_be_allowed(errors, small) -> None:
    text = SMALL + "  grup_size = 4\n"
    [problem] = errors(text=text)
    assert (problem.line, problem.column) == (22, 3)
    loaded = small(text=text, allow_unknown=True)
    assert [item.level for item in loaded.warnings] == ["warning"]


CHECKED = [key for key in all_keys() if key != "tags" and not key.startswith("vllm.")]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CHECKED), st.data())
def test_one_wrong_letter_still_finds_the_key(key: str, data: st.DataObject) -> None:
    section, _, name = key.rpartition(".")
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from(string.ascii_lowercase))
    wrong = f"{section}.{name[:at]}{letter}{name[at + 1 :]}".lstrip(".")
    if wrong in all_keys():
        return
    # `policy.top_a` is as near to top_p as to top_k: either answer is right then
    equally_near = {other for other in CHECKED if other.rpartition(".")[0] == section and distance(other, wrong) == 1}
    assert key in equally_near and nearest_key(wrong) in equally_near


SECRETS = [
    "sk-proj-abc123def456ghi789jkl",
    "hf_abcdefghijklmnop1234",
    "ghp_abcdefghijklmnop1234",
    "Bearer abcdefghij1234567890",
    "http://user:hunter2hunter2@host",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "key",
    ["services.task_url", "rollout.env_config", "judge.options.api_key_env", "tags.x", "nobody.knows.it"],
)
def test_secrets_are_refused_and_not_repeated(errors, small, key: str, secret: str) -> None:
    value = f'{{ deep = ["{secret}"] }}' if key.endswith("config") else f'"{secret}"'
    assert any(problem.code == "secret" for problem in errors(f"{key}={value}"))
    with pytest.raises(ConfigError) as caught:
        small(f"{key}={value}")
    assert secret not in str(caught.value) and secret not in repr(caught.value.problems)


def test_names_that_only_resemble_secrets_pass(small) -> None:
    url = "https://my-task-app-for-desk-and-risk-2024.example.com"
    config = small(f"services.task_url={url}", "judge.options.api_key_env=OPENAI_API_KEY").config
    assert config.services.task_url == url


@pytest.mark.parametrize(
    ("text", "position"), [("[a]\nb = \n", ":2:5: "), ("x = [1,", ":1:5: "), ("[a]\n[a]\n", ":2:")]
)
def test_what_is_no_toml_has_a_position(small, text: str, position: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(text=text)
    assert str(caught.value).startswith(f"my.toml{position}") and "not TOML" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    os.mkfifo(tmp_path / "fifo.toml")
    with pytest.raises(ConfigError, match="it is a pipe"):
        load(tmp_path / "fifo.toml")
    reader, writer = os.pipe()  # as of `<(command)`
    os.write(writer, b"x = 1")
    os.close(writer)
    with pytest.raises(ConfigError, match="x"):
        load(f"/dev/fd/{reader}")
    os.close(reader)
    (tmp_path / "latin.toml").write_bytes(b'x = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "latin.toml")


@pytest.mark.parametrize("text", ["training", "a b=1", "=1", "training.seed=[1", "x.=2"])
def test_a_set_that_is_no_assignment(errors, text: str) -> None:
    assert [problem.file for problem in errors(text)] == ["--set"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.learning_rate", "nan"),
        ("training.learning_rate", "inf"),
        ("training.group_size", "true"),
        ("training.group_size", "4.0"),
        ("training.num_epochs", '"1"'),
        ("training.mask_truncated", "1"),
        ("evaluation.seeds", "[]"),
        ("rollout.env_config", "{ when = 1979-05-27 }"),
        ("training", "5"),
        ("policy.stop_sequences", '"x"'),
        ("services.task_url", "ftp://x"),
        ("services.task_url", "http://127.0.0.1:port"),
        ("services.task_url", "http://[::1"),
        ("inference.public_url", "http://host:99999"),
    ],
)
def test_wrong_types_and_ranges(errors, key: str, value: str) -> None:
    problem = next(p for p in errors(f"{key}={value}") if p.key == key)
    assert problem.code == "type" and problem.allowed and problem.fix


def test_an_address_that_lacks_a_slash_gets_it(errors) -> None:
    problem = next(p for p in errors("services.task_url=http:/localhost:9") if p.key == "services.task_url")
    assert "http://localhost:9" in problem.fix and "http://http" not in problem.fix


def test_warnings_and_notes_stand_beside_the_errors(small) -> None:
    text = SMALL + "nope = 1\ngroup_sise = 4\n[lora]\ndropout = 0.1\n"
    with pytest.raises(ConfigError) as caught:
        small("training.seed=x", "tags.team=1", text=text, allow_unknown=True)
    error = caught.value
    assert [problem.key for problem in error.problems] == ["training.seed"] and str(error).count("fix:") == 1
    found = {(problem.level, problem.code) for problem in error.warnings}
    assert {("warning", "unknown_key"), ("warning", "migrated"), ("warning", "dropout")} <= found
    assert {problem.as_dict()["level"] for problem in error.warnings} == {"warning", "note"} - (
        set() if any(problem.level == "note" for problem in error.warnings) else {"note"}
    )


def test_problems_are_told_in_the_order_of_the_file(small) -> None:
    text = SMALL.replace("[training]", '[model]\nseed = 3\n[lora]\ndropout = 0.1\n[training]\nops = ["agent"]')
    text = text.replace('label = "small"', 'label = "small"\ntop_p = 0.5')
    warnings = small(text=text).warnings
    places = [item.line for item in warnings if item.line is not None]
    assert len(places) >= 4 and places == sorted(places)
    lines = [int(line.split(":")[1]) for line in render(warnings).splitlines() if line.startswith("my.toml:")]
    assert len(lines) >= 4 and lines == sorted(lines)
