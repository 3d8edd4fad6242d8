"""Which form of a 4-bit base an engine serves, or why it cannot."""

from __future__ import annotations

import pytest

from tests.config.texts import SMALL
from tests.inference.test_vllm_options import options
from trainer.config import load_text
from trainer.config.machine import Machine
from trainer.inference import four_bit
from trainer.inference.engine import EngineError
from trainer.inference.four_bit import four_bit_form


def config(*sets: str):
    sets = ("policy.trainer_mode=qlora", *sets)
    return load_text(SMALL, "my.toml", environ={}, device="cuda", sets=sets, machine=Machine(4, "NVIDIA H100")).config


@pytest.fixture
def plugin(monkeypatch) -> list[bool]:
    there = [True]
    monkeypatch.setattr(four_bit, "find_spec", lambda name: there[0] or None)
    return there


def test_vllm_quantises_where_it_can_do_so_as_the_learner_does(plugin: list[bool]) -> None:
    assert four_bit_form(config(), "vllm") == "quantised"
    assert four_bit_form(config("compute.topology.tensor_parallel=2"), "vllm") == "dequantised"
    plugin[0] = False
    assert four_bit_form(config(), "vllm") == "dequantised"
    assert four_bit_form(config("policy.trainer_mode=lora"), "local") is None


def test_an_engine_that_can_serve_neither_is_refused(plugin: list[bool]) -> None:
    for kind, sets, says in (
        ("local", (), "the local one serves merged weights alone"),
        ("vllm", ("inference.url=http://localhost:1",), "the server at inference.url runs already"),
    ):
        with pytest.raises(EngineError, match=says) as caught:
            four_bit_form(config(*sets), kind)
        assert 'trainer_mode = "lora"' in str(caught.value)


def test_its_options(tiny) -> None:
    given = options(tiny, four_bit=True, sync="lora", cuda_devices=("0",))
    assert given["--quantization"] == given["--load-format"] == "bitsandbytes" and given["--enable-lora"] is True
    assert "--quantization" not in options(tiny)
