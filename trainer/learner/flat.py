"""Weights in one contiguous buffer laid out as a safetensors file, so that a sync is a single write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class FlatWeights:
    """`tensors` are views, by their names in the stock model; writing into one changes the next file."""

    def __init__(self, shapes: Mapping[str, torch.Size], dtype: torch.dtype, device: torch.device) -> None:
        self._buffer = torch.empty(sum(s.numel() for s in shapes.values()), dtype=dtype, device=device)
        self.tensors: dict[str, Tensor] = {}
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        at, size = 0, self._buffer.element_size()
        for name, shape in shapes.items():
            end = at + shape.numel()
            self.tensors[name] = self._buffer[at:end].view(shape)
            header[name] = {
                "dtype": _DTYPES[dtype],
                "shape": list(shape),
                "data_offsets": [at * size, end * size],
            }
            at = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # the format wants the data aligned to eight bytes
        self._head = len(text).to_bytes(8, "little") + text

    def write(self, path: Path) -> int:
        """Replaces the file `path` at once; the bytes written. Not synced to the disk: an engine reads it
        now.
        """
        aside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
        data = memoryview(self._buffer.cpu().view(torch.uint8).numpy())
        try:
            with aside.open("wb", buffering=0) as file:
                file.write(self._head)
                at = 0
                while at < len(data):  # one system call writes at most 2 GiB
                    at += file.write(data[at : at + (1 << 30)])
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        return len(self._head) + len(data)
