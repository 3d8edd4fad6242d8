"""`python -m trainer export`: the merged model against peft's own merge, and refusals that leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from tests.learner.conftest import make_groups
from trainer.export import CannotMerge, merge
from trainer.learner import checkpoint
from trainer.learner.learner import Learner
from trainer.models import load_model


@pytest.fixture
def saved(settings, tmp_path):
    learner = Learner(settings(trainer_mode="lora", base_name="builtin:x"))
    for k in (1, 2):
        learner.step(k, make_groups(seed=k))
    checkpoint.write(learner, tmp_path / "step_2", {"step": 2}, optimizer=False)
    return tmp_path / "step_2", learner


def test_it_is_what_stock_tools_merge_and_what_the_engine_was_served(saved, tmp_path) -> None:
    folder, learner = saved
    base = Path(learner.settings.model)
    count = merge(folder, base, tmp_path / "whole", "float32")
    stock = PeftModel.from_pretrained(load_model(base, "float32"), folder).merge_and_unload().state_dict()
    ours = load_file(tmp_path / "whole" / "model.safetensors")
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, stock[name], rtol=1e-6, atol=1e-7)
    served = learner.policy.lora.served.tensors
    assert count == len(served) and all(ours[name].equal(tensor) for name, tensor in served.items())
    plain = load_file(base / "model.safetensors")
    assert sum(not tensor.equal(plain[name]) for name, tensor in ours.items()) == count
    assert LlamaForCausalLM.from_pretrained(tmp_path / "whole").config.vocab_size == learner.policy.config.vocab_size
    assert (tmp_path / "whole" / "tokenizer_config.json").is_file()
    names = {file.name for file in (tmp_path / "whole").iterdir()}
    assert not names & {"adapter_model.safetensors", "adapter_config.json", "state.json"}


def test_a_dtype_is_cast_to_before_the_merge_and_stands_in_the_config(saved, tmp_path) -> None:
    folder, learner = saved
    merge(folder, Path(learner.settings.model), tmp_path / "half", "bfloat16")
    assert {tensor.dtype for tensor in load_file(tmp_path / "half" / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"


def test_another_base_is_refused_by_the_name_of_what_it_lacks(saved, tmp_path) -> None:
    folder, learner = saved
    other = tmp_path / "other"
    other.mkdir()
    tensors = load_file(Path(learner.settings.model) / "model.safetensors")
    lacking = next(name for name in tensors if name.endswith("layers.1.self_attn.q_proj.weight"))
    del tensors[lacking]
    save_file(tensors, other / "model.safetensors")
    with pytest.raises(CannotMerge, match=r"layers\.1\.self_attn\.q_proj"):
        merge(folder, other, tmp_path / "out")
