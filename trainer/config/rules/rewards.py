"""Rewards and judge (CONFIG sections 6 and 7)."""

import re
from collections.abc import Iterator
from typing import Any

from trainer.config.errors import Problem
from trainer.config.facts import Facts
from trainer.config.fixes import ways

PROVIDERS = ("openai", "anthropic", "groq", "gemini")
AGGREGATIONS = ("weighted_sum", "sum")
SCALES = ("binary", "bounded")
RULE_KINDS = (
    "contains",
    "regex",
    "exact",
    "numeric",
    "json_valid",
    "json_schema",
    "tool_called",
    "max_chars",
    "reward_at_least",
    "python",
)


def step_rewards(facts: Facts) -> Iterator[Problem]:
    beta, mode = "training.rewards.step_rewards_beta", facts["training.rewards.step_rewards_mode"]
    enabled = facts["training.rewards.step_rewards_enabled"]
    if facts.given(beta) and facts.entries[beta].value == 0:
        if mode == "decision_stepwise":
            yield facts.note(
                beta,
                "read as 1.0: with decision_stepwise 0 meant no early bonus",
                fix='step_rewards_beta = 1.0; step_rewards_mode = "off" switches step rewards off',
                code="beta",
            )
        elif enabled and mode != "off":
            why = "the step term of the reward is multiplied by 0"
            yield facts.warning(beta, why, fix="step_rewards_beta = 1.0", code="beta")
    if not enabled:
        return
    if mode == "off":
        why = "no step rewards: training.rewards.step_rewards_mode is off"
        yield facts.note("training.rewards.step_rewards_enabled", why, fix="delete this line", code="step_rewards")
    if mode == "env_sparse":
        why = (
            "the environment's step rewards are added to its outcome; where that outcome is itself their sum, "
            "each counts twice: the run measures it, and says so with both numbers"
        )
        yield facts.note("training.rewards.step_rewards_mode", why, code="env_sparse")
    if mode != "off" and facts["judge.enabled"] and facts["rollout.rubric_rewards_only"]:
        why = "the step rewards vanish with the environment's weight: rollout.rubric_rewards_only is true"
        yield facts.note(
            "training.rewards.step_rewards_enabled", why, fix="step_rewards_enabled = false", code="step_rewards"
        )


def judge_off(facts: Facts) -> Iterator[Problem]:
    if facts["judge.enabled"]:
        return
    if facts["services.judge_url"] is not None:
        why = "not contacted: judge.enabled is false"
        fix = ways("delete this line", *_switch_on(facts))
        yield facts.note("services.judge_url", why, fix=fix, code="judge_off")
    option = next((key for key, entry in facts.entries.items() if key.startswith("judge.options.")), None)
    if option is not None:
        yield Problem(
            facts.entries[option].key_place,
            "judge.options",
            "configured but off: judge.enabled is false",
            fix=ways(*_switch_on(facts), "delete this section, or keep it for later"),
            level="warning",
            code="judge_off",
        )


def _switch_on(facts: Facts) -> list[str]:
    """The judge switched on, as a fix, if it would have something to judge then."""
    judges = facts["judge.options.event"] or facts["judge.options.outcome"]
    return ["--set judge.enabled=true"] if judges else []


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
        kind = "outcome" if outcome else "event"
        yield facts.problem(
            "judge.reward_blend",
            "every weight is 0",
            allowed="at least one weight > 0",
            fix=f"reward_blend = {{ env = 0.5, {kind} = 0.5 }}",
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
    weights = facts["judge.options.weights"]
    if weights and not any(weights.values()):
        yield facts.problem(
            "judge.options.weights",
            "every track has weight 0",
            allowed="numbers >= 0, at least one > 0",
            fix="delete this line",
            code="judge",
        )


def judge_address(facts: Facts) -> Iterator[Problem]:
    """A path is put behind it."""
    for key, name in (("services.judge_url", "SYNTH_API_KEY"), ("judge.options.base_url", "JUDGE_API_KEY")):
        address = facts[key]
        if address is not None and ("?" in address or "#" in address):
            yield facts.problem(
                key,
                f"a path is put behind this address, so it cannot end in a query; a key goes into the variable {name}",
                allowed="an http(s) URL without ? and #",
                fix=f"--set {key}={re.split('[?#]', address)[0]}",
                code="judge",
            )


def judge_model(facts: Facts) -> Iterator[Problem]:
    """Who is asked. A judge service is passed provider and model as they are."""
    if not facts["judge.enabled"] or facts["judge.type"] != "llm" or facts["services.judge_url"] is not None:
        return
    kind = facts.entries.get("judge.type")
    if kind is not None and kind.origin.note == 'given as "synth"':
        yield Problem(
            kind.place,
            "judge.type",
            "synth is a judge service, and services.judge_url does not say where it is",
            '"synth"',
            allowed="synth with services.judge_url, or llm with a provider",
            fix='type = "llm"        or   --set services.judge_url=https://HOST',
            code="judge",
        )
    base, provider = facts["judge.options.base_url"], facts["judge.options.provider"]
    if base is not None and facts["judge.options.model"] is None:
        yield facts.problem(
            "judge.options.base_url",
            "a server of your own has no default model",
            allowed="judge.options.model beside it",
            fix="--set judge.options.model=NAME",
            code="judge",
        )
    if base is None and provider not in PROVIDERS:
        yield facts.problem(
            "judge.options.provider",
            "no such provider",
            allowed=f"{', '.join(PROVIDERS)}; any name with judge.options.base_url",
            fix='provider = "openai"',
            code="judge",
        )


def rubric(facts: Facts) -> Iterator[Problem]:
    """The parts of judge.options.rubric_overrides that a judge computes with."""
    key = "judge.options.rubric_overrides"
    by_rule = facts["judge.enabled"] and facts["judge.type"] == "rule"
    for name, part in facts[key].items():
        if name not in ("event", "outcome") or not isinstance(part, dict):
            yield _rubric_problem(facts, name, "not a part of a rubric", "tables named event and outcome")
            continue
        if part.get("aggregation", AGGREGATIONS[0]) not in AGGREGATIONS:
            why = f"aggregation {part['aggregation']!r} is not known"
            yield _rubric_problem(facts, name, why, f"aggregation: {' or '.join(AGGREGATIONS)}")
        criteria = part.get("criteria", [])
        if not isinstance(criteria, list):
            yield _rubric_problem(facts, name, "criteria is no list", "criteria: a list of tables")
            continue
        for number, criterion in enumerate(criteria, 1):
            if wrong := _wrong_criterion(criterion):
                yield _rubric_problem(facts, name, f"criterion {number}: {wrong[0]}", wrong[1])
            elif by_rule and criterion.get("rule") is None:
                why = f"criterion {number}: it has no rule, and judge.type is rule"
                yield _rubric_problem(facts, name, why, f"a rule, of kind {', '.join(RULE_KINDS)}")


def _rubric_problem(facts: Facts, part: str, why: str, allowed: str) -> Problem:
    key = "judge.options.rubric_overrides"
    return facts.problem(key, f"{part}: {why}", allowed=allowed, fix="delete this line", code="rubric")


def _wrong_criterion(criterion: Any) -> tuple[str, str] | None:
    if not isinstance(criterion, dict) or not isinstance(criterion.get("id"), str) or not criterion["id"].strip():
        return "it has no id", "a table with an id, a string"
    weight = criterion.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
        return f"weight {weight!r}", "weight: a number >= 0"
    if criterion.get("scale", SCALES[0]) not in SCALES:
        return f"scale {criterion['scale']!r}", f"scale: {' or '.join(SCALES)}"
    rule = criterion.get("rule")
    if rule is not None and (not isinstance(rule, dict) or rule.get("kind") not in RULE_KINDS):
        return "its rule has no known kind", f"rule.kind: {', '.join(RULE_KINDS)}"
    return None


def reward_sources(facts: Facts) -> Iterator[Problem]:
    key = "rollout.rubric_rewards_only"
    if not facts[key]:
        return
    blend = facts["judge.reward_blend"]
    if facts["rollout.task_app_origin_rewards_only"]:
        why = "rollout.task_app_origin_rewards_only is true, too: no reward would be left"
        yield facts.problem(key, why, allowed="one of the two", fix="delete this line", code="rewards")
    elif not facts["judge.enabled"]:
        why = "the judge is off, so no reward would be left"
        fix = ways("rubric_rewards_only = false", *_switch_on(facts))
        yield facts.problem(key, why, allowed="true with judge.enabled", fix=fix, code="rewards")
    elif blend.get("env", 0) > 0 and not (blend.get("event", 0) or blend.get("outcome", 0)):
        why = "judge.reward_blend has weight on env alone, which this switch sets to 0: no reward would be left"
        allowed = "true with a weight on event or outcome"
        yield facts.problem(key, why, allowed=allowed, fix="delete this line", code="rewards")


RULES = (step_rewards, judge_off, judge_kinds, judge_address, judge_model, rubric, reward_sources)
