"""Rules over several keys, each by the config that breaks it."""

import pytest

BROKEN = {
    "algorithm_pair": ["algorithm.variety=ppo"],
    "max_turns": ["training.max_turns=3"],
    "start_weights": ["policy.source=ft:x"],
    "context_limit": ["vllm.max_model_len=512", "policy.max_tokens=512"],
    "max_lag": ["training.max_lag=2", "training.weight_sync_interval=3"],
    "anchor": ["training.anchor=proximal", "training.batch_size=32"],
    "batch_arithmetic": ["training.group_size=64"],
    "warmup": ["training.warmup_iters=3"],
    "seed_count": ["data.seed_count=7"],
    "dr_grpo": ["algorithm.variety=dr_grpo", "training.advantage_std=true"],
    "kl_reference": ["training.kl_coef=0.1"],
    "weight_sync": ["policy.trainer_mode=qlora", "training.weight_sync.mode=full"],
    "per_turn": ["training.rewards.step_rewards_strategy=per_turn"],
    "launcher": ["compute.nodes=2", "compute.gpu_type=H100", "compute.gpu_count=2"],
    "judge": ["judge.enabled=true", "judge.reward_blend={event = 1.0}"],
    "rewards": ["rollout.rubric_rewards_only=true"],
    "tensor_parallel": ["vllm.tensor_parallel_size=2", "compute.topology.tensor_parallel=1"],
    "topology": ["compute.topology.gpus_for_ref=1"],
}


@pytest.mark.parametrize("code", BROKEN)
def test_each_rule_refuses_what_it_is_for(errors, code: str) -> None:
    [problem] = errors(*BROKEN[code])
    assert problem.code == code and problem.allowed and problem.fix and problem.why


@pytest.mark.parametrize("code", ["max_turns", "algorithm_pair", "start_weights"])
def test_messages_name_both_places(errors, code: str) -> None:
    [problem] = errors(*BROKEN[code])
    assert {
        "max_turns": "rollout.max_turns = 2 at my.toml:14:13",
        "algorithm_pair": 'method "policy_gradient" cannot be used with variety "ppo"',
        "start_weights": "my.toml:8:14",
    }[code] in problem.why


@pytest.mark.parametrize(
    ("per_batch", "batches", "size", "nearest", "next_per_batch"),
    [(32, 1, 5, "4, 8", 35), (10, 3, 4, "3, 5", 12), (7, 1, 5, "7", 10), (8, 1, 64, "8", 64)],
)
def test_fixes_of_the_batch_arithmetic_are_valid(
    errors, small, per_batch: int, batches: int, size: int, nearest: str, next_per_batch: int
) -> None:
    keys = [f"rollout.episodes_per_batch={per_batch}", f"rollout.batches_per_step={batches}"]
    [problem] = errors(*keys, f"training.group_size={size}")
    assert f"(nearest: {nearest})" in problem.allowed
    assert problem.fix.endswith(f"rollout.episodes_per_batch={next_per_batch}")
    small(*keys, f"training.group_size={size}", f"rollout.episodes_per_batch={next_per_batch}")


def test_update_size_with_accumulation(small) -> None:
    numbers = small(
        "training.batch_size=4",
        "training.gradient_accumulation_steps=5",
        "training.max_accumulated_minibatch=3",
        "training.num_epochs=2",
    ).derived
    assert numbers == {"E": 32, "U": 12, "m": 3, "groups": 8, "iterations": 6, "steps": 18}


def test_a_broken_value_silences_the_rules_that_read_it(errors) -> None:
    assert [p.code for p in errors('training.group_size="5"', "rollout.episodes_per_batch=1")] == [
        "type",
        "type",
    ]


def test_old_per_achievement_runs_as_gspo_token(small) -> None:
    loaded = small("training.rewards.step_rewards_strategy=per_achievement")
    assert loaded.config.algorithm.variety == "gspo_token"
    assert loaded.config.training.rewards.step_rewards_strategy == "per_turn"
    assert {item.code for item in loaded.warnings} == {"old_value", "gspo_token"}


def test_zero_beta_with_decision_stepwise_is_one(small) -> None:
    rewards = "training.rewards.step_rewards_"
    loaded = small(f"{rewards}enabled=true", f"{rewards}mode=decision_stepwise", f"{rewards}beta=0.0")
    assert loaded.config.training.rewards.step_rewards_beta == 1.0
    assert loaded.origins[f"{rewards}beta"].kind == "derived"


def test_blend_follows_the_judge(small) -> None:
    assert small("judge.enabled=true").blend == {"env": 0.5, "event": 0.0, "outcome": 0.5}
    only_events = small("judge.enabled=true", "judge.options.outcome=false", "judge.options.event=true")
    assert only_events.blend == {"env": 0.5, "event": 0.5, "outcome": 0.0}
    without_env = small("judge.enabled=true", "rollout.rubric_rewards_only=true")
    assert without_env.blend["env"] == 0.0


@pytest.mark.parametrize(
    ("gpus", "ref", "tensor_parallel", "expected"),
    [(2, 0, 1, (1, 1)), (8, 0, 4, (4, 4)), (8, 1, 2, (4, 3)), (3, 0, 1, (2, 1))],
)
def test_derived_split_sums_to_the_gpus(small, gpus, ref, tensor_parallel, expected) -> None:
    sets = [f"compute.gpu_count={gpus}", "compute.gpu_type=H100"]
    sets += [f"compute.topology.tensor_parallel={tensor_parallel}"]
    sets += ["compute.topology.reference_placement=dedicated"] if ref else []
    topology = small(*sets, device="cuda").config.compute.topology
    assert (topology.gpus_for_vllm, topology.gpus_for_training) == expected
    assert sum(expected) + topology.gpus_for_ref == gpus
