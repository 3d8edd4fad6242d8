"""Values for a run that is going are judged as those of a config."""

import pytest

from rltui.model.live_values import assignments, live_values
from tests.server.conftest import CONFIG
from trainer.config import ConfigError, load_mapping


@pytest.mark.parametrize("text", ["1e-5", "1e300", "1", "0", "-1", "inf", "nan", "true", "fast"])
def test_a_learning_rate_is_taken_where_a_config_takes_it(text):
    def takes(check) -> bool:
        try:
            check()
        except (ConfigError, ValueError):
            return False
        return True

    value = {"true": True, "fast": "fast"}.get(text) or float(text)
    config = {**CONFIG, "training": {**CONFIG["training"], "learning_rate": value}}
    assert takes(lambda: live_values(["learning_rate", text])) == takes(lambda: load_mapping(config, environ={}))


@pytest.mark.parametrize("text", ["learning_rate 1e-5", "set training.learning_rate 1e-5", " set learning_rate = 1e-5"])
def test_the_example_of_the_error_can_be_typed_as_it_stands(text):
    assert live_values(assignments(text)) == {"training.learning_rate": 1e-5}


def test_a_word_that_is_no_key_is_still_told():
    with pytest.raises(ValueError, match="'set' cannot be changed"):
        live_values(assignments("set=3"))
