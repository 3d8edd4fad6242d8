"""Half characters from JSON, arguments and variables are errors like others."""

import json
import tomllib

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, load_mapping, load_text

HALF = json.loads('"\\ud800"')
BODIES = {
    "value": {"policy": {"label": f"a{HALF}"}},
    "in a table": {"rollout": {"env_config": {"a": [HALF]}}},
    "a name in a table": {"rollout": {"env_config": {HALF: 1}}},
    "a tag": {"tags": {HALF: "x"}},
    "an unknown key": {"training": {HALF: 1}},
    "an engine's option": {"vllm": {"x": HALF}},
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("allow", [False, True])
def test_it_is_an_error_that_can_be_printed(name: str, allow: bool) -> None:
    body = tomllib.loads(SMALL)
    for section, values in BODIES[name].items():
        body[section] = body.get(section, {}) | values
    with pytest.raises(ConfigError) as caught:
        load_mapping(body, environ={}, device="cpu", allow_unknown=allow)
    assert [item.code for item in caught.value.problems] == ["encoding"]
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("sets", "variables"),
    [
        (["rollout.env_config.a=\udcff"], {}),
        (['tags.x="\udcff"'], {}),
        ([], {"RLTUI__POLICY__LABEL": "\udcff"}),
        ([], {"TASK_APP_URL": "http://\udcff"}),
    ],
)
def test_arguments_and_variables_that_are_no_text(sets: list[str], variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(SMALL, "my.toml", sets=sets, environ=variables, device="cpu")
    assert "encoding" in {item.code for item in caught.value.problems}


def test_whole_characters_pass(small) -> None:
    assert small('policy.label="é 😀 \\\\U0000D800"').config.policy.label == "é 😀 \\U0000D800"
