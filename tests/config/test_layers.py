"""Sources over one another: what is beaten, and where each part of a table comes from."""

import pytest

from tests.config.texts import SMALL
from trainer.config import Problem

IN_FILE = "[rollout]\nenv_config = { a = true, n = 1, z = 0.0, list = [1], deep = { x = 1, y = 2 } }\n"


@pytest.fixture
def with_table(small):
    return lambda *sets, **options: small(*sets, text=SMALL.replace("[rollout]\n", IN_FILE), **options)


def beaten(loaded) -> list[Problem]:
    return [item for item in loaded.warnings if item.code == "beaten"]


@pytest.mark.parametrize("text", ["a=1", "n=true", "n=1.0", "z=-0.0", "z=0", "list=[true]", "list=[1.0]"])
def test_a_value_of_another_type_is_another_value(with_table, text: str) -> None:
    [note] = beaten(with_table(f"rollout.env_config.{text}"))
    assert note.key == f"rollout.env_config.{text.partition('=')[0]}"


@pytest.mark.parametrize("text", ["a=true", "n=1", "z=0.0", "list=[1]", "deep={ x = 1 }"])
def test_the_same_value_beats_nothing(with_table, text: str) -> None:
    assert beaten(with_table(f"rollout.env_config.{text}")) == []


def test_a_table_says_which_parts_come_from_below(with_table) -> None:
    variables = {"RLTUI__ROLLOUT__ENV_CONFIG__Q": "3"}
    loaded = with_table("rollout.env_config.deep.x=5", "rollout.env_config.list=[]", environ=variables)
    assert loaded.config.rollout.env_config["deep"] == {"x": 5, "y": 2}
    origin = loaded.origins["rollout.env_config"]
    assert (origin.kind, origin.at) == ("set", "--set")
    parts = dict(part.split(" from ") for part in (origin.note or "").split(", "))
    at = "my.toml:12:14"
    assert parts == {"a": at, "n": at, "z": at, "deep.y": at, "q": "RLTUI__ROLLOUT__ENV_CONFIG__Q"}
    assert loaded.resolved()["values"]["rollout"]["env_config"]["note"] == origin.note


def test_what_is_beaten_in_a_table_is_placed_where_it_was_given(with_table) -> None:
    loaded = with_table("rollout.env_config.n=5", environ={"RLTUI__ROLLOUT__ENV_CONFIG__Q": "3"})
    [note] = beaten(loaded)
    assert str(note.place) == "my.toml:12:14" and "--set: 5" in note.why


def test_a_table_over_nothing_has_one_origin(with_table) -> None:
    assert with_table().origins["rollout.env_config"].note is None


@pytest.mark.parametrize(("old", "new", "agree"), [("true", "1", False), ("1", "1", True), ("1", "true", False)])
def test_two_spellings_agree_in_type_too(small, errors, old: str, new: str, agree: bool) -> None:
    sets = [f"model.seed={old}", f"training.seed={new}"]
    if agree:
        assert small(*sets).config.training.seed == 1
    else:
        assert "migration_conflict" in {item.code for item in errors(*sets)}


def test_an_integer_will_do_for_a_number_in_either_spelling(small) -> None:
    loaded = small("hyperparameters.gamma=1", "training.gamma=1.0")
    assert [item.fix for item in loaded.warnings] == ["delete hyperparameters.gamma: training.gamma is given"]
