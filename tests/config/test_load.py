"""Files in, resolved values out: the SDK's example, precedence, provenance, samples."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.config.texts import SDK_EXAMPLE, SMALL
from trainer.config import ConfigError, load, load_mapping, load_text, render

REPOSITORY = Path(__file__).parents[2]


def test_sdk_example_resolves_to_the_documented_numbers() -> None:
    loaded = load_text(SDK_EXAMPLE, "my.toml", environ={}, device="cpu")
    assert loaded.derived == {"E": 32, "U": 16, "m": 2, "groups": 8, "iterations": 20, "steps": 40}
    config = loaded.config
    assert (config.training.max_turns, config.rollout.max_concurrent_rollouts) == (10, 32)
    assert config.policy.model_name == "Qwen/Qwen3-4B"
    assert config.compute.topology.gpus_for_vllm == 1
    assert config.evaluation is not None and config.evaluation.instances == 50
    assert loaded.blend == {"env": 1.0, "event": 0.0, "outcome": 0.0}


def test_sdk_example_warns_as_documented() -> None:
    loaded = load_text(SDK_EXAMPLE, "my.toml", environ={}, device="cpu")
    migrated = [item for item in loaded.warnings if item.code == "migrated"]
    assert [item.key for item in migrated] == [
        *(f"topology.{name}" for name in ("type", "gpus_for_vllm", "gpus_for_training", "tensor_parallel")),
        *(f"model.{name}" for name in ("base", "trainer_mode", "label")),
    ]
    others = {item.code for item in loaded.warnings} - {"migrated"}
    assert others == {"dropout", "judge_off", "evaluation_repeats", "gpus_found"}
    text = render(loaded.warnings)
    assert text.count("[topology]") == 1 and text.count("[model]") == 1


def test_template_host_loads_and_does_not_launch() -> None:
    loaded = load_text(SDK_EXAMPLE, "my.toml", environ={}, device="cpu")
    assert [problem.key for problem in loaded.launch_problems()] == ["services.task_url"]


@pytest.mark.parametrize("name", ["demo", "multi_turn"])
def test_samples_load_without_a_warning(name: str) -> None:
    loaded = load(REPOSITORY / f"sample_configs/{name}.toml", environ={}, device="cpu")
    assert loaded.warnings == []
    assert loaded.derived["m"] == 1


def test_without_evaluation_nothing_is_evaluated(small) -> None:
    loaded = small()
    assert loaded.config.evaluation is None
    assert "evaluation" not in loaded.resolved()["values"]


LAYERS = {
    "sets": ["services.task_url=http://set"],
    "overrides": {"task_url": "http://override"},
    "environ": {"TASK_APP_URL": "http://env"},
}


@pytest.mark.parametrize("given", range(8))
def test_precedence(given: int) -> None:
    names = [name for bit, name in enumerate(LAYERS) if given & 1 << bit]
    loaded = load_text(SMALL, "my.toml", **{"environ": {}} | {name: LAYERS[name] for name in names})
    expected = {"sets": "set", "overrides": "override", "environ": "env"}
    winner = next((expected[name] for name in LAYERS if name in names), "file")
    url = "http://localhost:8001" if winner == "file" else f"http://{winner}"
    assert loaded.config.services.task_url == url
    assert loaded.origins["services.task_url"].kind == winner
    assert [item.code for item in loaded.warnings].count("beaten") == (1 if names else 0)


def test_environment_and_set_speak_toml(small) -> None:
    environ = {
        "RLTUI__TRAINING__LORA__R": "8",
        "RLTUI__POLICY__LABEL": "bare",
        "RLTUI__TAGS__TEAM": '["a", "b"]',
    }
    config = small("training.seed = 7", "rollout.env_config={level = 2}", environ=environ).config
    assert (config.training.lora.r, config.policy.label, config.training.seed) == (8, "bare", 7)
    assert config.tags == {"team": ["a", "b"]}
    assert config.rollout.env_config == {"level": 2}


def test_overrides_merge_deep_and_model_clears_the_other(small) -> None:
    text = SMALL.replace('policy_name = "p"', 'policy_name = "p"\nenv_config = { a = 1, b = [1, 2] }')
    overrides = {
        "rollout": {"env_config": {"b": [3]}},
        "training.seed": 5,
        "model": "ft:job@3",
        "backend": "x",
    }
    loaded = small(text=text, overrides=overrides)
    assert loaded.config.rollout.env_config == {"a": 1, "b": [3]}
    assert loaded.config.training.seed == 5
    assert (loaded.config.policy.model_name, loaded.config.policy.source) == (None, "ft:job@3")


def test_every_value_knows_its_origin(small) -> None:
    loaded = small(text=SMALL + "[lora]\nr = 4\n")
    values = loaded.resolved()["values"]
    assert values["policy"]["label"] == {"value": "small", "origin": "file", "at": "my.toml:10:9"}
    lora_r = values["training"]["lora"]["r"]
    assert lora_r == {"value": 4, "origin": "migrated", "at": "my.toml:23:5", "was": "lora.r"}
    assert values["training"]["kl_coef"] == {"value": 0.0, "origin": "default"}
    mode = values["training"]["weight_sync"]["mode"]
    assert (mode["value"], mode["origin"]) == ("full", "derived") and "merged" in mode["note"]
    json.dumps(loaded.resolved(), allow_nan=False)


def test_hash_is_of_values_not_of_spelling(small) -> None:
    renamed = SMALL.replace("[policy]", "[model]").replace("model_name", "base")
    assert small(text=renamed).config_hash == small().config_hash
    assert small("training.seed=1").config_hash != small().config_hash


def test_job_body_has_json_pointers() -> None:
    import tomllib

    body = tomllib.loads(SMALL)
    assert load_mapping(body, environ={}).origins["policy.label"].at == "body#/policy/label"
    body["training"]["group_size"] = 5
    with pytest.raises(ConfigError, match=r"^body#/training/group_size: training\.group_size = 5"):
        load_mapping(body, environ={})


@pytest.mark.parametrize(
    ("variety", "method", "anchor", "expected"),
    [
        ("gspo", "policy_gradient", "behavior", (0.02, 0.02)),
        ("gspo_token", "policy_gradient", "proximal", (3e-4, 4e-4)),
        ("grpo", "policy_gradient", "proximal", (0.2, 0.2)),
        ("dr_grpo", "policy_gradient", "behavior", (0.2, 0.2)),
        ("ppo", "ppo", "behavior", (0.2, 0.2)),
    ],
)
def test_clip_defaults(small, variety: str, method: str, anchor: str, expected: tuple[float, float]) -> None:
    training = small(
        f"algorithm.variety={variety}", f"algorithm.method={method}", f"training.anchor={anchor}"
    ).config.training
    assert (training.clip_eps_low, training.clip_eps_high) == expected
    assert training.advantage_std is (variety != "dr_grpo")


def test_device_decides_sync_mode_and_dtype(small) -> None:
    cuda = small(device="cuda").config
    assert cuda.training.weight_sync.mode == "lora" and cuda.training.dtype == "bfloat16"
    assert small("policy.trainer_mode=full", device="cuda").config.training.gradient_checkpointing is True
    assert small().config.training.weight_sync.mode == "full"


def test_model_limit_fills_the_context_keys(small) -> None:
    assert small().config.vllm.max_model_len is None
    config = small().for_model(2048).config
    assert (config.vllm.max_model_len, config.training.max_seq_len) == (2048, 2048)
    with pytest.raises(ConfigError, match="the model's own limit is 2048"):
        small("vllm.max_model_len=4096").for_model(2048)


def test_import_pulls_in_nothing_heavy() -> None:
    code = (
        "import sys, trainer.config as c; c.load('sample_configs/demo.toml');"
        "heavy = ('torch', 'transformers', 'textual', 'httpx', 'numpy', 'tomlkit', 'dotenv');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
