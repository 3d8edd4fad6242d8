"""The schema as a table: its size, and what is known of every key."""

from collections import Counter

import pytest
from pydantic import ValidationError

from trainer.config import RunConfig, all_keys
from trainer.config.keys import all_sections, section_models
from trainer.config.migrations import MOVES, NO_EFFECT
from trainer.config.sources import LOADER_KEYS

# Canonical keys that the schema has no field for: two are migrated, one stands for any option of the engine.
WITHOUT_FIELD = {"services.verifier_url": "sdk", "judge.options.timeout_s": "sdk", "vllm.<other>": "ref"}
KEYS = list(all_keys().values())


def test_the_documented_number_of_keys_by_origin() -> None:
    origins = Counter([*(key.origin for key in KEYS), *WITHOUT_FIELD.values()])
    assert origins == {"ref": 84, "sdk": 14, "seen": 26, "ours": 49}
    assert origins.total() == 173


def test_the_documented_number_of_keys_by_section() -> None:
    sections = Counter(key.section.removesuffix(".limit_mm_per_prompt") for key in KEYS)
    sections.update(path.rpartition(".")[0] for path in WITHOUT_FIELD)
    assert sections == {
        "": 2,  # type and tags
        "algorithm": 3,
        "services": 3,
        "compute": 5,
        "compute.topology": 6,
        "vllm": 9,
        "policy": 11,
        "rollout": 21,
        "data": 6,
        "evaluation": 7,
        "training": 34,
        "training.weight_sync": 5,
        "training.lora": 4,
        "training.rewards": 6,
        "judge": 5,
        "judge.options": 13,
        "smoke": 18,
        "checkpoint": 4,
        "inference": 7,
        "logging": 4,
    }


def test_the_documented_number_of_old_keys() -> None:
    migrated = {move.old for move in MOVES} - set(WITHOUT_FIELD) | set(LOADER_KEYS)
    assert len(migrated) == 77
    assert len(NO_EFFECT) == 26


def test_live_keys_are_the_documented_ones() -> None:
    assert {key.path for key in KEYS if key.live} == {
        "training.learning_rate",
        "training.clip_eps_low",
        "training.clip_eps_high",
        "training.kl_coef",
        "training.log_interval",
        "training.max_lag",
        "training.weight_sync.verify_every_k",
        "policy.temperature",
        "rollout.max_concurrent_rollouts",
        "evaluation.every_n_iters",
        "checkpoint.every_n_iters",
    }


def test_keys_that_may_differ_on_resume_are_the_documented_ones() -> None:
    beside_live = {key.path for key in KEYS if key.resume and not key.live}
    compute = {key.path for key in KEYS if key.path.startswith("compute.")}
    logging = {key.path for key in KEYS if key.section == "logging"}
    assert beside_live - compute - logging == {
        "training.num_epochs",
        "training.iterations_per_epoch",
        "training.max_minutes",
        "checkpoint.keep_last",
        "checkpoint.keep_best",
        "rollout.timeout_s",
        "rollout.max_retries",
    }
    assert compute | logging <= beside_live


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_can_be_explained(key) -> None:
    assert key.help.endswith((".", ".`")) and 15 < len(key.help) < 300
    assert 0 < len(key.summary) < 130 and key.help.startswith(key.summary)
    assert key.allowed and "any value" not in key.allowed
    assert key.meta["origin"] in ("ref", "sdk", "seen", "ours")
    assert ("why" in key.meta) == (key.origin == "ours")
    assert not key.required or "example" in key.meta
    for name in ("why", "checks", "derived"):
        assert not key.meta.get(name, "").endswith(".")
    for path, values in key.visible_when.items():
        other = all_keys()[path]
        legal = other.choices or ((True, False) if bool in other.types else values)
        assert values and set(values) <= set(legal)


def test_examples_are_valid() -> None:
    """Each value in its own section; a missing neighbour is no matter here."""
    for key in KEYS:
        if "example" not in key.meta:
            continue
        values = {key.name: key.meta["example"]}
        model = section_models()[key.section] if key.section else RunConfig
        try:
            model.model_validate(values)
        except ValidationError as error:
            assert all(detail["type"] == "missing" for detail in error.errors()), key.path


def test_long_sections_have_sub_headings() -> None:
    for path in section_models():
        members = [key for key in KEYS if key.section == path]
        groups = {key.group for key in members}
        assert len(members) < 10 or (None not in groups and len(groups) > 1), path


def test_a_section_hides_its_keys_with_it() -> None:
    assert all_keys()["training.lora.r"].visible_when == {"policy.trainer_mode": ("lora", "qlora")}
    assert all_keys()["judge.options.base_url"].visible_when == {"judge.enabled": (True,), "judge.type": ("llm",)}
    assert all_keys()["training.gamma"].visible_when == {"algorithm.method": ("ppo",)}


def test_sections_are_the_parents_of_the_keys() -> None:
    assert {key.section for key in KEYS} - {""} | {"tags"} == set(all_sections())


def test_zero_tokens_are_no_top_k(errors, small) -> None:
    [problem] = errors("policy.top_k=0")
    assert problem.key == "policy.top_k" and "-1" in (problem.allowed or "")
    assert small("policy.top_k=-1").config.policy.top_k == -1
