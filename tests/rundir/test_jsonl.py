from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rundir.jsonl import decode_object, digits, encode_line, from_iso, iso
from trainer.rundir.textcut import encode_episode, text_of

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), anything, max_size=4))
def test_whatever_an_app_sends_becomes_one_strict_line(value: dict) -> None:
    line = encode_line(value)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    json.loads(line.decode("utf-8"), parse_constant=lambda name: pytest.fail(name))


def test_hostile_values() -> None:
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    row = {"a": "\ud800x", "b": 1 << 80, "c": math.nan, "d": np.float32(0.5), "e": np.arange(2), "f": deep}
    read = decode_object(encode_line(row))
    assert read["a"] == "?x" and read["b"] == str(1 << 80) and read["c"] is None
    assert read["d"] == 0.5 and read["e"] == [0, 1]
    with pytest.raises(ValueError):
        decode_object(b'{"a": ' + b"[" * 100_000)
    with pytest.raises(ValueError, match="object"):
        decode_object(b"[]")


def test_digits_and_times() -> None:
    assert digits(1234567.8) == 1234570.0 and digits(math.inf) is None and digits(None) is None
    assert iso(0.5) == "1970-01-01T00:00:00.500Z" and from_iso(iso(1_750_000_000.25)) == 1_750_000_000.25


def test_only_the_longest_texts_are_cut_and_say_how_much() -> None:
    row = {
        "n": 1,
        "turns": [{"messages": [{"text": "a" * 90_000}, {"text": "é" * 40_000}, {"text": "short"}]}],
    }
    line = encode_episode(row, limit=60_000)
    assert 50_000 < len(line) <= 60_000
    first, second, third = (message["text"] for message in json.loads(line)["turns"][0]["messages"])
    assert third == "short"
    for (head, mark, tail), whole in ((first, 90_000), (second, 80_000)):
        assert len((head + tail).encode()) + mark["cut"] == whole
    assert "bytes cut]" in text_of(first) and text_of("x") == "x" and text_of(None) == ""


def test_a_mass_of_small_things_gives_way_as_a_whole() -> None:
    line = encode_episode({"n": 1, "app": {"extra": list(range(100_000))}}, limit=10_000)
    assert json.loads(line)["app"]["cut"] > 100_000
