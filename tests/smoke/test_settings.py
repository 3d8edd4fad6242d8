"""Each [smoke] key has its effect; options win over it."""

import pytest

from rltui.smoke.policies.base import PolicyUnavailable
from rltui.smoke.policies.choose import make_policy
from rltui.smoke.policies.endpoint import EndpointPolicy
from rltui.smoke.settings import Settings, settings_of
from tests.config.texts import SMALL
from trainer.config import load_text


def settings(*sets: str, **options) -> Settings:
    return settings_of(load_text(SMALL, "my.toml", environ={}, device="cpu", sets=sets), **options)


KEYS = {
    "smoke.task_url=http://localhost:7": {"app": "http://localhost:7", "app_port": 0},
    "services.task_url=http://localhost:8": {"app": "http://localhost:8"},
    "smoke.env_name=e": {"env_name": "e"},
    "smoke.policy_name=p": {"policy_name": "p"},
    "smoke.max_steps=3": {"max_turns": 3},
    "smoke.policy=groq": {"policy": "groq"},
    "smoke.model=m": {"model": "m"},
    "smoke.mock_backend=openai": {"mock_backend": "openai"},
    "smoke.mock_port=9000": {"policy_port": 9000},
    "smoke.return_trace=true": {"return_trace": True},
    "smoke.task_app_name=app.py": {"app": "app.py", "app_port": 8765},
    "smoke.task_app_env_file=.env": {"app_env_file": ".env"},
    "smoke.task_app_force=true": {"app_force": True},
    "smoke.sqld_auto_start=true": {"trace_db": "./traces/local.db"},
    "smoke.sqld_db_path=x.db": {"trace_db": None},  # of traces that are not asked for
    "policy.inference_url=http://localhost:5": {"policy": "http://localhost:5"},
    "inference.gateway_host=0.0.0.0": {"policy_host": "0.0.0.0", "policy_port": 0},
    "inference.public_url=http://me:1": {"public_url": "http://me:1"},
    "rollout.timeout_s=7": {"timeout_s": 7.0},
}


@pytest.mark.parametrize("key", KEYS)
def test_each_key(key: str) -> None:
    made = settings(key)
    assert {name: getattr(made, name) for name in KEYS[key]} == KEYS[key]


def test_what_wins_over_what() -> None:
    assert settings("smoke.policy=self", "smoke.use_mock=true").policy == "mock"
    assert settings("smoke.use_mock=true", policy="scripted").policy == "scripted"
    assert settings("smoke.policy=mock", "policy.inference_url=http://localhost:5").policy == "mock"
    made = settings("smoke.task_app_name=app.py", url="builtin:facts")
    assert (made.app, made.app_port) == ("builtin:facts", 0)
    made = settings("smoke.task_app_name=app.py", "smoke.task_app_port=9000")
    assert (made.app, made.app_port) == ("app.py", 9000)


def test_turns_are_ten_or_fewer_where_the_run_plays_fewer() -> None:
    assert settings("rollout.max_turns=30").max_turns == 10
    assert settings("rollout.max_turns=3").max_turns == 3
    assert settings("rollout.max_turns=3", "smoke.max_steps=6").max_turns == 6


def test_seeds_are_those_that_training_begins_with() -> None:
    sets = ("data.seed_start=2", "data.seed_count=10", "evaluation.instances=2", "evaluation.every_n_iters=1")
    assert settings(*sets, "evaluation.seeds=[3, 4]").seeds == (2, 5, 6, 7, 8, 9, 10, 11)
    made = settings(seeds=(1, 9), group_size=2, rollouts=3)
    assert made.plays == [(1, 0), (1, 1), (9, 0)]


def test_a_person_plays_one_episode_unless_told_otherwise() -> None:
    made = settings(policy="human")
    assert len(made.plays) == 1 and made.timeout_s > 3600
    assert len(settings(policy="human", seeds=(0, 1), group_size=2).plays) == 4


def test_without_a_config_the_app_must_be_named() -> None:
    assert settings_of(None, url="builtin:guess").app == "builtin:guess"
    with pytest.raises(ValueError, match="neither"):
        settings_of(None)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Settings(app="x", policy="self"), "Give the config"),
        (Settings(app="x", policy="human"), "terminal"),
        (Settings(app="x", policy="robot"), "Known: mock, scripted, self, human"),
        (Settings(app="x", mock_backend="openai"), "OPENAI_API_KEY is not set"),
    ],
)
def test_a_policy_that_lacks_what_it_needs_is_an_error(made: Settings, words: str) -> None:
    with pytest.raises(PolicyUnavailable, match=words):
        make_policy(made, environ={})


def test_mock_in_front_of_openai_is_openai() -> None:
    made = make_policy(Settings(app="x", mock_backend="openai"), environ={"OPENAI_API_KEY": "k" * 20})
    assert isinstance(made, EndpointPolicy) and made.url.startswith("https://api.openai.com/")
