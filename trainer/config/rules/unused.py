"""Keys that are given, are right, and change nothing beside the others: one note each, with the reason."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainer.config.errors import Problem
from trainer.config.facts import Facts, Unusable
from trainer.config.keys import all_keys


@dataclass(frozen=True, slots=True)
class Unused:
    """`keys` change nothing while `when` holds. A value that is the default is not worth a word."""

    keys: tuple[str, ...]
    when: Callable[[Facts], bool]
    why: str


def _under(section: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for name in names)


def _is(key: str, *values: object) -> Callable[[Facts], bool]:
    return lambda facts: facts[key] in values


def _is_not(key: str, *values: object) -> Callable[[Facts], bool]:
    return lambda facts: facts[key] not in values


def _judges_with_model(facts: Facts) -> bool:
    return bool(facts["judge.enabled"]) and facts["judge.type"] == "llm"


def _judges_with_provider(facts: Facts) -> bool:
    return _judges_with_model(facts) and facts["services.judge_url"] is None


def _judges_with_service(facts: Facts) -> bool:
    return _judges_with_model(facts) and facts["services.judge_url"] is not None


def _judges_by_rule(facts: Facts) -> bool:
    return bool(facts["judge.enabled"]) and facts["judge.type"] == "rule"


def _steps_in_other_mode(*modes: str) -> Callable[[Facts], bool]:
    return lambda facts: (
        facts["training.rewards.step_rewards_enabled"] and facts["training.rewards.step_rewards_mode"] not in modes
    )


def _has_events(facts: Facts) -> bool:
    rewards = "training.rewards.step_rewards_"
    return bool(facts[f"{rewards}enabled"]) and facts[f"{rewards}mode"] == "decision_stepwise"


def _can_count_achievements(facts: Facts) -> bool:
    return facts["training.rewards.event_rewards_kind"] in ("binary", "unique")


_REWARDS, _SYNC, _OPTIONS = "training.rewards", "training.weight_sync", "judge.options"

UNUSED: tuple[Unused, ...] = (
    Unused(
        _under("training", "gamma", "gae_lambda", "value_coef"),
        _is_not("algorithm.method", "ppo"),
        "read with algorithm.method ppo only",
    ),
    Unused(
        ("training.advantage_std", "rollout.max_refill_groups"),
        _is("algorithm.method", "ppo"),
        "with method ppo advantages come from the value head, and groups of equal rewards are trained on",
    ),
    Unused(
        _under("training.lora", "r", "alpha", "dropout", "target_modules"),
        _is("policy.trainer_mode", "full"),
        "policy.trainer_mode is full: there is no adapter",
    ),
    Unused(
        (*_under(_SYNC, "mode", "direct", "verify_every_k"), "training.weight_sync_interval"),
        _is(f"{_SYNC}.enable", False),
        "weights are never synced: training.weight_sync.enable is false",
    ),
    Unused(
        _under(
            _REWARDS,
            "step_rewards_mode",
            "step_rewards_indicator_lambda",
            "step_rewards_beta",
            "event_rewards_kind",
        )
        + _under("training", "step_rewards_weights", "step_rewards_k_limits"),
        _is(f"{_REWARDS}.step_rewards_enabled", False),
        "the step term is off: training.rewards.step_rewards_enabled is false",
    ),
    Unused(
        _under(_REWARDS, "step_rewards_indicator_lambda"),
        _steps_in_other_mode("indicator", "decision_stepwise"),
        "read with step_rewards_mode indicator and decision_stepwise only",
    ),
    Unused(
        _under(_REWARDS, "event_rewards_kind") + _under("training", "step_rewards_weights", "step_rewards_k_limits"),
        _steps_in_other_mode("decision_stepwise"),
        "read with step_rewards_mode decision_stepwise only",
    ),
    Unused(
        _under("training", "step_rewards_weights", "step_rewards_k_limits"),
        lambda facts: _has_events(facts) and not _can_count_achievements(facts),
        "achievements are counted with event_rewards_kind binary and unique only",
    ),
    Unused(
        _under(_REWARDS, "event_rewards_kind"),
        lambda facts: (
            _has_events(facts)
            and _can_count_achievements(facts)
            and bool(facts["training.step_rewards_weights"] or facts["training.step_rewards_k_limits"])
        ),
        "achievements are counted by training.step_rewards_weights and training.step_rewards_k_limits instead",
    ),
    Unused(
        _under("data", "evaluation_split", "evaluation_episodes"),
        lambda facts: not facts.evaluates,
        "there is no [evaluation], so nothing is evaluated",
    ),
    Unused(
        ("data.split",),
        lambda facts: "split" in facts["rollout.env_config"],
        "rollout.env_config has a split, which wins",
    ),
    Unused(
        ("data.evaluation_split",),
        lambda facts: facts.evaluates and "split" in facts["rollout.env_config"],
        "rollout.env_config has a split, which wins",
    ),
    Unused(
        ("data.evaluation_episodes",),
        lambda facts: facts.evaluates and facts.given("evaluation.instances"),
        "evaluation.instances is given",
    ),
    Unused(
        ("evaluation.rollouts_per_seed",),
        lambda facts: facts.evaluates and facts.given("evaluation.instances") and _given_instances(facts) != 0,
        "evaluation.instances is given and not 0",
    ),
    Unused(
        ("evaluation.rollouts_per_seed",),
        lambda facts: (
            facts.evaluates
            and not facts.given("evaluation.instances")
            and facts["data.evaluation_episodes"] is not None
        ),
        "data.evaluation_episodes is given, and sets evaluation.instances",
    ),
    Unused(("judge.reward_blend", "judge.event_aggregation"), _is("judge.enabled", False), "judge.enabled is false"),
    Unused(
        ("judge.event_aggregation",),
        lambda facts: facts["judge.enabled"] and not facts["judge.options.event"],
        "no turns are judged: judge.options.event is false",
    ),
    Unused(
        _under(_OPTIONS, "base_url", "api_key_env", "weights"),
        _judges_with_service,
        "services.judge_url is set, and that service scores",
    ),
    Unused(
        _under(_OPTIONS, "metadata"), _judges_with_provider, "it is sent to a judge service only, not to a provider"
    ),
    Unused(
        (
            "services.judge_url",
            *_under(_OPTIONS, "provider", "model", "base_url", "api_key_env", "metadata", "max_concurrency"),
        ),
        _judges_by_rule,
        "judge.type is rule: code checks the criteria, and no model is called",
    ),
    Unused(
        ("judge.enabled",),
        _is("rollout.task_app_origin_rewards_only", True),
        "rollout.task_app_origin_rewards_only is true: the judge is not called",
    ),
    Unused(_under("smoke", "sqld_hrana_port", "sqld_http_port"), lambda facts: True, "SQLite needs no port"),
)


def _given_instances(facts: Facts) -> int:
    instances: int = facts.entries["evaluation.instances"].value
    return instances


def unused(facts: Facts) -> Iterator[Problem]:
    for item in UNUSED:
        try:
            holds = item.when(facts)
        except Unusable:
            continue
        for key in item.keys if holds else ():
            if not facts.given(key) or facts.entries[key].value == all_keys()[key].default or _warned(facts, key):
                continue
            yield facts.note(key, f"no effect: {item.why}", fix="delete this line", code="no_effect")


def _warned(facts: Facts, key: str) -> bool:
    """dropout and a beta of 0 have warnings of their own; a blend that comes with an old key is not the user's."""
    if key == "training.rewards.step_rewards_beta":
        mode = facts["training.rewards.step_rewards_mode"]
        return bool(facts.entries[key].value == 0) and mode == "decision_stepwise"
    return facts.entries[key].weak


RULES = (unused,)
