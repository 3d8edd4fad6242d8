"""Token blocks: arrays of one branch, self-describing, with a checksum (WIRE 5.6).

4 bytes   little-endian length of the directory
directory JSON {n, branch, attempt, arrays: [[name, dtype, offset, count]]}, spaces up to a multiple of 8
bytes of the block; `offset` counts from the first byte after the directory arrays    little-endian, each
from a multiple of 8 bytes 4 bytes   CRC32 of all before it
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trainer.rollout.types import Branch
from trainer.rundir.jsonl import decode_object, encode

if TYPE_CHECKING:  # loaded where arrays are made: viewers list episodes without it
    import numpy as np

# dtypes by their name in the directory
_DTYPES = {"u8": "|u1", "u16": "<u2", "i32": "<i4", "i64": "<i8", "f32": "<f4", "f64": "<f8"}
_NAMES = {code: name for name, code in _DTYPES.items()}

BEHAVIOUR_ARRAYS = {"ids": "i32", "mask": "u8", "turn": "u16", "logp_behavior": "f32"}


class DamagedBlock(ValueError):
    """A token block whose checksum or directory is wrong."""


class TokensRemoved(FileNotFoundError):
    """The segment of a token block was deleted by hand."""


def behaviour_arrays(branch: Branch) -> dict[str, np.ndarray]:
    """The recorded arrays of a branch, each [tokens]. ValueError: unequal lengths."""
    import numpy as np

    count = len(branch.ids)
    columns: dict[str, Sequence[float]] = {
        "ids": branch.ids,
        "mask": branch.mask,
        "turn": branch.turn,
        "logp_behavior": branch.logp,
    }
    for name, values in columns.items():
        if len(values) != count:
            raise ValueError(f"{name} has {len(values)} entries for {count} tokens")
    return {name: np.asarray(values, _DTYPES[BEHAVIOUR_ARRAYS[name]]) for name, values in columns.items()}


def encode_block(n: int, branch: int, attempt: int, arrays: Mapping[str, np.ndarray]) -> bytes:
    """One block. ValueError: a dtype that the format does not know."""
    import numpy as np

    entries: list[list[str | int]] = []
    body = bytearray()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        if little.dtype.str not in _NAMES or little.ndim != 1:
            raise ValueError(f"{name}: {little.ndim} axes of {little.dtype}, the format holds one of {list(_DTYPES)}")
        entries.append([name, _NAMES[little.dtype.str], len(body), little.size])
        body += little.tobytes()
        body += bytes(-len(body) % 8)
    directory = encode({"n": n, "branch": branch, "attempt": attempt, "arrays": entries})
    directory += b" " * (-(4 + len(directory)) % 8)
    block = struct.pack("<I", len(directory)) + directory + bytes(body)
    return block + struct.pack("<I", zlib.crc32(block))


def decode_block(block: bytes) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Directory without its arrays, and the arrays [tokens] by name.

    Unknown dtypes are skipped. DamagedBlock.
    """
    import numpy as np

    if len(block) < 8:
        raise DamagedBlock(f"{len(block)} bytes are no token block")
    body, (crc,) = block[:-4], struct.unpack("<I", block[-4:])
    if zlib.crc32(body) != crc:
        raise DamagedBlock("the checksum of a token block is wrong")
    (length,) = struct.unpack_from("<I", body)
    try:
        directory = decode_object(body[4 : 4 + length])
        arrays = {
            name: np.frombuffer(body, _DTYPES[dtype], count, 4 + length + offset)
            for name, dtype, offset, count in directory.pop("arrays")
            if dtype in _DTYPES
        }
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedBlock(f"the directory of a token block is broken: {error}") from error
    return directory, arrays
