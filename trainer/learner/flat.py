"""Weights laid out as a safetensors file: in one contiguous buffer that a sync writes at once, or as a stream."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from trainer.learner import parallel

_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class FlatWeights:
    """`tensors` are views, by their names in the stock model; writing into one changes the next file."""

    def __init__(self, shapes: Mapping[str, torch.Size], dtype: torch.dtype, device: torch.device) -> None:
        self._buffer = torch.empty(sum(s.numel() for s in shapes.values()), dtype=dtype, device=device)
        self.tensors: dict[str, Tensor] = {}
        at = 0
        for name, shape in shapes.items():
            self.tensors[name] = self._buffer[at : at + shape.numel()].view(shape)
            at += shape.numel()
        self._head = _head(shapes, dtype)

    def write(self, path: Path) -> int:
        """Replaces the file `path` at once; the bytes written. Not synced to the disk: an engine reads it
        now.
        """
        return _replace(path, self._head, [self._buffer])


def write_stream(path: Path, shapes: Mapping[str, torch.Size], dtype: torch.dtype, tensors: Iterable[Tensor]) -> int:
    """The same file from tensors that come one by one, in the order of `shapes`; the bytes written.

    Making one is a collective: all ranks take all of them, also where the disk is full, and rank 0 writes. OSError on
    all ranks if it cannot.
    """
    stream, size, error = iter(tensors), 0, None
    try:
        if parallel.rank() == 0:
            size = _replace(path, _head(shapes, dtype), stream)
    except OSError as failed:
        error = (failed.errno, failed.strerror, str(path))
    for _ in stream:
        pass
    if error := parallel.gather(error)[0]:
        raise OSError(*error)
    return size


def _head(shapes: Mapping[str, torch.Size], dtype: torch.dtype) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        end = at + shape.numel() * dtype.itemsize
        header[name] = {"dtype": _DTYPES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned to eight bytes
    return len(text).to_bytes(8, "little") + text


def _replace(path: Path, head: bytes, tensors: Iterable[Tensor]) -> int:
    aside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    size = len(head)
    try:
        with aside.open("wb", buffering=0) as file:
            file.write(head)
            for tensor in tensors:
                data = memoryview(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
                size += len(data)
                at = 0
                while at < len(data):  # one system call writes at most 2 GiB
                    at += file.write(data[at : at + (1 << 30)])
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    return size
