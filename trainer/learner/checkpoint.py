"""What a checkpoint folder holds (WIRE 5.9), written and read back; sums, fsync and renaming are the rundir's.

An adapter or a model in the stock layout, its tokenizer, `state.json`, and under `optimizer/` what only a
resume needs: the moments, and the fp32 masters of `full`. Safetensors and JSON throughout, no pickles. The same
files with any number of ranks.
"""

from __future__ import annotations

import base64
import copy
import errno
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainer.learner import parallel
from trainer.learner.flat import write_stream
from trainer.learner.learner import Learner
from trainer.learner.policy import Policy

ADAPTER = "adapter_model.safetensors"
VALUE_HEAD = "value_head.safetensors"
OPTIMIZER = "optimizer/rank_0.safetensors"
STATE = "state.json"
_MASTER = "master/"
_MOMENTS = "adam/"
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
)


class CheckpointUnusable(ValueError):
    """The folder cannot be resumed from; the text says what it lacks."""


def write(learner: Learner, folder: Path, state: dict[str, Any], *, optimizer: bool) -> int:
    """Fills `folder`; `state` is the coordinator's part of state.json. Returns the bytes written.

    All ranks call it and rank 0 writes: what the folder holds is whole, so that any number of ranks can go on from it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    policy = learner.policy
    # What all ranks have a part in comes first: where rank 0 then fails alone, none is left waiting for it.
    if policy.lora is None:
        policy.export(folder)
    if optimizer:
        tensors = {_MOMENTS + name: tensor for name, tensor in learner.optimizer.state().items()}
        if policy.lora is None:
            tensors |= {_MASTER + name: tensor for name, tensor in policy.trainable.items()}
        (folder / OPTIMIZER).parent.mkdir(exist_ok=True)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        write_stream(folder / OPTIMIZER, shapes, torch.float32, map(parallel.whole, tensors.values()))
    if parallel.rank():
        return 0
    if policy.lora is None:
        policy.config.save_pretrained(folder)
    else:
        write_adapter(policy, folder)
    if learner.value is not None:
        _save({name: tensor.detach() for name, tensor in learner.value.trainable.items()}, folder / VALUE_HEAD)
    for name in _TOKENIZER_FILES:
        source = Path(learner.settings.model) / name
        if source.is_file():
            shutil.copyfile(source, folder / name)
    (folder / STATE).write_text(json.dumps({**state, **_own_state(learner)}, indent=1) + "\n")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def read(learner: Learner, folder: Path) -> None:
    """Brings a new learner to where the one that wrote `folder` stood. Raises CheckpointUnusable."""
    own = [ADAPTER] if learner.policy.lora else []
    own += [VALUE_HEAD] if learner.value is not None else []
    for name in (STATE, OPTIMIZER, *own):
        if not (folder / name).is_file():
            raise CheckpointUnusable(f"{folder} cannot be resumed from: it has no {name}")
    try:
        state = json.loads((folder / STATE).read_text())
        stored = load_file(folder / OPTIMIZER)
        adapter = load_file(folder / ADAPTER) if learner.policy.lora else {}
        value_head = load_file(folder / VALUE_HEAD) if learner.value is not None else {}
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointUnusable(f"{folder} cannot be resumed from: {error}") from None
    try:
        _load_weights(learner.policy, adapter, stored)
        if learner.value is not None:
            learner.value.load(value_head)
        learner.optimizer.load(_below(stored, _MOMENTS))
    except (KeyError, RuntimeError) as error:
        raise CheckpointUnusable(f"{folder} does not fit this model and its settings: {error}") from None
    learner.policy.refresh()
    learner.steps = int(state["scheduler"]["step"])
    learner.skipped = int(state["scheduler"]["skipped"])
    learner.sd_seq, learner.sd_clip, learner.logp_noise = state["sd_seq"], state["sd_clip"], state["logp_noise"]
    torch.set_rng_state(torch.frombuffer(bytearray(base64.b64decode(state["rng"])), dtype=torch.uint8))


def _own_state(learner: Learner) -> dict[str, Any]:
    settings = learner.settings
    return {
        "scheduler": {
            "kind": settings.lr_schedule,
            "learning_rate": settings.learning_rate,
            "step": learner.steps,
            "skipped": learner.skipped,
        },
        "rng": base64.b64encode(torch.get_rng_state().numpy().tobytes()).decode(),
        "sd_seq": learner.sd_seq,
        "sd_clip": learner.sd_clip,
        "logp_noise": learner.logp_noise,
    }


def write_adapter(policy: Policy, folder: Path) -> int:
    """The adapter of a lora policy in peft's stock layout; bytes. ValueError if the policy has none."""
    if policy.lora is None:
        raise ValueError("there is no adapter to write: policy.trainer_mode is full")
    if parallel.rank():
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    model = policy.lora.model
    config = copy.copy(model.peft_config["default"])
    config.base_model_name_or_path = policy.settings.base_name or policy.settings.model
    config.inference_mode = True  # as stock peft saves it: loaded for use, not for training
    config.save_pretrained(folder)
    # Without this the writer would look the base model up on the hub.
    adapter = get_peft_model_state_dict(model, save_embedding_layers=False)
    _save({n: t.contiguous() for n, t in adapter.items()}, folder / ADAPTER)
    return (folder / ADAPTER).stat().st_size


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    """OSError where the library tells of a full disk by an error of its own."""
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        if "No space left" in str(error) or "quota exceeded" in str(error):
            raise OSError(errno.ENOSPC, "no space left on the disk", str(path)) from None
        raise


@torch.no_grad()
def _load_weights(policy: Policy, adapter: dict[str, Tensor], stored: dict[str, Tensor]) -> None:
    if policy.lora is not None:
        missing = set_peft_model_state_dict(policy.lora.model, adapter).unexpected_keys
        if missing:
            raise KeyError(missing[0])
        return
    masters = _below(stored, _MASTER)
    for name, tensor in policy.trainable.items():
        parallel.local(tensor).copy_(parallel.part_of(masters[name], tensor))


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
