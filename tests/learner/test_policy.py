"""The packed forward pass against stock transformers and stock peft, one sequence at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import get_peft_model
from safetensors.torch import load_file

from tests.learner.conftest import frame, make_groups
from trainer.learner import attention
from trainer.learner.batches import decode, pack
from trainer.learner.policy import Policy, UnsupportedModel, lora_config
from trainer.models import load_model


def stock_logprobs(model, sequences) -> torch.Tensor:
    parts = []
    for s in sequences:
        ids = torch.from_numpy(s.ids).unsqueeze(0)
        logits = model(ids).logits[0, :-1].float()  # place t predicts token t + 1
        logp = torch.log_softmax(logits / torch.from_numpy(s.temperature[1:, None]), dim=-1)
        mask = torch.from_numpy(s.mask)[1:]
        parts.append(logp.gather(-1, ids[0, 1:, None]).squeeze(-1)[mask])
    return torch.cat(parts)


def grow(policy: Policy, seed: int = 0) -> None:
    """Adapters that do something: B starts at zero."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in policy.trainable.items():
            if "lora_B" in name:
                p.copy_(torch.randn(p.shape, generator=g) * 0.1)
    policy.refresh()


@pytest.fixture
def sequences():
    """At 0.7, and one of them with a temperature of its own in each turn."""
    frames = make_groups(temperature=0.7)
    mask = np.frombuffer(frames[1].mask, "u1")
    later = (np.arange(len(mask)) >= len(mask) - 2).astype("<f4")  # its last turn has two tokens
    frames[1].token_temperature = (np.float32(0.7) + later).astype("<f4").tobytes()
    return [decode(f) for f in frames]


@pytest.mark.parametrize("short", [512, 0], ids=["plain", "fused"])
@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_lora_equals_stock_peft(settings, sequences, share, short, checkpointing, monkeypatch) -> None:
    monkeypatch.setattr(attention, "SHORT", short)
    policy = Policy(settings(gradient_checkpointing=checkpointing))
    grow(policy)
    stock = get_peft_model(load_model(policy.settings.model, "float32"), lora_config(policy.settings))
    stock.load_state_dict(policy.lora.model.state_dict())
    upstream = torch.linspace(-1, 1, sum(int(s.mask.sum()) for s in sequences))
    expected = stock_logprobs(stock.eval(), sequences)
    (expected * upstream).sum().backward()
    wanted = {n: p.grad for n, p in stock.named_parameters() if p.requires_grad}

    own = [replace(sequence, group=row) for row, sequence in enumerate(sequences)]  # no two have a prompt in common
    (batch,) = pack(sequences if share else own, 4096)
    actual = policy.token_logprobs(batch).logp
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    (actual * upstream).sum().backward()
    assert policy.trainable.keys() == wanted.keys()
    for name, parameter in policy.trainable.items():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_a_prompt_that_many_short_branches_share_is_no_other_in_checkpointed_layers(settings, mode, monkeypatch):
    """Bit by bit: copies that are made again lie in layers that are computed again."""
    monkeypatch.setattr(attention, "SHORT", 0)
    prompt = [*range(1, 31)]
    frames = [frame(n, [*prompt, 40 + n, 50 + n], [0] * 30 + [1, 1]) for n in range(8)]
    (batch,) = pack([decode(f) for f in frames], 4096)
    assert len(batch.trees) == 1 and 8 * batch.trees[0].prompt > batch.trees[0].tokens
    found = []
    for checkpointing in (False, True):
        policy = Policy(settings(trainer_mode=mode, gradient_checkpointing=checkpointing))
        policy.token_logprobs(batch).logp.cos().sum().backward()
        found.append([p.grad for p in policy.trainable.values()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True)) and any(g.any() for g in found[0])


def test_full_equals_stock_transformers(settings, sequences) -> None:
    policy = Policy(settings(trainer_mode="full"))
    stock = load_model(policy.settings.model, "float32")
    expected = stock_logprobs(stock, sequences)
    expected.sum().backward()
    (batch,) = pack(sequences, 4096)
    actual = policy.token_logprobs(batch).logp
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    actual.sum().backward()
    for name, parameter in stock.named_parameters():
        torch.testing.assert_close(policy.trainable[name].grad, parameter.grad, rtol=1e-4, atol=1e-4)


def test_checkpointed_layers_are_computed_twice(settings, sequences) -> None:
    counts = []
    for checkpointing in (False, True):
        policy = Policy(settings(gradient_checkpointing=checkpointing))
        calls = []
        policy._body.layers[0].self_attn.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        (batch,) = pack(sequences, 4096)
        policy.token_logprobs(batch).logp.sum().backward()
        counts.append(len(calls))
    assert counts == [1, 2]


def test_a_sliding_window_is_kept(model_path, settings, sequences, tmp_path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=0,
        initializer_range=0.2,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    policy = Policy(settings(model=str(tmp_path)))
    (batch,) = pack(sequences, 4096)
    expected = stock_logprobs(load_model(tmp_path, "float32"), sequences)
    torch.testing.assert_close(policy.token_logprobs(batch).logp, expected, rtol=1e-5, atol=1e-5)


def test_two_forwards_are_equal_though_dropout_is_configured(settings, sequences) -> None:
    policy = Policy(settings(lora_dropout=0.5))
    grow(policy)
    policy.lora.model.train()  # as careless code might
    (batch,) = pack(sequences, 4096)
    assert policy.token_logprobs(batch).logp.equal(policy.token_logprobs(batch).logp)


def test_bf16_stays_near_fp32_and_adapters_stay_fp32(settings, sequences) -> None:
    exact, rough = Policy(settings()), Policy(settings(dtype="bfloat16"))
    grow(exact)
    grow(rough)
    assert {p.dtype for p in rough.trainable.values()} == {torch.float32}
    (batch,) = pack(sequences, 4096)
    difference = rough.token_logprobs(batch).logp - exact.token_logprobs(batch).logp
    assert difference.abs().mean() < 0.1
    assert 0 < rough.rounding_gap < 4e-3 and exact.rounding_gap == 0
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"


def test_the_seed_alone_decides_the_adapter(settings) -> None:
    first, again, other = (Policy(settings(seed=s)).trainable for s in (1, 1, 2))
    assert all(first[n].equal(again[n]) for n in first)
    assert any(not first[n].equal(other[n]) for n in first)


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_exported_weights_are_what_stock_peft_merges(settings, tmp_path, mode: str) -> None:
    policy = Policy(settings(trainer_mode=mode))
    if mode == "lora":
        grow(policy)
        stock = get_peft_model(load_model(policy.settings.model, "float32"), lora_config(policy.settings))
        stock.load_state_dict(policy.lora.model.state_dict())
        wanted = dict(stock.merge_and_unload().named_parameters())
    else:
        wanted = dict(load_model(policy.settings.model, "float32").named_parameters())
    written = policy.export(tmp_path / "slot_0")
    assert [f.name for f in (tmp_path / "slot_0").iterdir()] == ["model.safetensors"]
    assert written == (tmp_path / "slot_0" / "model.safetensors").stat().st_size
    tensors = load_file(tmp_path / "slot_0" / "model.safetensors")
    assert len(tensors) == (14 if mode == "lora" else len(wanted))  # 7 linear layers in each of 2 blocks
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, wanted[name].detach(), rtol=1e-5, atol=1e-6)


def test_unknown_targets_and_odd_models_are_refused(settings, model_path, monkeypatch) -> None:
    with pytest.raises(ValueError, match="nonesuch"):
        Policy(settings(lora_target_modules=["nonesuch"]))
    with pytest.raises(ValueError, match="embed_tokens is Embedding"):
        Policy(settings(lora_target_modules=["embed_tokens"]))
    original = load_model(model_path, "float32")
    original.config.logit_scale = 0.5
    monkeypatch.setattr("trainer.learner.policy.load_model", lambda *_: original)
    with pytest.raises(UnsupportedModel, match="logit_scale"):
        Policy(settings())
