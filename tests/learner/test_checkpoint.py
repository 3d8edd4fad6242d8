from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel
from transformers import LlamaForCausalLM

from tests.learner.conftest import make_groups
from tests.learner.test_policy import stock_logprobs
from trainer.learner import checkpoint
from trainer.learner.batches import decode, pack
from trainer.learner.learner import Learner
from trainer.models import load_model


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in learner.policy.trainable.items()}


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_stock_tools_load_it_and_give_the_same_logits(settings, tmp_path, mode: str) -> None:
    learner = Learner(settings(trainer_mode=mode, lora_dropout=0.25, base_name="builtin:x"))
    for k in (1, 2):
        learner.step(k, make_groups(seed=k))
    written = checkpoint.write(learner, tmp_path, {"step": 2}, optimizer=False)
    assert written == sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file())
    if mode == "lora":
        stock = PeftModel.from_pretrained(load_model(learner.settings.model, "float32"), tmp_path).eval()
        config = json.loads((tmp_path / "adapter_config.json").read_text())
        assert config["lora_dropout"] == 0.25 and config["inference_mode"] is True
        assert config["base_model_name_or_path"] == "builtin:x"
    else:
        stock = LlamaForCausalLM.from_pretrained(tmp_path).eval()
    sequences = [decode(f) for f in make_groups()]
    (batch,) = pack(sequences, 4096)
    expected = stock_logprobs(stock, sequences)
    torch.testing.assert_close(learner.policy.token_logprobs(batch).logp, expected, rtol=1e-5, atol=1e-5)
    assert (tmp_path / "tokenizer_config.json").is_file() and (tmp_path / "generation_config.json").is_file()
    assert not (tmp_path / "optimizer").exists()


@pytest.mark.parametrize("mode", ["lora", "full"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_resumed_run_equals_an_uninterrupted_one(settings, tmp_path, mode: str, dtype: str) -> None:
    changes = {"trainer_mode": mode, "dtype": dtype, "deterministic": True, "lr_schedule": "cosine"}
    try:
        whole = Learner(settings(**changes))
        expected = [whole.step(k, make_groups(seed=k)) for k in (1, 2, 3, 4)]
        first = Learner(settings(**changes))
        for k in (1, 2):
            first.step(k, make_groups(seed=k))
        checkpoint.write(first, tmp_path, {"step": 2}, optimizer=True)
        torch.manual_seed(99)
        second = Learner(settings(**changes))
        checkpoint.read(second, tmp_path)
        assert second.info.step == 2
        again = [second.step(k, make_groups(seed=k)) for k in (3, 4)]
    finally:
        torch.use_deterministic_algorithms(False)
    for one, two in zip(expected[2:], again, strict=True):
        assert [s.logp_learner for s in one.sequences] == [s.logp_learner for s in two.sequences]
        times = {"time/forward_backward"}
        assert {k: v for k, v in one.metrics.items() if k not in times} == {
            k: v for k, v in two.metrics.items() if k not in times
        }
    assert all(p.equal(weights(whole)[n]) for n, p in second.policy.trainable.items())


def test_state_and_no_pickles(settings, tmp_path) -> None:
    learner = Learner(settings())
    learner.step(1, make_groups())
    checkpoint.write(learner, tmp_path, {"step": 1, "cursor": {"seed": 7}}, optimizer=True)
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["cursor"] == {"seed": 7} and state["scheduler"]["step"] == 1 and state["sd_seq"] > 0
    names = {f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*") if f.is_file()}
    assert names == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "generation_config.json",
        "optimizer/rank_0.safetensors",
        "state.json",
        "tokenizer_config.json",
    }


@pytest.mark.parametrize("variety", ["gspo", "grpo"])
def test_the_measured_noise_goes_on(settings, tmp_path, variety: str) -> None:
    learner = Learner(settings(variety=variety))
    learner.step(1, make_groups())
    checkpoint.write(learner, tmp_path, {"step": 1}, optimizer=True)
    again = Learner(settings(variety=variety))
    checkpoint.read(again, tmp_path)
    measured = (learner.sd_seq, learner.sd_clip, learner.logp_noise)
    assert (again.sd_seq, again.sd_clip, again.logp_noise) == measured and None not in measured
    assert (learner.sd_seq == learner.sd_clip) == (variety == "gspo")  # a token-level clip sees noise of its own
    old = make_groups(lag=1)  # neither can be measured on these
    floors = [one.step(2, old).metrics["gspo/clip_noise_floor"] for one in (learner, again)]
    assert floors[0] == floors[1] > 0


def test_what_cannot_be_resumed_is_said(settings, tmp_path) -> None:
    learner = Learner(settings())
    learner.step(1, make_groups())
    checkpoint.write(learner, tmp_path, {}, optimizer=False)
    with pytest.raises(checkpoint.CheckpointUnusable, match="it has no"):
        checkpoint.read(learner, tmp_path)
    checkpoint.write(learner, tmp_path, {}, optimizer=True)
    with pytest.raises(checkpoint.CheckpointUnusable, match="does not fit"):
        checkpoint.read(Learner(settings(lora_r=2)), tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\0" * 40)
    with pytest.raises(checkpoint.CheckpointUnusable, match="cannot be resumed"):
        checkpoint.read(learner, tmp_path)
