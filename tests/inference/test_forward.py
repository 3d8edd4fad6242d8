from __future__ import annotations

import json

import pytest
import torch

from trainer.inference.forward import Prefill, load_forward
from trainer.inference.linear import PackedLinear, PlainLinear, make_linear
from trainer.inference.llama import LlamaForward, inverse_frequencies


def test_packed_and_plain_projections_agree():
    torch.manual_seed(0)
    weight, x = (torch.randn(96, 64) / 8).bfloat16(), torch.randn(5, 64).bfloat16()
    packed, plain, other = make_linear(weight), PlainLinear(weight), torch.randn(5, 96).bfloat16()
    if not isinstance(packed, PackedLinear):
        pytest.skip("this CPU has no packed bfloat16 kernels")
    for a, b in (
        (packed(x), plain(x)),
        (packed.silu(x), plain.silu(x)),
        (packed.times(x, other), plain.times(x, other)),
        (packed.plus(x, other), plain.plus(x, other)),
    ):
        torch.testing.assert_close(a, b, atol=0.04, rtol=0.02)


@pytest.mark.parametrize("family", ["llama3-rope", "qwen2", "qwen3", "untied"])
def test_the_family_equals_transformers(tmp_path, family):
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    size = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    llama3 = {
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }  # fmt: skip
    kind, config = {
        "llama3-rope": (LlamaForCausalLM, LlamaConfig(**size, rope_parameters=llama3)),
        "untied": (LlamaForCausalLM, LlamaConfig(**size, tie_word_embeddings=False)),
        "qwen2": (Qwen2ForCausalLM, Qwen2Config(**size)),
        "qwen3": (Qwen3ForCausalLM, Qwen3Config(**size, head_dim=16)),
    }[family]
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * (0.3 if "norm" in name or "bias" in name else 0.1))
    model.save_pretrained(tmp_path)
    forward = load_forward(tmp_path, torch.float32, 80)
    assert isinstance(forward, LlamaForward)
    ids = torch.randint(0, 64, (1, 61))
    with torch.inference_mode():
        kv = torch.zeros(forward.layers, 2, 80, forward.width)
        forward.prefill([Prefill(ids[0, :40].tolist(), 0, 0)], kv)
        hidden = forward.prefill([Prefill(ids[0, 40:60].tolist(), 0, 40)], kv)
        decoded = forward.decode(ids[0, 60:], torch.tensor([60]), 61, kv)
        expected = model(ids).logits[0, -2:]
    torch.testing.assert_close(forward.logits(torch.cat([hidden, decoded])), expected, atol=1e-5, rtol=1e-5)


def test_other_architectures_run_through_transformers(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    from trainer.inference.hf_forward import HFForward

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4)).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "gpt2"
    forward = load_forward(tmp_path, torch.float32, 64)
    assert isinstance(forward, HFForward)
    ids = torch.randint(0, 64, (1, 12))
    with torch.inference_mode():
        kv = torch.zeros(forward.layers, 1, 64, forward.width)
        forward.prefill([Prefill(ids[0, :11].tolist(), 0, 0)], kv)
        logits = forward.decode(ids[0, 11:], torch.tensor([11]), 32, kv)
        expected = GPT2LMHeadModel.from_pretrained(tmp_path)(ids).logits[0, -1:]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_plain_rope_is_the_default():
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    assert inverse_frequencies(rope, 4).tolist() == pytest.approx([1.0, 0.01])
