"""Rewards and judge (CONFIG sections 6 and 7)."""

from collections.abc import Iterator

from trainer.config.errors import Problem
from trainer.config.facts import Facts


def step_rewards(facts: Facts) -> Iterator[Problem]:
    key = "training.rewards.step_rewards_beta"
    if not facts.given(key) or facts.entries[key].value != 0:
        return
    if facts["training.rewards.step_rewards_mode"] == "decision_stepwise":
        why = "read as 1.0: with decision_stepwise 0 meant no early bonus"
        yield facts.note(key, why, fix='step_rewards_mode = "off" switches step rewards off', code="beta")
    elif facts["training.rewards.step_rewards_enabled"]:
        yield facts.warning(key, "the step term of the reward is multiplied by 0", fix="beta = 1.0", code="beta")


def judge_off(facts: Facts) -> Iterator[Problem]:
    if facts["judge.enabled"]:
        return
    if facts["services.judge_url"] is not None:
        why = "not contacted: judge.enabled is false"
        fix = "--set judge.enabled=true, or delete this line"
        yield facts.note("services.judge_url", why, fix=fix, code="judge_off")
    option = next((key for key in facts.entries if key.startswith("judge.options.")), None)
    if option is not None:
        yield Problem(
            facts.entries[option].key_place,
            "judge.options",
            "configured but off: judge.enabled is false",
            fix="--set judge.enabled=true",
            level="warning",
            code="judge_off",
        )


def judge_kinds(facts: Facts) -> Iterator[Problem]:
    if not facts["judge.enabled"]:
        return
    event, outcome = facts["judge.options.event"], facts["judge.options.outcome"]
    if not (event or outcome):
        yield facts.problem(
            "judge.options.outcome",
            "the judge is enabled and neither turns nor episodes are judged",
            allowed="event or outcome true",
            fix="outcome = true",
            code="judge",
        )
        return
    blend = facts["judge.reward_blend"]
    if not any(blend.get(name, 0) > 0 for name in ("env", "event", "outcome")):
        yield facts.problem(
            "judge.reward_blend",
            "every weight is 0",
            allowed="at least one weight > 0",
            fix="reward_blend = { env = 0.5, outcome = 0.5 }",
            code="judge",
        )
    for name, on in (("event", event), ("outcome", outcome)):
        if blend.get(name, 0) > 0 and not on:
            yield facts.problem(
                "judge.reward_blend",
                f"{name} has weight {blend[name]} and judge.options.{name} is false",
                allowed=f"{name} = 0, or judge.options.{name} = true",
                fix=f"--set judge.options.{name}=true",
                code="judge",
            )
    if facts["judge.options.base_url"] is not None and facts["judge.options.model"] is None:
        yield facts.problem(
            "judge.options.base_url",
            "a server of your own has no default model",
            allowed="judge.options.model beside it",
            fix="--set judge.options.model=NAME",
            code="judge",
        )


def reward_sources(facts: Facts) -> Iterator[Problem]:
    if not facts["rollout.rubric_rewards_only"]:
        return
    key = "rollout.rubric_rewards_only"
    if facts["rollout.task_app_origin_rewards_only"]:
        why = "rollout.task_app_origin_rewards_only is true, too: no reward would be left"
        yield facts.problem(key, why, allowed="one of the two", fix="delete one of the two lines", code="rewards")
    elif not facts["judge.enabled"]:
        why = "the judge is off, so no reward would be left"
        fix = "rubric_rewards_only = false        or   --set judge.enabled=true"
        yield facts.problem(key, why, allowed="true with judge.enabled", fix=fix, code="rewards")


RULES = (step_rewards, judge_off, judge_kinds, reward_sources)
