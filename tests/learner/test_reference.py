"""The reference of a KL penalty: the start weights, by switching adapters off or from a frozen copy."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.config.texts import SMALL
from tests.learner.conftest import make_groups
from tests.learner.test_against_loop import moved, near_policy, stock_logp
from trainer.config import ConfigError, load, load_text
from trainer.config.machine import Machine
from trainer.devices import Place, learner_places, planned, reference_places, replica_places
from trainer.learner import checkpoint
from trainer.learner.batches import decode, pack
from trainer.learner.client import LearnerError
from trainer.learner.learner import Learner
from trainer.learner.reference_client import ReferencePool, ReferenceProcess
from trainer.models import load_model
from trainer.settings import learner_settings


@pytest.mark.parametrize("mode", ["lora", "full"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_the_model_from_before_training(settings, mode: str, dtype: str) -> None:
    start = Learner(settings(trainer_mode=mode, dtype=dtype))
    learner = moved(settings, trainer_mode=mode, dtype=dtype, reference="shared")
    frames = make_groups()
    (batch,) = pack([decode(f) for f in frames], 4096)
    reference = learner.reference.token_logprobs(batch)
    assert reference.equal(start.policy.token_logprobs(batch).logp) and not reference.requires_grad
    policy = learner.policy.token_logprobs(batch).logp
    assert (policy - reference).abs().max() > 1e-3 and policy.requires_grad  # and is itself on again
    if dtype == "float32":
        base = load_model(learner.settings.model, "float32").eval()
        wanted = torch.cat([stock_logp(base, f) for f in frames])
        torch.testing.assert_close(reference, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_the_penalty_is_zero_at_the_start_and_holds_the_policy_back(settings, mode: str) -> None:
    kls = {}
    for coefficient in (1e-9, 10.0):
        learner = Learner(
            settings(trainer_mode=mode, kl_coef=coefficient, reference="shared", clip_eps_high=9.0, learning_rate=3e-3)
        )
        frames = near_policy(learner, per_turn=False, proximal=False)
        kls[coefficient] = [learner.step(k, frames).metrics["gspo/kl"] for k in range(1, 7)]
        assert kls[coefficient][0] == pytest.approx(0.0, abs=1e-12)
    assert 0 < kls[10.0][-1] < 0.5 * kls[1e-9][-1]


def test_the_coefficient_is_live(settings) -> None:
    learner = moved(settings, reference="shared")
    frames = near_policy(learner, per_turn=False, proximal=False)
    assert "gspo/kl" not in learner.step(1, frames).metrics
    learner.set({"kl_coef": 0.5})
    values = learner.step(2, frames).metrics
    assert values["gspo/kl"] > 0 and math.isfinite(values["gspo/loss"])
    with pytest.raises(ValueError, match="negative"):
        learner.set({"kl_coef": -1.0})


def test_an_error_leaves_the_adapters_on(settings) -> None:
    lora = Learner(settings()).policy.lora
    with pytest.raises(KeyError), lora.switched_off():
        raise KeyError
    assert lora.is_on


def test_what_the_config_says_of_it_reaches_the_learner(request, monkeypatch) -> None:
    monkeypatch.chdir(request.config.rootpath)
    sets = ["training.kl_coef=0.1", "compute.topology.reference_placement=shared", "rollout.max_turns=3"]
    loaded = load("sample_configs/demo.toml", sets=[*sets, "policy.max_tokens=20"], environ={}, device="cpu")
    settings = learner_settings(loaded, Path("m"))
    assert (settings.kl_coef, settings.reference, settings.episode_tokens) == (0.1, "shared", 60)
    with pytest.raises(ConfigError, match="needs a reference model"):
        load("sample_configs/demo.toml", sets=["training.kl_coef=0.1"], environ={}, device="cpu")


@pytest.mark.parametrize("mode", ["lora", "full"])
async def test_a_process_of_its_own_gives_the_penalty_of_a_shared_one(settings, mode: str) -> None:
    shared, dedicated = (
        moved(settings, trainer_mode=mode, kl_coef=0.3, reference=placement) for placement in ("shared", "dedicated")
    )
    frames = near_policy(shared, per_turn=False, proximal=False)
    with pytest.raises(ValueError, match="without the log-probabilities"):
        dedicated.step(1, frames)
    wanted = shared.step(1, frames)
    process = ReferenceProcess(dedicated.settings, threads=1, sink=lambda _: None)
    try:
        info = await process.start(300)
        assert info.trainable == 0 and info.parameters > 0
        await ReferencePool([process]).fill(frames)
        with pytest.raises(LearnerError, match="'batch'"):
            await process.step(1, frames)
    finally:
        await process.stop()
    found = dedicated.step(1, frames)
    assert found.metrics["gspo/kl"] == wanted.metrics["gspo/kl"] > 0
    assert found.metrics["optim/grad_norm"] == wanted.metrics["optim/grad_norm"]


def test_a_dedicated_reference_has_the_gpus_between_those_of_learner_and_engine() -> None:
    sets = ["compute.topology.reference_placement=dedicated", "training.kl_coef=0.1"]
    machine = Machine(4, "NVIDIA H100")
    config = load_text(SMALL, "my.toml", environ={}, device="cuda", sets=sets, machine=machine).config
    gpus = planned(config)
    assert learner_places(config, gpus) == [Place(0, ("0",))] and reference_places(config, gpus) == [Place(0, ("1",))]
    assert replica_places(config, gpus) == [Place(0, ("2",)), Place(0, ("3",))]


def test_a_run_that_goes_on_with_an_adapter_is_compared_with_it(settings, tmp_path) -> None:
    """Not with the model that the adapter is for: the penalty is 0 at the start, and holds on to what was learned."""
    earlier = moved(settings)
    checkpoint.write_adapter(earlier.policy, tmp_path)
    learner = Learner(settings(start_adapter=str(tmp_path), kl_coef=0.3, reference="shared"))
    (batch,) = pack([decode(f) for f in make_groups()], 4096)
    own = learner.policy.token_logprobs(batch).logp
    assert own.equal(earlier.policy.token_logprobs(batch).logp)
    assert learner.reference.token_logprobs(batch).equal(own.detach())
    for step in (1, 2):
        learner.step(step, make_groups())
    assert learner.reference.token_logprobs(batch).equal(own.detach())
    assert not learner.policy.token_logprobs(batch).logp.equal(own)
    with pytest.raises(ValueError, match=r"training\.lora\.r and training\.lora\.target_modules"):
        Learner(settings(start_adapter=str(tmp_path), lora_target_modules=["q_proj"]))


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_each_process_of_a_pool_has_a_part(count: int) -> None:
    class Part:
        async def fill(self, sequences) -> None:
            for i, sequence in enumerate(sequences):
                sequence.logp_reference = f"{id(self)} {i}".encode()

    frames = make_groups(groups=1, size=3)
    processes = [Part() for _ in range(count)]
    await ReferencePool(processes).fill(frames)
    assert all(f.logp_reference for f in frames)
    assert len({f.logp_reference.split()[0] for f in frames}) == min(count, 3)
