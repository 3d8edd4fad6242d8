"""The config's classes: the reference's names and defaults, and the one schema behind them."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest

from rltui import RLConfig
from rltui.sdk.api.train import configs
from rltui.sdk.api.train.configs import rl
from rltui.sdk.api.train.configs.view import View
from tests.sdk.reference import REFERENCE
from trainer.config import ConfigError, all_keys
from trainer.config.keys import section_models
from trainer.config.migrate import move_of

HERE = Path(__file__).parent.parent / "config"
EXAMPLE = HERE / "sdk_example.toml"
TRAINING = {
    "num_epochs": 1, "iterations_per_epoch": 20, "batch_size": 16, "group_size": 4, "learning_rate": 5e-5,
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCE)
def test_a_class_has_the_attributes_and_defaults_of_the_reference(name):
    fields = getattr(rl, name).model_fields
    for attribute, default in REFERENCE[name].items():
        field = fields[attribute]
        assert field.is_required() if default is ... else field.get_default(call_default_factory=True) == default, (
            name,
            attribute,
        )


def test_every_section_of_the_schema_has_a_class_with_its_keys_and_no_others():
    """What a class has beyond its section is an old spelling that the loader knows."""
    views = {cls.section: cls for cls in vars(rl).values() if isinstance(cls, type) and issubclass(cls, View)}
    for path, model in section_models().items():
        if path.startswith("vllm"):  # open to any option of the engine: a plain table
            continue
        assert model.model_fields.keys() <= views[path].model_fields.keys(), path
    for path, view in views.items():
        for name, field in view.model_fields.items():
            key = f"{path}.{name}".lstrip(".")
            table = isinstance(field.annotation, type) and issubclass(field.annotation, View)
            known = key in all_keys() or key in section_models() or table
            assert known or move_of(key) or _old_table(name, key), key
    assert rl.VerifierConfig is rl.JudgeConfig and rl.VerifierOptionsConfig is rl.JudgeOptionsConfig


def _old_table(name, key):
    return key in ("topology", "reference", "model", "lora", "rubric", "judge.rubric", "tags")


def test_the_documented_modules_lead_to_the_same_classes():
    shared = importlib.import_module("rltui.sdk.api.train.configs.shared")
    assert configs.RLConfig is rl.RLConfig is RLConfig and shared.LoraConfig is rl.LoraConfig
    assert set(REFERENCE) | {"AlgorithmConfig", "ComputeConfig", "TopologyConfig", "PolicyConfig", "LoraConfig"} <= set(
        configs.__all__
    )


def test_the_example_is_told_as_it_was_given():
    config = RLConfig.from_path(EXAMPLE)
    given = tomllib.loads(EXAMPLE.read_text())
    assert config.to_dict() == given and config == RLConfig.from_mapping(given)
    assert config.model.base == "Qwen/Qwen3-4B" and config.policy is None and config.judge is None
    assert config.training.lora.r == 16 and config.training.log_interval == 10
    assert config.training.lora.target_modules == ["all-linear"]  # a default of the schema
    loaded = config.resolve()
    assert loaded.config.policy.model_name == "Qwen/Qwen3-4B" and loaded.derived["steps"] == 40
    assert loaded.origins["training.group_size"].at.startswith(f"{EXAMPLE}:")
    config.training.group_size = 8
    assert config.to_dict()["training"]["group_size"] == 8 and config != RLConfig.from_path(EXAMPLE)
    assert config.resolve().config.training.group_size == 8
    with pytest.raises(ValueError, match="group_size"):
        config.training.group_size = "8"


@pytest.mark.parametrize("path", sorted((HERE.parent.parent / "sample_configs").glob("*.toml")), ids=lambda p: p.stem)
def test_the_samples_load_and_lose_nothing(path):
    if path.stem == "legacy":
        pytest.skip("its evaluation lacks a required key, and gets it from an old spelling elsewhere")
    assert RLConfig.from_path(path).to_dict() == tomllib.loads(path.read_text(encoding="utf-8"))


def test_a_class_checks_types_and_what_is_required_and_keeps_what_it_does_not_know():
    training = rl.RLTrainingConfig(**TRAINING, of_mine=[1], rewards={"mine": 2, "step_rewards_beta": 0.5})
    assert training.of_mine == [1] and training.rewards.step_rewards_beta == 0.5
    assert training.to_dict() == {**TRAINING, "of_mine": [1], "rewards": {"mine": 2, "step_rewards_beta": 0.5}}
    assert training == rl.RLTrainingConfig(**TRAINING, of_mine=[1], rewards={"step_rewards_beta": 0.5, "mine": 2})
    assert training != rl.RLTrainingConfig(**TRAINING)
    with pytest.raises(ValueError, match="group_size"):
        rl.RLTrainingConfig(**{name: value for name, value in TRAINING.items() if name != "group_size"})
    for wrong in ({"group_size": 1}, {"learning_rate": "5e-5"}, {"num_epochs": True}, {"learning_rate": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            rl.RLTrainingConfig(**{**TRAINING, **wrong})
    for given in ({}, {"source": "ft:x", "base": "y"}):
        with pytest.raises(ValueError, match="exactly one of source and base"):
            rl.ModelConfig(trainer_mode="lora", label="x", **given)
    assert rl.RolloutConfig(
        env_name="a", policy_name="b", max_turns=1, episodes_per_batch=4, env_config={"x": {"y": 1}}
    ).to_dict()["env_config"] == {"x": {"y": 1}}


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (rl.WeightSyncConfig, {"mode": "direct", "targets": ["policy"]}),
        (rl.RewardsConfig, {"step_rewards_strategy": "consistent"}),
        (rl.JudgeConfig, {"type": "openai"}),
        (rl.TopologyConfig, {"reference_placement": "stacked"}),
        (rl.AlgorithmConfig, {"type": " Online", "method": "policy_gradient", "variety": "GSPO"}),
    ],
)
def test_old_spellings_of_values_are_taken_and_kept(cls, given):
    assert cls(**given).to_dict() == given
    with pytest.raises(ValueError):
        cls(**{**given, next(iter(given)): "no such thing"})


def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path):
    with pytest.raises(FileNotFoundError):
        RLConfig.from_path(tmp_path / "none.toml")
    path = tmp_path / "my.toml"
    text = EXAMPLE.read_text()
    path.write_text(text.replace("group_size = 4", 'group_size = "4"'))
    line = 1 + path.read_text().splitlines().index(next(row for row in path.read_text().splitlines() if '"4"' in row))
    with pytest.raises(ConfigError, match=rf"my\.toml:{line}:14: training\.group_size") as error:
        RLConfig.from_path(path)
    assert len(error.value.problems) == 1
    path.write_text(text.replace("env_name", "#"))
    with pytest.raises(ConfigError, match=r"my\.toml:\d+:\d+: rollout\.env_name\n  required") as error:
        RLConfig.from_path(path)
    path.write_text("[training\n")
    with pytest.raises(ConfigError, match=r"my\.toml:1:\d+"):
        RLConfig.from_path(path)
    path.write_text(text.replace("group_size = 4", "group_size = 5\nunknown = 1"))  # of several keys: told later
    with pytest.raises(ConfigError, match=r"my\.toml:\d+:\d+: training"):
        RLConfig.from_path(path).resolve()
    with pytest.raises(ConfigError, match=r"config#/services/task_url"):
        RLConfig.from_mapping({**tomllib.loads(text), "services": {"task_url": 3}})
    with pytest.raises(ConfigError, match="algorithm"):
        RLConfig.from_mapping({"services": {"task_url": "http://a"}})
    assert json.dumps(RLConfig.from_mapping(tomllib.loads(text)).to_dict())
