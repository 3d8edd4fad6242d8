from collections.abc import Callable

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, Loaded, Problem, load_text

Load = Callable[..., Loaded]
Errors = Callable[..., list[Problem]]


@pytest.fixture
def small() -> Load:
    """A valid config, with `--set` texts and other arguments on top."""

    def load_it(*sets: str, text: str = SMALL, **options) -> Loaded:
        return load_text(text, "my.toml", **{"environ": {}, "device": "cpu", "sets": sets} | options)

    return load_it


@pytest.fixture
def errors(small: Load) -> Errors:
    def of(*sets: str, **options) -> list[Problem]:
        with pytest.raises(ConfigError) as caught:
            small(*sets, **options)
        return caught.value.problems

    return of
