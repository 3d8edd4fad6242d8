import json
from dataclasses import replace

from trainer.config import load
from trainer.rewards.rules import OUTCOME_ALONE, Blend, RewardRules
from trainer.settings import play_rules


def rules(split, *sets):
    loaded = load("sample_configs/demo.toml", sets=sets, environ={})
    return play_rules(loaded.config, "rl_1", split, loaded.blend)


def test_thinking_and_vision_fields_go_into_the_request_where_they_are_given(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    plain = rules("train")
    assert plain.policy_config == {} and plain.template_kwargs == {}
    given = {"thinking_mode": "no_think", "thinking_budget": 64, "use_vision": False}
    given |= {"image_only_mode": True, "max_images_per_step": 2}
    sets = [f"rollout.{name}={json.dumps(value)}" for name, value in given.items()]
    train = rules("train", *sets)
    assert train.policy_config == given
    assert train.template_kwargs == {"enable_thinking": False}
    other = rules("eval", *sets, "evaluation.thinking_mode=think")
    assert other.policy_config["thinking_mode"] == "think" and other.template_kwargs == {"enable_thinking": True}
    assert rules("train", "rollout.thinking_mode=deep").template_kwargs == {}
    mine = rules("train", *sets, 'rollout.policy_config={thinking_budget = 8, thinking_mode = "think"}')
    assert mine.policy_config["thinking_budget"] == 8 and mine.template_kwargs == {"enable_thinking": True}


def test_an_evaluation_samples_as_its_own_keys_say_and_training_always_plainly(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    sets = ["policy.top_p=0.9", "policy.top_k=20", "policy.repetition_penalty=1.1", "data.evaluation_split=test"]

    def sampled(split, *more):
        made = rules(split, *sets, *more)
        return made.temperature, made.top_p, made.top_k, made.repetition_penalty

    assert sampled("train", "policy.temperature=0.8") == (0.8, 1.0, -1, 1.0)
    assert sampled("eval", "evaluation.temperature=0.5") == (0.5, 0.9, 20, 1.1)
    assert sampled("eval", "evaluation.temperature=0.0") == (0.0, 1.0, -1, 1.0)
    assert (rules("train", *sets).data_split, rules("eval", *sets).data_split) != ("test", "test")
    assert rules("eval", *sets).data_split == "test"


def test_the_reward_keys_shape_the_reward_and_an_evaluation_has_no_credit_per_turn(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    assert rules("train").rewards == OUTCOME_ALONE
    sets = [
        "training.rewards.step_rewards_enabled=true",
        "training.rewards.step_rewards_mode=decision_stepwise",
        "training.rewards.step_rewards_beta=0.0",
        "training.rewards.step_rewards_indicator_lambda=0.5",
        "training.rewards.step_rewards_strategy=per_turn",
        "training.rewards.event_rewards_kind=unique",
        "training.step_rewards_weights={ a = 2.0 }",
        "training.step_rewards_k_limits={ a = 3 }",
        "algorithm.variety=gspo_token",
        "judge.enabled=true",
        "judge.reward_blend={ env = 0.25, outcome = 1.0 }",
    ]
    made = RewardRules(
        True, "decision_stepwise", 0.5, 1.0, "unique", {"a": 2.0}, {"a": 3}, True, Blend(0.25, 0.0, 1.0)
    )  # beta 0 is read as 1
    assert rules("train", *sets).rewards == made
    assert rules("eval", *sets).rewards == replace(made, per_turn=False)
    assert rules("train", *sets, "rollout.task_app_origin_rewards_only=true").rewards.blend == Blend()
    assert rules("train", *sets, "rollout.rubric_rewards_only=true").rewards.blend == Blend(0.0, 0.0, 1.0)
