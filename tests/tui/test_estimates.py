"""What a config amounts to: against published sizes of models, the trainer's own sums, and a run on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rltui.model.estimates import Facts, Past, disk_bytes, learner_bytes, of
from rltui.model.known import known, past_run
from rltui.model.model_shape import Shape, local_folder, of_config, of_name, shape_of
from rltui.samples import samples
from rltui.words import amount, size
from tests.tui.app_driver import run_in
from trainer.config import Loaded, load
from trainer.config.machine import Machine
from trainer.saving import estimate

QWEN3_4B = {
    "vocab_size": 151936,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
}
QWEN3_30B_A3B = QWEN3_4B | {
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_experts": 128,
    "moe_intermediate_size": 768,
    "tie_word_embeddings": False,
}
SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}


def loaded(name: str, *sets: str, gpus: int = 8) -> Loaded:
    return load(samples()[name], environ={}, machine=Machine(gpus), sets=sets)


def shape(config: dict[str, object]) -> Shape:
    found = of_config(config, "config.json")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "billions"),  # as published on the models' cards
    [(QWEN3_4B, 4.02), (QWEN3_30B_A3B, 30.5), (SMOLLM2, 0.1345)],
)
def test_parameters_are_those_of_the_model(config, billions):
    assert shape(config).parameters / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize(
    "broken", [[], {}, {"hidden_size": "x"}, QWEN3_4B | {"num_hidden_layers": 0}, QWEN3_4B | {"vocab_size": True}]
)
def test_a_config_that_is_none_is_no_shape(broken):
    assert of_config(broken, "") is None


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Qwen/Qwen3-4B", 4e9),
        ("Qwen/Qwen2.5-0.5B-Instruct", 5e8),
        ("HuggingFaceTB/SmolLM2-135M", 135e6),
        ("Qwen/Qwen3-30B-A3B", 30e9),
        ("gpt2", None),
        ("a/b2c", None),
    ],
)
def test_a_name_tells_its_size(name, parameters):
    found = of_name(name)
    assert (found and found.parameters) == parameters
    if found is not None:
        assert found.guessed
        blocks = found.layers * 12 * found.hidden**2
        assert blocks == pytest.approx(found.parameters, rel=0.25)


def test_the_model_is_looked_for_where_it_lies(tmp_path):
    environ = {"XDG_CACHE_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}
    places = {
        "builtin:smollm2-135m": tmp_path / "rltui/models/smollm2-135m-0123456789abcdef",
        "Qwen/Qwen3-4B": tmp_path / "hub/models--Qwen--Qwen3-4B/snapshots/abc",
        str(tmp_path / "mine"): tmp_path / "mine",
    }
    for name, folder in places.items():
        assert local_folder(name, environ) is None
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(QWEN3_4B))
        assert local_folder(name, environ) == folder
        found = shape_of(name, environ)
        assert found is not None and not found.guessed and found.limit == 40960
    (tmp_path / "mine/config.json").write_text("{torn")
    assert shape_of(str(tmp_path / "mine"), environ) is None


# Sums


def test_memory_of_the_learner():
    """Full: 16 to 18 bytes a parameter, over four GPUs; an adapter: 2 bytes and 16 for each of its own."""
    model = shape(QWEN3_4B)
    full, lora = loaded("eight_gpu_full").config, loaded("single_gpu_lora").config
    assert learner_bytes(full, model).low == 16 * model.parameters / 4
    passing = learner_bytes(full, model).high - 18 * model.parameters / 4
    assert 0 < passing < 5e9  # recomputed by layer
    adapter = 66_060_288  # 36 layers x 32 x (2 x 6656 + 2 x 3584 + 3 x 12288)
    assert model.adapter(32) == adapter
    assert learner_bytes(lora, model).low == 2 * model.parameters + 16 * adapter
    four = learner_bytes(loaded("single_gpu_qlora").config, model)
    assert four.low < 0.45 * learner_bytes(lora, model).low


@pytest.mark.parametrize("name", ["eight_gpu_full", "single_gpu_lora", "demo"])
def test_disk_is_what_the_trainer_will_say(name):
    config, model = loaded(name).config, shape(QWEN3_4B)
    full = config.policy.trainer_mode == "full"
    info = SimpleNamespace(
        parameters=model.parameters, trainable=model.parameters if full else model.adapter(config.training.lora.r)
    )
    need = estimate(info, config)
    kept = config.checkpoint.keep_last + config.checkpoint.keep_best
    assert disk_bytes(config, model).high == kept * need.weights + 2 * need.newest


def test_every_number_has_its_sum():
    facts = Facts(shape=shape(QWEN3_4B), past=Past("old", 10, 64, 32.0, "lora", 100.0), disk=10**12, gpu=80 * 10**9)
    lines = {line.label: line for line in of(loaded("single_gpu_lora"), facts)}
    assert lines["groups"].text == "8 of 8" and lines["steps"].text == "200 in 100 iterations"
    assert lines["tokens"].text == "6.4 k an iteration" and "64 x 100 tokens" in lines["tokens"].sum
    assert lines["engine"].text == "36 GB a GPU" and "28 GB = 190 k tokens" in lines["engine"].sum
    assert lines["time"].text == "about 53 m 20 s"  # 100 iterations of 32 s
    assert lines["GPU-hours"].text == "about 0.889"
    assert all(line.sum for line in lines.values())


@pytest.mark.parametrize("name", samples())
def test_what_is_not_known_is_said(name):
    lines = {line.label: line for line in of(loaded(name))}
    assert lines["time"].text == "not known" and "no past run" in lines["time"].sum
    assert lines["learner"].text == "not known"


# Past runs


def test_the_newest_past_run_of_the_same_model_tells_the_time(tmp_path):
    model, on_cpu = "builtin:smollm2-135m", True
    own = run_in(tmp_path, "own", episodes=320, number=1)
    (own / "resolved.json").write_text(json.dumps(loaded("demo", gpus=0).resolved()))
    other = run_in(tmp_path, "other", number=2)
    values = loaded("demo", "policy.model_name=another/one", gpus=0).resolved()
    (other / "resolved.json").write_text(json.dumps(values))
    (tmp_path / "torn-rl_0000000000000009").mkdir()
    (tmp_path / "torn-rl_0000000000000009/resolved.json").write_text("{")
    past = past_run(tmp_path, model, gpu=not on_cpu)
    assert past is not None and past.name == own.name and past.seconds > 0
    rows = [json.loads(line) for line in (own / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "eval_step" not in row and row["iteration"] >= 1]
    took = steps[-1]["time"] - steps[0]["time"]
    assert past.seconds == pytest.approx(took / (steps[-1]["iteration"] - steps[0]["iteration"]))
    assert past_run(tmp_path, model, gpu=on_cpu) is None
    assert past_run(tmp_path, "no/such", gpu=False) is None
    assert past_run(tmp_path / "nowhere", model, gpu=False) is None


def test_what_this_machine_says(tmp_path: Path):
    facts = known(loaded("demo", f"logging.runs_dir={json.dumps(str(tmp_path / 'runs'))}"))
    assert facts.memory and facts.memory > 10**6 and facts.disk and facts.disk > 10**6 and facts.past is None


def test_words():
    assert [size(n) for n in (0, 999, 1000, 820e6, 1.55e9, 98e9, 999.9e6, 2e12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "820 MB",
        "1.6 GB",
        "98 GB",
        "1.0 GB",
        "2.0 TB",
    ]
    assert [amount(n) for n in (64, 98304, 8.19e9, 135e6)] == ["64", "98 k", "8.2 B", "135 M"]
