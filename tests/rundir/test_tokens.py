from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rundir.conftest import branch
from trainer.rundir.tokens import DamagedBlock, behaviour_arrays, decode_block, encode_block


def test_layout_of_a_block_byte_by_byte() -> None:
    ids = np.array([5, 6, 7], np.int32)
    block = encode_block(9, 1, 2, {"ids": ids, "mask": np.array([0, 1, 1], np.uint8)})
    (length,) = struct.unpack_from("<I", block)
    directory = json.loads(block[4 : 4 + length])
    assert directory == {
        "n": 9,
        "branch": 1,
        "attempt": 2,
        "arrays": [["ids", "i32", 0, 3], ["mask", "u8", 16, 3]],
    }
    assert (4 + length) % 8 == 0
    assert np.frombuffer(block, "<i4", 3, 4 + length).tolist() == [5, 6, 7]
    assert np.frombuffer(block, "u1", 3, 4 + length + 16).tolist() == [0, 1, 1]
    assert struct.unpack("<I", block[-4:])[0] == zlib.crc32(block[:-4])


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.lists(st.floats(width=32), max_size=20), max_size=4))
def test_arrays_come_back_bit_for_bit(columns: dict[str, list[float]]) -> None:
    arrays = {name: np.asarray(values, ">f4") for name, values in columns.items()}
    place, read = decode_block(encode_block(0, 0, 1, arrays))
    assert place == {"n": 0, "branch": 0, "attempt": 1} and read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].tobytes() == array.astype("<f4").tobytes()


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_is_noticed(where: int, flip: int) -> None:
    block = bytearray(encode_block(0, 0, 1, behaviour_arrays(branch())))
    block[where % len(block)] ^= flip
    with pytest.raises(DamagedBlock):
        decode_block(bytes(block))


def test_a_short_block_and_an_unknown_dtype() -> None:
    block = encode_block(0, 0, 1, behaviour_arrays(branch()))
    for count in (0, 3, 8, len(block) - 1):
        with pytest.raises(DamagedBlock):
            decode_block(block[:count])
    later = block[:-4].replace(b'"mask","u8"', b'"mask","q8"')
    read = decode_block(later + struct.pack("<I", zlib.crc32(later)))[1]
    assert set(read) == {"ids", "turn", "logp_behavior"}


def test_unequal_lengths_are_refused() -> None:
    broken = branch()
    broken.logp.pop()
    with pytest.raises(ValueError, match="logp_behavior has 5 entries for 6 tokens"):
        behaviour_arrays(broken)
    with pytest.raises(ValueError, match="the format holds"):
        encode_block(0, 0, 1, {"x": np.zeros(2, np.complex64)})
