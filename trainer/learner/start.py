"""The adapter that a run goes on with (policy.source): put into the policy's own, which it has to fit."""

from __future__ import annotations

from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file

ADAPTER = "adapter_model.safetensors"


@torch.no_grad()
def load_adapter(model: PeftModel, folder: Path) -> None:
    """ValueError: it cannot be read, or is for other layers or of another rank."""
    try:
        stored = load_file(folder / ADAPTER)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"the adapter in {folder} cannot be read: {error}") from None
    own = {name: t.shape for name, t in get_peft_model_state_dict(model, save_embedding_layers=False).items()}
    if own != {name: tensor.shape for name, tensor in stored.items()}:
        wrong = sorted(own.keys() ^ stored.keys()) or [n for n, shape in own.items() if stored[n].shape != shape]
        raise ValueError(
            f"the adapter in {folder} is for other layers or of another rank (at {wrong[0]}): give training.lora.r and "
            "training.lora.target_modules as the run had them that made it"
        )
    set_peft_model_state_dict(model, stored)
