"""`python -m trainer export CHECKPOINT --out DIR`: the whole model of a checkpoint in the stock layout.

A LoRA checkpoint is merged into its base, W + s B A in fp32 and cast once, as the learner does it for the engine. The
base's files are read and written one at a time, so it takes the memory of one of them. `full` needs no merging.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import EXIT_CONFIG, EXIT_OK
from trainer.stdio import tell

if TYPE_CHECKING:
    from torch import Tensor

ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".bin.index.json")


class CannotMerge(ValueError):
    """The adapter and the base do not fit; the text names what does not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder that is made")
    parser.add_argument("--base", required=True, help="policy.model_name of the run")
    parser.add_argument("--dtype", help="of the merged weights, such as bfloat16 (default: the base's)")


def main(arguments: argparse.Namespace) -> int:
    from trainer.models import ModelNotFound, resolve_model

    try:
        base = resolve_model(arguments.base)
        tell("progress", message=f"merging into {base.name}")
        count = merge(arguments.checkpoint, base.path, arguments.out, arguments.dtype)
    except (ModelNotFound, CannotMerge, OSError) as error:
        return tell("error", exit_code=EXIT_CONFIG, code="export_failed", message=str(error), hint=None)
    return tell("result", exit_code=EXIT_OK, path=str(arguments.out), merged=count, base=base.name)


def merge(checkpoint: Path, base: Path, out: Path, dtype: str | None = None) -> int:
    """Write the merged model into `out`, a new folder; gives how many weights were adapted.

    Raises:
        CannotMerge: not a plain LoRA, or of another base.
    """
    from safetensors.torch import save_file

    pairs, scale = _adapter(checkpoint)
    shards = sorted(base.glob("*.safetensors"))
    if not shards:
        raise CannotMerge(f"{base} has no safetensors weights")
    out.mkdir(parents=True)
    left = set(pairs)
    for shard in shards:
        tensors = {}
        for name, weight in _weights(shard, dtype):
            if name in pairs:
                left.discard(name)
                weight = _merged(name, weight, *pairs[name], scale)
            tensors[name] = weight
        save_file(tensors, out / shard.name, metadata={"format": "pt"})
    if left:
        raise CannotMerge(f"{base} has no {min(left)}, which the adapter in {checkpoint} changes: is it its base?")
    _copy_words(base, checkpoint, out)
    if dtype is not None:
        config = json.loads((out / "config.json").read_text())
        config.pop("torch_dtype", None)
        (out / "config.json").write_text(json.dumps({**config, "dtype": dtype}, indent=2) + "\n")
    return len(pairs)


def _adapter(folder: Path) -> tuple[dict[str, tuple[Tensor, Tensor]], float]:
    """({weight of the base: (A [r, in], B [out, r])}, s)."""
    from safetensors.torch import load_file

    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    if config.get("peft_type") != "LORA" or config.get("use_dora") or config.get("modules_to_save"):
        raise CannotMerge(f"{folder} is not a plain LoRA adapter")
    if config.get("rank_pattern") or config.get("alpha_pattern"):
        raise CannotMerge(f"{folder} has a rank or alpha of its own for some layers")
    rank, alpha = config["r"], config["lora_alpha"]
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    tensors = load_file(folder / ADAPTER)
    pairs = {
        f"{name.removeprefix(_PREFIX).removesuffix(_A)}.weight": (tensor, tensors[name.removesuffix(_A) + _B])
        for name, tensor in tensors.items()
        if name.endswith(_A)
    }
    if 2 * len(pairs) != len(tensors):
        raise CannotMerge(f"{folder}/{ADAPTER} has more than pairs of A and B")
    return pairs, scale


def _weights(shard: Path, dtype: str | None) -> Iterator[tuple[str, Tensor]]:
    import torch
    from safetensors import safe_open

    with safe_open(shard, framework="pt") as file:
        for name in file.keys():
            weight = file.get_tensor(name)
            yield name, weight if dtype is None or not weight.is_floating_point() else weight.to(getattr(torch, dtype))


def _merged(name: str, weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    import torch

    if weight.shape != (b.shape[0], a.shape[1]):
        raise CannotMerge(f"{name} of the base is {tuple(weight.shape)}, the adapter's {(b.shape[0], a.shape[1])}")
    return torch.addmm(weight.float(), b.float(), a.float(), alpha=scale).to(weight.dtype).contiguous()


def _copy_words(base: Path, checkpoint: Path, out: Path) -> None:
    """Config, index and tokenizer: of the checkpoint where it has them, else of the base."""
    own = {"adapter_config.json", "manifest.json", "state.json", "STABLE"}
    for folder in (base, checkpoint):
        for file in folder.iterdir():
            if file.is_file() and not file.name.startswith(".") and not file.name.endswith(_WEIGHTS):
                if file.name not in own:
                    shutil.copyfile(file, out / file.name)
