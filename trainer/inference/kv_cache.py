"""The key-value cache: rows of running sequences, and the prompts that later requests may start from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


class RowCache:
    """`kv` [layers, rows, capacity, width]. Running sequences stand in rows 0 .. B - 1, so that a decode step reads
    one slice. Pages are zero and untouched until a token is written there; capacity grows by doubling."""

    def __init__(self, layers: int, rows: int, width: int, dtype: torch.dtype, max_len: int) -> None:
        self._max_len = max_len
        self.kv = torch.zeros(layers, rows, min(max_len, 256), width, dtype=dtype)

    @property
    def capacity(self) -> int:
        return self.kv.shape[2]

    def reserve(self, length: int, used_rows: int) -> None:
        """Room for `length` tokens a row."""
        if length <= self.capacity:
            return
        layers, rows, old, width = self.kv.shape
        capacity = old
        while capacity < length:
            capacity *= 2
        grown = torch.zeros(layers, rows, min(capacity, self._max_len), width, dtype=self.kv.dtype)
        grown[:, :used_rows, :old] = self.kv[:, :used_rows]
        self.kv = grown

    def move(self, source: int, target: int, length: int) -> None:
        self.kv[:, target, :length] = self.kv[:, source, :length]

    def copy_out(self, row: int, length: int) -> Tensor:
        return self.kv[:, row, :length].clone()

    def copy_in(self, row: int, saved: Tensor) -> None:
        self.kv[:, row, : saved.shape[1]] = saved


@dataclass(slots=True)
class Prefix:
    ids: np.ndarray  # int64
    kv: Tensor  # [layers, len(ids), width]
    hidden: Tensor | None  # of the last token, if it was kept


class PrefixCache:
    """Recently computed sequences, by least recent use. A prompt that is here whole costs a copy; one that shares a
    beginning (the next turn of an episode) is computed from there on. Holds for one weight version."""

    MIN_SHARED = 16  # tokens; below, computing them again is as fast

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._entries: OrderedDict[bytes, Prefix] = OrderedDict()
        self._tokens = 0

    def clear(self) -> None:
        self._entries.clear()
        self._tokens = 0

    def put(self, ids: Sequence[int], kv: Tensor, hidden: Tensor | None) -> None:
        array = np.asarray(ids, np.int64)
        if len(array) > self._max_tokens:
            return
        key = array.tobytes()
        old = self._entries.pop(key, None)
        if old is not None:
            self._tokens -= len(old.ids)
            hidden = old.hidden if hidden is None else hidden
        self._entries[key] = Prefix(array, kv, hidden)
        self._tokens += len(array)
        while self._tokens > self._max_tokens:
            _, dropped = self._entries.popitem(last=False)
            self._tokens -= len(dropped.ids)

    def find(self, ids: Sequence[int]) -> tuple[Prefix, int] | None:
        """The entry to start from and how many of its tokens count. All of `ids` only if the hidden state is here."""
        array = np.asarray(ids, np.int64)
        exact = self._entries.get(array.tobytes())
        if exact is not None and exact.hidden is not None:
            self._entries.move_to_end(array.tobytes())
            return exact, len(array)
        best, shared = None, self.MIN_SHARED - 1
        for key, entry in self._entries.items():
            n = min(len(entry.ids), len(array) - 1)
            if n > shared:
                different = np.flatnonzero(entry.ids[:n] != array[:n])
                n = int(different[0]) if len(different) else n
                if n > shared:
                    best, shared = key, n
        if best is None:
            return None
        self._entries.move_to_end(best)
        return self._entries[best], shared
