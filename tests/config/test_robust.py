"""Whatever a file says, the answer is a config or a ConfigError."""

import contextlib
from typing import Any

import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.texts import SMALL
from trainer.config import ConfigError, all_keys, load_text
from trainer.config.migrations import MOVES, NO_EFFECT
from trainer.config.toml_values import format_value, parse_value

KEYS = [
    *all_keys(),
    *(move.old for move in MOVES),
    *NO_EFFECT,
    "algorithm",
    "training",
    "tags.x",
    "vllm.odd",
    "zz",
]
values = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 70), st.floats(), st.text(max_size=6), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["event", "env", "criteria", "a b"]), inner, max_size=2),
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4), st.booleans())
def test_any_values_anywhere(given_values: dict[str, Any], allow_unknown: bool) -> None:
    with contextlib.suppress(ConfigError):
        loaded = load_text(SMALL, "my.toml", overrides=given_values, environ={}, allow_unknown=allow_unknown)
        loaded.resolved()


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([key for key in KEYS if "." not in key and "*" not in key]), values))
def test_any_top_level(document: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        load_text(tomlkit.dumps(document), "my.toml", environ={})


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.one_of(st.booleans(), st.integers(), st.text(max_size=8)), st.lists, max_leaves=5))
def test_values_survive_their_own_text(value: Any) -> None:
    assert parse_value(format_value(value)) == value


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_any_set_and_any_variable(key: str, value: str) -> None:
    with contextlib.suppress(ConfigError):
        load_text(SMALL, "my.toml", sets=[f"{key}={value}"], environ={f"RLTUI__{key}": value})
