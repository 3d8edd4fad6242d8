"""A fix can be carried out where the value was given: in a file, by --set, a variable, an override, or JSON."""

import shlex
import tomllib

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, Place, Problem, load_mapping, load_text
from trainer.config.fitting import fitted


@pytest.mark.parametrize(
    ("source", "fix", "fits"),
    [
        ("--set", "delete this line", "leave out --set training.seed"),
        ("--set", "seed = 4        or   --set a.b=1", "--set training.seed=4        or   --set a.b=1"),
        ("--set", 'seed = "lora"', "--set training.seed=lora"),
        ("--set", 'seed = "4"', "--set 'training.seed=\"4\"'"),
        ("--set", "seed = [0, 1]", "--set 'training.seed=[0, 1]'"),
        ("--set", "other = 4", "other = 4"),
        ("--set", "delete a or b", "delete a or b"),
        ("env RLTUI__TRAINING__SEED", "delete this line", "unset RLTUI__TRAINING__SEED"),
        ("env RLTUI__TRAINING__SEED", "seed = 4", "RLTUI__TRAINING__SEED=4"),
        ("env X of run.env", "delete this line", "delete X in run.env"),
        ("env X of run.env", "seed = 4", "X=4 in run.env"),
        ("override training.seed", "delete this line", "leave out the override training.seed"),
        ("body#/training/seed", "delete this line", "delete it"),
        ("my.toml", "seed = 4", "seed = 4"),
    ],
)
def test_where_a_value_was_given(source: str, fix: str, fits: str) -> None:
    assert fitted(Problem(Place(source), "training.seed", "why", fix=fix)).fix == fits


def test_a_line_of_a_file_stays_a_line() -> None:
    problem = Problem(Place("my.toml", 3, 1), "training.seed", "why", fix="delete this line")
    assert fitted(problem) is problem


@pytest.mark.parametrize(
    "key", ["training.group_size", "policy.trainer_mode", "evaluation.seeds", "policy.temperature"]
)
def test_the_fix_of_a_set_is_an_argument_that_loads(errors, small, key: str) -> None:
    more = ["evaluation.every_n_iters=1", "evaluation.instances=1"] if key.startswith("evaluation") else []
    [problem] = errors(f"{key}=-1", *more)
    flag, text = shlex.split(problem.fix.partition("        or")[0])
    assert flag == "--set"
    small(text, *more)


def test_each_source_has_its_own_way_out() -> None:
    data = tomllib.loads(SMALL)
    data["training"]["nope"] = 1
    with pytest.raises(ConfigError) as caught:
        load_mapping(
            data, environ={"RLTUI__TRAINING__NUPE": "1"}, overrides={"training.nape": 1}, sets=["training.nipe=1"]
        )
    assert {problem.fix.partition("   ")[0] for problem in caught.value.problems} == {
        "delete it",
        "unset RLTUI__TRAINING__NUPE",
        "leave out the override training.nape",
        "leave out --set training.nipe",
    }


@pytest.mark.parametrize(
    ("text", "key", "value", "fix"),
    [
        ("training.seed=[1", "training.seed", "[1", "--set training.seed=0"),
        ('policy.label="a', "policy.label", '"a', "--set policy.label=my-model"),
        ("evaluation.seeds={", "evaluation.seeds", "{", "--set evaluation.seeds='[0, 1, 2, 3]'"),
        ("training", "training", None, "--set training.group_size=4"),
        ("a b=1", "a b", "1", "--set training.group_size=4"),
        ("policy.api_key=[hunter2hunter2", "policy.api_key", None, "--set training.group_size=4"),
    ],
)
def test_a_broken_set_is_named(errors, text: str, key: str, value: str | None, fix: str) -> None:
    [problem] = errors(text)
    assert (problem.file, problem.key, problem.value, problem.fix) == ("--set", key, value, fix)


def test_a_broken_variable_is_named(errors) -> None:
    [problem] = errors(environ={"RLTUI__TRAINING__SEED": "[1"})
    assert (problem.key, problem.value, problem.fix) == ("training.seed", "[1", "RLTUI__TRAINING__SEED=0")


def test_pythons_own_lists_and_paths_are_fine_in_overrides(small) -> None:
    from pathlib import Path

    given = {"evaluation": {"seeds": (1, 2), "instances": 2, "every_n_iters": 1}, "logging.runs_dir": Path("runs")}
    config = load_text(SMALL, "my.toml", environ={}, overrides=given).config
    assert config.evaluation.seeds == [1, 2] and config.logging.runs_dir == "runs"


def test_an_object_is_refused_without_its_address(errors) -> None:
    [problem] = errors(overrides={"training.seed": object()})
    assert problem.value == "<object>" and problem.why == "a Python object (object) was given"
    [problem] = errors(overrides={"rollout.env_config": {"a": object()}})
    assert "an object, which JSON cannot carry" in problem.why and "0x" not in str(problem)


@pytest.mark.parametrize(
    ("section", "fix"),
    [
        ('[training.step_rewards_weights]\nab = "x"\n', "delete this section"),
        ('[judge.reward_blend]\nenv = "a"\nevent = 1\n', "keep in this section only: event = 1"),
    ],
)
def test_a_table_with_a_header_is_no_line(errors, section: str, fix: str) -> None:
    [problem] = errors(text=SMALL + section)
    assert problem.fix == fix


def test_a_note_about_a_table_with_a_header(small) -> None:
    notes = small(text=f"{SMALL}[judge.reward_blend]\nenv = 0.5\n").warnings
    assert [item.fix for item in notes if item.code == "no_effect"] == ["delete this section"]


def test_what_applies_without_the_argument(errors) -> None:
    text = f"{SMALL}clip_eps_low = 0.1\n"
    [problem] = errors("training.clip_eps_low=-0.1", text=text)
    line = text.count("\n")
    assert problem.fix == f"leave out --set training.clip_eps_low; 0.1 of my.toml:{line}:16 then applies"
