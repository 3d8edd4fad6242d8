"""Named tensors in safetensors files: the model's own, and the updates that a weight sync lays over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

Read = Callable[[str], Tensor | None]


class WeightFiles:
    """The tensors of a folder's *.safetensors files, or of one file. Read by mmap, handed out as copies:
    a file may be rewritten or removed as soon as the reading is over."""

    def __init__(self, path: Path) -> None:
        files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        if not files:
            raise FileNotFoundError(f"{path} holds no *.safetensors file")
        try:
            handles = [safe_open(str(file), framework="pt") for file in files]
        except SafetensorError as error:
            raise ValueError(f"{path} is not a whole safetensors file ({error})") from None
        self._handle_of = {name: handle for handle in handles for name in handle.keys()}

    @property
    def names(self) -> set[str]:
        return set(self._handle_of)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._handle_of[name].get_slice(name).get_shape())

    def read(self, name: str, dtype: torch.dtype) -> Tensor | None:
        handle = self._handle_of.get(name)
        return None if handle is None else handle.get_tensor(name).to(dtype, copy=True)


def check_update(base: WeightFiles, update: WeightFiles) -> None:
    """Raises ValueError when the update has a tensor that the model does not have in that shape."""
    known = base.names
    for name in sorted(update.names):
        if name == "lm_head.weight" and name not in known:
            name_in_base = "model.embed_tokens.weight"  # a tied head that training has untied
        else:
            name_in_base = name
        if name_in_base not in known:
            raise ValueError(f"the update has a tensor {name} that the model does not have")
        if update.shape(name) != base.shape(name_in_base):
            raise ValueError(f"{name} is {update.shape(name)} in the update, {base.shape(name_in_base)} in the model")


def overlay(base: WeightFiles, update: WeightFiles | None, dtype: torch.dtype) -> Read:
    """Reads a name from the update if it is there, else from the model's own files."""

    def read(name: str) -> Tensor | None:
        found = update.read(name, dtype) if update is not None else None
        return base.read(name, dtype) if found is None else found

    return read
