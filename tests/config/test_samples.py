"""The files of sample_configs/: what each amounts to, what it warns of, and that it can be read by a newcomer."""

import re
from collections import Counter
from pathlib import Path

import pytest

from rltui.samples import presets
from tests.config.texts import SDK_EXAMPLE
from trainer.config import Loaded, load_text
from trainer.config.machine import Machine
from trainer.config.rewrite import rewrite
from trainer.rollout.seeds import SeedCursor, evaluation_plan

FOLDER = Path(__file__).parents[2] / "sample_configs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
OLD_SPELLINGS = ("legacy", "seed_example")
SAID_OF_OLD = {"migrated", "old_value", "no_effect"}

# How often each code is warned of or noted, on a CPU and where the GPUs that a sample asks for are found.
ON_CPU: dict[str, dict[str, int]] = {
    "demo": {},
    "cpu_smoke": {},
    "multi_turn": {},
    "judge": {},
    "rule_judge": {},
    "remote_task_app": {},
    "single_gpu_lora": {"gpus_found": 1},
    "single_gpu_qlora": {"gpus_found": 1},
    "multi_turn_tools": {"gpus_found": 1, "local_engine": 1},
    "step_rewards": {},
    "eight_gpu_full": {"gpus_found": 1, "local_engine": 1},
    "seed_example": {"migrated": 7, "gpus_found": 1, "dropout": 1, "judge_off": 1, "evaluation_repeats": 1},
    "legacy": {"migrated": 26, "old_value": 3, "no_effect": 2, "gpus_found": 1},
}
OF_A_CPU = {"gpus_found", "local_engine"}
ON_GPUS = {name: {code: n for code, n in said.items() if code not in OF_A_CPU} for name, said in ON_CPU.items()}


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def sample(name: str, *sets: str, text: str | None = None, gpus: int = 0) -> Loaded:
    """The sample on a machine with so many GPUs; without any, on its CPU."""
    return load_text(text or text_of(name), f"{name}.toml", environ={}, sets=sets, machine=Machine(gpus))


def said(loaded: Loaded) -> Counter[str]:
    return Counter(problem.code for problem in loaded.warnings)


def test_all_are_there() -> None:
    assert set(NAMES) == set(ON_CPU)
    assert sorted(preset.name for preset in presets()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_warns_of_what_is_meant_and_of_nothing_else(name: str) -> None:
    assert said(sample(name)) == ON_CPU[name]
    assert said(sample(name, gpus=8)) == ON_GPUS[name]


@pytest.mark.parametrize("name", ["demo", "judge", "multi_turn", "rule_judge"])
def test_those_for_a_cpu_can_be_launched_there(name: str) -> None:
    assert sample(name).launch_problems() == []


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read(name: str) -> None:
    lines = text_of(name).splitlines()
    title = lines[0]
    assert title.startswith("# ") and title.endswith(".") and len(title) > 40
    assert any(re.match(rf"#   rltui train (--config )?sample_configs/{name}\.toml", line) for line in lines)
    assert not [line for line in lines if len(line) > 120 or "\t" in line or line != line.rstrip()]
    assert len(lines) <= 112


@pytest.mark.parametrize("name", NAMES)
def test_old_spellings_stand_only_where_they_are_shown(name: str) -> None:
    if name not in OLD_SPELLINGS:
        assert not SAID_OF_OLD & said(sample(name)).keys()
        assert rewrite(text_of(name), name).text == text_of(name)
        return
    rewritten = rewrite(text_of(name), f"{name}.toml").text
    assert not {"migrated", "old_value"} & said(sample(name, text=rewritten)).keys()
    assert sample(name, text=rewritten).values == sample(name).values
    assert rewrite(rewritten, name).text == rewritten


# The seed's own example, number by number


def test_the_seeds_example_is_unchanged() -> None:
    header, example = text_of("seed_example").split("\n\n", 1)
    assert example == SDK_EXAMPLE
    assert all(line.startswith("#") for line in header.splitlines())


def test_the_seeds_example_amounts_to_what_is_documented() -> None:
    loaded = sample("seed_example")
    config, evaluation = loaded.config, loaded.config.evaluation
    assert loaded.derived == {"E": 32, "groups": 8, "U": 16, "m": 2, "iterations": 20, "steps": 40}
    assert loaded.derived["E"] * loaded.derived["iterations"] == 640
    assert evaluation is not None and (evaluation.instances, evaluation.temperature) == (50, 0.0)
    assert [i for i in range(21) if i % evaluation.every_n_iters == 0 or i in (0, 20)] == [0, 10, 20]
    assert len({seed for seed, _ in evaluation_plan(evaluation.seeds, evaluation.instances)}) == 6
    assert SeedCursor(config.data.seed_start, config.data.seed_count, evaluation.seeds).next() == 6
    assert (config.training.max_turns, config.rollout.max_concurrent_rollouts) == (10, 32)
    for key in ("training.max_turns", "rollout.max_concurrent_rollouts"):
        assert loaded.origins[key].kind == "derived"
    assert (config.policy.model_name, config.policy.trainer_mode) == ("Qwen/Qwen3-4B", "lora")
    topology = config.compute.topology
    assert (topology.gpus_for_vllm, topology.gpus_for_training, topology.tensor_parallel) == (1, 1, 1)
    assert loaded.blend == {"env": 1.0, "event": 0.0, "outcome": 0.0}


def test_the_seeds_example_does_not_launch_before_it_has_a_task_app() -> None:
    assert [problem.code for problem in sample("seed_example").launch_problems()] == ["template_host"]
    assert sample("seed_example", "services.task_url=http://localhost:8001").launch_problems() == []


# What the others promise in their comments


def test_legacy_is_the_demo_in_other_words() -> None:
    old, new = sample("legacy"), sample("demo")
    assert old.derived == new.derived
    for part in ("algorithm", "services", "vllm", "rollout", "evaluation", "training"):
        assert old.values[part] == new.values[part]
    differs = {name for name in new.values if old.values[name] != new.values[name]}
    assert differs == {"compute", "policy", "data", "judge", "checkpoint"}
    assert {k for k, v in old.values["policy"].items() if v != new.values["policy"][k]} == {"label"}
    assert old.config.checkpoint.every_n_iters == 12 and old.config.judge.enabled is False


def test_judge_blends_two_tracks_half_and_half() -> None:
    loaded = sample("judge")
    options = loaded.config.judge.options
    assert loaded.blend == {"env": 0.5, "event": 0.0, "outcome": 0.5}
    criteria = options.rubric_overrides["outcome"]["criteria"]
    assert {item["id"].partition(".")[0] for item in criteria} == set(options.tracks or ()) == set(options.weights)
    assert options.base_url is not None and options.base_url.startswith("http://127.0.0.1:")


def test_rule_judge_needs_no_model_and_no_network() -> None:
    loaded = sample("rule_judge")
    config = loaded.config
    assert (config.judge.type, config.services.judge_url, config.judge.options.base_url) == ("rule", None, None)
    assert config.services.task_url.startswith("builtin:")
    assert loaded.blend == {"env": 0.5, "event": 0.0, "outcome": 0.5}


def test_judge_holds_a_variant_without_a_model_that_loads() -> None:
    llm, comment, rest = text_of("judge").partition("# Without a model")
    variant, _, _ = rest.partition("\n[judge]\n")
    _, *lines = variant.strip().splitlines()
    assert comment and all(line.startswith("#") for line in lines)
    loaded = sample("judge", text=llm + "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines))
    assert loaded.config.judge.type == "rule" and not said(loaded)
    assert loaded.blend == {"env": 0.5, "event": 0.0, "outcome": 0.5}
    kinds = [item["rule"]["kind"] for item in loaded.config.judge.options.rubric_overrides["outcome"]["criteria"]]
    assert kinds == ["max_chars", "regex"]


def test_single_gpu_shares_its_gpu_and_takes_turns() -> None:
    loaded = sample("single_gpu_lora", gpus=1)
    assert loaded.config.compute.topology.type == "single_node_colocate"
    assert (loaded.config.training.max_lag, loaded.derived["m"], loaded.derived["groups"]) == (0, 2, 8)


def test_qlora_says_what_its_memory_comes_to() -> None:
    loaded = sample("single_gpu_qlora", gpus=1)
    assert loaded.config.policy.trainer_mode == "qlora" and loaded.config.training.max_lag == 0
    linear, embedding = 6.95e9, 1.24e9  # of Qwen3-8B
    assert round((linear * 0.516 + embedding * 2) / 1e9) == 6


def test_smoke_stays_on_the_cpu_where_there_are_gpus() -> None:
    loaded = sample("cpu_smoke", gpus=8)
    assert loaded.config.compute.topology.type == "cpu" and loaded.derived["steps"] == 3


def test_step_rewards_are_per_turn_and_only_of_what_the_app_reports() -> None:
    rewards = sample("step_rewards").config.training.rewards
    assert (rewards.step_rewards_strategy, rewards.event_rewards_kind) == ("per_turn", "unique")
    assert sample("step_rewards").config.algorithm.variety == "gspo_token"


def test_eight_gpus_split_and_anchor() -> None:
    loaded = sample("eight_gpu_full", gpus=8)
    topology, training = loaded.config.compute.topology, loaded.config.training
    assert (topology.gpus_for_vllm, topology.gpus_for_training, topology.gpus_for_ref) == (4, 4, 0)
    assert (training.anchor, training.clip_eps_low, training.clip_eps_high) == ("proximal", 3e-4, 4e-4)
    assert loaded.derived | {"E": 256, "U": 64, "m": 4, "groups": 32, "steps": 800} == loaded.derived
    assert training.warmup_iters * loaded.derived["m"] == 20
    assert loaded.config.training.gradient_checkpointing is True


def test_remote_task_app_has_a_way_back_and_a_tunnel_instead() -> None:
    text = text_of("remote_task_app")
    inference = sample("remote_task_app").config.inference
    assert inference.public_url is not None and inference.public_url.endswith(f":{inference.gateway_port}")
    lines = text.splitlines()
    kept = [line for line in lines if not line.startswith(("gateway_host", "gateway_port", "public_url"))]
    assert len(kept) == len(lines) - 3
    tunnel = "\n".join(line.removeprefix("# ") if line.startswith("# tunnel = ") else line for line in kept)
    loaded = sample("remote_task_app", text=tunnel)
    assert loaded.config.inference.tunnel == "quick" and not said(loaded)
