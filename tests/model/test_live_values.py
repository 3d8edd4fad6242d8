"""Values for a run that is going are judged as those of a config."""

import pytest

from rltui.model.live_values import live_values
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
