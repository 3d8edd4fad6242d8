"""The line that is printed as the fix of a wrong value: what was meant, or a value that is usual."""

import pytest

from tests.config.texts import SMALL
from trainer.config import all_keys


@pytest.mark.parametrize("variety", ["gspo_token", "grpo", "dr-grpo", "GRPO"])
def test_a_variety_given_as_method(errors, variety: str) -> None:
    name = variety.lower().replace("-", "_")
    [problem] = errors(text=SMALL.replace('"policy_gradient"', f'"{variety}"'))
    assert f'{name} is a variety, not a method: it is method "policy_gradient"' in problem.why
    assert problem.fix == f'method = "policy_gradient", and variety = "{name}"'


def test_a_variety_given_twice_needs_one_line(errors) -> None:
    text = SMALL.replace('"policy_gradient"', '"grpo"').replace('"gspo"', '"grpo"')
    [problem] = errors(text=text)
    assert problem.fix == 'method = "policy_gradient"'


def test_a_misspelt_choice_is_mended(errors) -> None:
    [problem] = errors("compute.launcher=slurmm")
    assert problem.fix == "--set compute.launcher=slurm"


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("capitals", 'task_url = "capitals.py"        or   --set services.task_url=http://capitals'),
        ("facts", 'task_url = "builtin:facts"        or   --set services.task_url=http://facts'),
        ("localhost:8001", 'task_url = "http://localhost:8001"'),
        ("my.host/app", 'task_url = "http://my.host/app"'),
        ("http:", 'task_url = "builtin:facts"'),
        ("builtin:", 'task_url = "builtin:facts"'),
        ("https://", 'task_url = "builtin:facts"'),
        ("http://h h/", 'task_url = "builtin:facts"'),
    ],
)
def test_what_may_be_meant_by_a_task_url(errors, given: str, fix: str) -> None:
    [problem] = errors(text=SMALL.replace("http://localhost:8001", given))
    assert problem.fix == fix and problem.value == f'"{given}"'


def test_an_address_in_other_letters_is_the_same(small) -> None:
    assert small("services.task_url=HTTP://Host/a/").config.services.task_url == "http://Host/a"
    both = small("services.verifier_url='HTTP://j/'", "services.judge_url=http://j")
    assert both.config.services.judge_url == "http://j"


def test_allowed_task_urls_of_a_smoke_test(errors) -> None:
    [problem] = errors('smoke.task_url="x"')
    assert problem.allowed == all_keys()["services.task_url"].allowed


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_are_none(errors, value: str) -> None:
    [problem] = errors(f"training.learning_rate={value}")
    assert problem.why == "not a finite number"


@pytest.mark.parametrize(
    ("value", "why", "fix"),
    [
        ("1979-05-27", "a date or time was given", 'a = "1979-05-27"'),
        ("nan", "not a finite number", 'a = "nan"'),
        ("{ d = 1 }", "a table was given", 'a = "{ d = 1 }"'),
        ("[1, [2]]", "item 2, [2], does not fit", 'a = "[1, [2]]"'),
    ],
)
def test_tags_that_are_no_scalars(errors, small, value: str, why: str, fix: str) -> None:
    [problem] = errors(text=SMALL + f"[tags]\na = {value}\n")
    assert (problem.key, problem.why, problem.fix) == ("tags.a", why, fix)
    small(text=SMALL + f"[tags]\n{fix}\n")


@pytest.mark.parametrize("spelt", ["-2e-3", "-1_000.0", "-0.0020"])
def test_a_value_is_shown_as_it_is_spelt(errors, spelt: str) -> None:
    [problem] = errors(text=SMALL.replace("1e-5", spelt))
    assert problem.value == spelt
    assert problem.fix == "learning_rate = 5e-5"


def test_a_number_in_quotes_keeps_its_spelling(errors) -> None:
    [problem] = errors(text=SMALL.replace("1e-5", '"2e-3"'))
    assert problem.fix == "learning_rate = 2e-3"
    [problem] = errors(text=SMALL.replace('"lora"', "'lorra'"))
    assert problem.value == "'lorra'"


def test_a_secret_inside_of_a_table_is_found_by_its_path(errors) -> None:
    text = SMALL.replace(
        "max_turns = 2", 'max_turns = 2\nenv_config = { a = { b = [{ api_key = "sk-abcdefgh12345678" }] } }'
    )
    [problem] = errors(text=text)
    assert problem.why.startswith("a.b[0].api_key in it looks like a secret") and "sk-" not in str(problem)


def test_an_old_switch_of_another_type(errors) -> None:
    [problem] = errors("checkpoint.enabled=3")
    assert (problem.key, problem.allowed) == ("checkpoint.enabled", "true or false")


def test_launcher_options_say_what_they_hold(errors) -> None:
    [problem] = errors("compute.launcher=slurm", "compute.launcher_options={ a = [1], b = 2 }")
    assert problem.allowed == "a table of strings, numbers and booleans"
    assert problem.fix == "--set 'compute.launcher_options={ b = 2 }'"


def test_a_rule_shows_the_value_as_it_is_spelt_too(small) -> None:
    text = SMALL.replace("1e-5", "1.0E-9")
    [note] = [item for item in small(text=text).warnings if item.code == "learning_rate"]
    assert note.value == "1.0E-9"
