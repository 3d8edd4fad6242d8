from trainer.config import load
from trainer.settings import play_rules


def rules(split, *sets):
    return play_rules(load("sample_configs/demo.toml", sets=sets, environ={}).config, "rl_1", split)


def test_thinking_and_vision_fields_go_into_the_request_where_they_are_given(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    plain = rules("train")
    assert plain.policy_config == {} and plain.template_kwargs == {}
    sets = ["rollout.thinking_mode=no_think", "rollout.thinking_budget=64", "rollout.use_vision=false"]
    train = rules("train", *sets)
    assert train.policy_config == {"thinking_mode": "no_think", "thinking_budget": 64, "use_vision": False}
    assert train.template_kwargs == {"enable_thinking": False}
    other = rules("eval", *sets, "evaluation.thinking_mode=think")
    assert other.policy_config["thinking_mode"] == "think" and other.template_kwargs == {"enable_thinking": True}
    assert rules("train", "rollout.thinking_mode=deep").template_kwargs == {}
    mine = rules("train", *sets, "rollout.policy_config={thinking_budget = 8}")
    assert mine.policy_config["thinking_budget"] == 8
