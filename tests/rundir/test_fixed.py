from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rundir.fixed import index_line, short_detail, update_line

big = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
number = st.none() | st.floats(allow_nan=True, allow_infinity=True) | big
word = st.none() | st.text(max_size=700)
ROW = st.fixed_dictionaries(
    {
        **{key: big for key in ("n", "attempt", "step", "iteration", "seed", "member", "try", "turns")},
        "group": st.none() | big,
        **{key: number for key in ("R", "O", "sr", "je", "jo", "t", "wall")},
        "cid": st.text(max_size=700),
        "split": st.sampled_from(["train", "eval"]),
        "stop": word,
        "excl": word,
        "ver": st.none() | st.tuples(big, big),
        "tok": st.tuples(big, big),
        "text": st.tuples(big, big, big),
        "arr": st.none() | st.tuples(big, big, big),
    }
)


@given(ROW)
def test_an_index_line_is_512_bytes_and_still_finds_its_episode(row: dict) -> None:
    line = index_line(row)
    assert len(line) == 512 and line.endswith(b"\n") and line.count(b"\n") == 1
    read = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in a line"))
    for key in ("n", "attempt", "step", "iteration", "text", "arr", "split", "group", "member"):
        expected = row[key]
        assert read[key] == (list(expected) if isinstance(expected, tuple) else expected)
    assert bool(read["excl"]) == bool(row["excl"])
    if not read.get("cut"):
        assert read["cid"] == row["cid"] and read["seed"] == row["seed"]


@given(
    st.fixed_dictionaries({key: big for key in ("n", "attempt", "step", "iteration")}),
    st.sampled_from(["group", "use", "mask"]),
    st.dictionaries(st.text(max_size=12), number | st.text(max_size=400) | st.lists(number, max_size=4), max_size=14),
    st.none() | st.text(max_size=500) | st.dictionaries(st.text(max_size=40), word | big, max_size=5),
)
def test_an_update_line_is_320_bytes(place: dict, kind: str, fields: dict, detail: object) -> None:
    fields = {key: value for key, value in fields.items() if key not in (*place, "kind", "detail", "cut")}
    line = update_line(place | {"kind": kind} | fields | {"detail": detail})
    assert len(line) == 320 and line.endswith(b"\n") and line.count(b"\n") == 1
    read = json.loads(line)
    assert {key: read[key] for key in place} == place and read["kind"] == kind
    assert len(json.dumps(read.get("detail"), ensure_ascii=False, separators=(",", ":")).encode()) <= 120


def test_an_ordinary_line_gives_nothing_away() -> None:
    line = index_line({"n": 3, "R": 0.123456789, "t": 1750000000.1234567, "wall": 123456.789, "cid": "a"})
    assert json.loads(line) == {"n": 3, "R": 0.123457, "t": 1750000000.123457, "wall": 123457.0, "cid": "a"}


def test_what_gives_way_first_is_the_tail_of_the_cid() -> None:
    row = {"n": 1, "cid": "c" * 600, "stop": "completed", "R": 0.5, "text": [0, 0, 9], "arr": None}
    read = json.loads(index_line(row))
    assert read["cut"] is True and read["cid"] == "c" * 40
    assert read["stop"] == "completed" and read["R"] == 0.5


def test_an_exclusion_outlives_detail_and_numbers() -> None:
    row = {"n": 1, "attempt": 1, "step": 2, "iteration": 1, "kind": "mask", "branch": 0, "excl": "too_long"}
    read = json.loads(update_line(row | {"extra": "x" * 400, "detail": {"tokens": 5, "limit": 4}}))
    assert read["excl"] == "too_long" and read["branch"] == 0 and read["cut"] is True


def test_a_number_beyond_64_bits_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="seed"):
        index_line({"n": 1, "seed": 1 << 70})


def test_detail_keeps_its_numbers_and_shortens_its_words() -> None:
    short = short_detail({"status": 500, "body": "y" * 300})
    assert short["status"] == 500 and short["body"].startswith("yyy") and short["body"].endswith("…")
