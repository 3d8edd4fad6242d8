"""Three shapes of a job become one; what contradicts itself is refused with both sides."""

import tomllib

import pytest

from rltui.server.answers import Refused
from rltui.server.bodies import read_body
from rltui.server.tomltext import to_toml
from tests.server.conftest import CONFIG, body
from trainer.config import load_mapping, load_text


def read(given, stored=None):
    return read_body(given, lambda name: (stored or {}).get(name))


def test_the_body_of_the_command_line():
    asked = read(body(compute={"gpu_count": 0}, metadata={"a": 1}))
    assert asked.given == CONFIG
    assert asked.config["compute"] == {"gpu_count": 0}
    assert asked.config["tags"] == {"source": "train-cli"}
    assert asked.metadata == {"a": 1}


def test_tags_of_the_body_lie_under_those_of_the_config():
    given = body({"tags": {"source": "mine", "x": "1"}})
    assert read({**given, "tags": {"source": "train-cli", "y": "2"}}).config["tags"] == {
        "source": "mine",
        "x": "1",
        "y": "2",
    }


def test_the_body_of_an_older_client_lays_its_trainer_over_the_config():
    data = {"model": "m", "endpoint_base_url": "http://h", "config": {"training": {"batch_size": 1, "z": 2}}}
    asked = read({"job_type": "rl", "data": {**data, "trainer": {"batch_size": 4, "group_size": 2, "other": 9}}})
    assert asked.config["training"] == {"batch_size": 4, "group_size": 2, "z": 2}
    assert asked.config["policy"] == {"model_name": "m"}
    assert asked.config["services"] == {"task_url": "http://h"}


def test_the_flat_body_and_its_trainer():
    asked = read({"model": "ft:rl_1@8", "endpoint_base_url": "http://h", "trainer_id": "t", "config": {}})
    assert asked.config["policy"] == {"source": "ft:rl_1@8"}
    assert asked.metadata == {"trainer_id": "t"}


def test_the_address_of_the_body_wins_over_the_configs():
    given = body()
    given["data"]["endpoint_base_url"] = "http://other"
    assert read(given).config["services"]["task_url"] == "http://other"


def test_a_stored_config_lies_under_the_one_that_came():
    given = {"job_config_id": "rl_1", "config": {"training": {"group_size": 8}}}
    asked = read(given, {"rl_1": {"training": {"group_size": 4, "batch_size": 2}}})
    assert asked.config == {"training": {"group_size": 8, "batch_size": 2}}
    assert asked.given == {"training": {"group_size": 8}}


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ([], "wrong_shape", "the body is not an object"),
        ({"job_type": "sft"}, "job_type", "'sft' is not served here"),
        ({"data": 3}, "wrong_shape", "data is not an object"),
        ({"config": {"tags": 3}, "tags": {"a": 1}}, "wrong_shape", "config.tags is not an object"),
        ({"job_config_id": "rl_9"}, "unknown_job_config", "'rl_9' is no config"),
        (
            {"model": "a", "config": {"policy": {"model_name": "b"}}},
            "model",
            "model is 'a' and the config's model is 'b'",
        ),
        ({"base_model": "a", "config": {"model": {"base": "b"}}}, "model", "base_model is 'a'"),
        ({"model": 7}, "model", "model is 7"),
    ],
)
def test_what_cannot_be_a_job_is_refused_in_a_sentence(given, code, words):
    with pytest.raises(Refused, match=words) as refused:
        read(given)
    assert (refused.value.status, refused.value.code) == (422, code)


def test_the_toml_of_a_body_is_the_same_config():
    config = {
        **CONFIG,
        "evaluation": {"instances": 4, "every_n_iters": 1, "seeds": [0, 1], "max_concurrent_rollouts": None},
        "smoke": None,
        "judge": {"enabled": False, "options": {"rubric_overrides": {"event": {"goal_text": None, "criteria": []}}}},
        "env_file_path": "/secrets.env",
        "tags": {"a.b": 'quo"te\n', "n": [1, 1e-05], "none": None},
        "compute": {"gpu_type": "x", "gpu_count": 0, "topology": {"reference_placement": "none"}},
        "reference": {"placement": "none"},
    }
    config = read({"config": config}).config
    text = to_toml(config)
    assert tomllib.loads(text)["tags"] == {"a.b": 'quo"te\n', "n": [1, 1e-05]}
    assert "secrets.env" not in text
    assert tomllib.loads(to_toml({"evaluation": {}})) == {"evaluation": {}}  # a section may act by being there
    assert load_text(text, "config.toml", environ={}).config_hash == load_mapping(config, environ={}).config_hash


def test_an_empty_section_that_nobody_knows_is_written_once():
    assert tomllib.loads(to_toml({"zz": {}, "tags": {"a": {}}, "training": {"yy": {}}})) == {
        "zz": {}, "tags": {"a": {}}, "training": {"yy": {}},
    }  # fmt: skip
