"""4-bit bases for real, on a CPU: what is trained, what is computed with, and what is written for an engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import PeftModel
from torch import nn

from tests.learner.conftest import make_groups
from tests.learner.test_against_loop import near_policy, stock_logp
from trainer.learner import checkpoint
from trainer.learner.batches import decode, pack
from trainer.learner.learner import Learner
from trainer.learner.reference import frozen_start
from trainer.models import TINY, load_model, resolve_model

pytest.importorskip("bitsandbytes")
from trainer.learner.qlora import FourBitLinear, dequantised, write_dequantised

CPU = torch.device("cpu")


@pytest.fixture
def tiny(settings):
    path = str(resolve_model(TINY).path)
    return lambda **changes: settings(trainer_mode="qlora", model=path, **changes)


def layers(learner: Learner) -> dict[str, FourBitLinear]:
    return {n: m for n, m in learner.policy._model.named_modules() if isinstance(m, FourBitLinear)}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_reaches_the_adapters_alone(tiny, dtype: str) -> None:
    learner = Learner(tiny(dtype=dtype, gradient_checkpointing=dtype == "bfloat16"))
    quantised = layers(learner)
    assert len(quantised) == 4 * 7
    first = next(iter(quantised.values()))
    assert first.weight.dtype == torch.uint8 and first.weight.quant_state.nested  # quantised twice
    before = {name: dequantised(layer) for name, layer in quantised.items()}
    assert all(p.dtype == torch.float32 for p in learner.policy.trainable.values())
    for step in (1, 2):  # in the first one B is 0, and A has no gradient
        result = learner.step(step, make_groups(seed=step))
        assert result.skipped is None and result.metrics["optim/update_ratio"] > 0
    learner._forward_backward([decode(f) for f in make_groups()])
    assert all(p.grad is not None and p.grad.any() for p in learner.policy.trainable.values())
    names = learner.policy.trainable.keys()
    others = [p for n, p in learner.policy.lora.model.named_parameters() if n not in names]
    assert all("lora_" in name for name in names) and not any(p.requires_grad or p.grad is not None for p in others)
    assert all(dequantised(layer).equal(before[name]) for name, layer in quantised.items())


def test_the_error_of_four_bits_is_that_of_nf4(tiny) -> None:
    learner, stock = Learner(tiny()), load_model(resolve_model(TINY).path, "float32")
    exact = dict(stock.named_modules())
    for name, layer in layers(learner).items():
        weight = exact[name.replace(".base_layer", "")].weight
        error = (dequantised(layer) - weight).norm() / weight.norm()
        assert 0.05 < error < 0.12  # of a normal distribution in blocks of 64: about 0.09


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_written_base_with_the_adapter_is_the_policy(tiny, tmp_path, dtype: str) -> None:
    learner = Learner(tiny(dtype=dtype))
    frames = near_policy(learner, per_turn=False, proximal=False)
    for step in (1, 2, 3):
        learner.step(step, frames)
    write_dequantised(resolve_model(TINY).path, tmp_path / "base", dtype)
    checkpoint.write_adapter(learner.policy, tmp_path / "adapter")
    base = load_model(tmp_path / "base", dtype)
    written = dict(base.named_modules())
    for name, layer in layers(learner).items():
        place = written[name.replace(".base_layer", "")]
        assert type(place) is nn.Linear and place.weight.equal(dequantised(layer))
    assert (tmp_path / "base/tokenizer.json").is_file() and (tmp_path / "base/generation_config.json").is_file()
    served = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    (batch,) = pack([decode(f) for f in frames], 4096)
    with torch.no_grad():
        ours = learner.policy.token_logprobs(batch).logp
        theirs = torch.cat([stock_logp(served, f).float() for f in frames])
    assert (ours - theirs).abs().mean() < (1e-5 if dtype == "float32" else 0.05)


def test_its_reference_is_the_four_bit_base(tiny) -> None:
    learner = Learner(tiny(kl_coef=0.2, reference="shared"))
    frames = near_policy(learner, per_turn=False, proximal=False)
    assert learner.step(1, frames).metrics["gspo/kl"] == pytest.approx(0.0, abs=1e-12)
    assert learner.step(2, frames).metrics["gspo/kl"] > 0
    (batch,) = pack([decode(f) for f in frames], 4096)
    own = learner.policy.token_logprobs(batch, model=frozen_start(learner.settings, CPU)).logp
    assert learner.reference.token_logprobs(batch).equal(own.detach())
    assert all(p.requires_grad for p in learner.policy.trainable.values())  # and is on again


def test_a_resumed_run_goes_on_from_the_adapter(tiny, tmp_path) -> None:
    whole, first = Learner(tiny()), Learner(tiny())
    expected = [whole.step(k, make_groups(seed=k)) for k in (1, 2)][-1]
    first.step(1, make_groups(seed=1))
    checkpoint.write(first, tmp_path, {"step": 1}, optimizer=True)
    second = Learner(tiny())
    checkpoint.read(second, tmp_path)
    again = second.step(2, make_groups(seed=2))
    logps = [[np.frombuffer(s.logp_learner, "<f4") for s in r.sequences] for r in (expected, again)]
    assert all(np.array_equal(a, b) for a, b in zip(*logps, strict=True))
