"""A config in JSON, as a job body has it."""

import pytest

from rltui.cli.configs import open_config
from trainer.config import ConfigError


def test_a_key_that_is_given_twice(tmp_path) -> None:
    path = tmp_path / "body.json"
    path.write_text('{"training": {"seed": 1, "seed": 2}}')
    with pytest.raises(ConfigError, match='"seed" is given twice in one object'):
        open_config(str(path))
