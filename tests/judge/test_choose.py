"""From a config file to its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.config.load import load
from trainer.config.schema import JudgeConfig, JudgeOptionsConfig
from trainer.judge.choose import make_judge
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.lookup import resolve_rubric

SAMPLE = Path(__file__).parents[2] / "sample_configs" / "judge.toml"


def test_the_sample_is_judged_by_its_model_and_rubric() -> None:
    config = load(SAMPLE).config.judge
    resolved = resolve_rubric(config.options, folder=None)
    assert resolved.warnings == () and resolved.source == "the config"
    judge = make_judge(config, resolved, record=lambda line: 0, environ={})
    said = judge.describe()
    assert (said["source"], said["model"], said["rubric_id"]) == ("llm", "Qwen/Qwen3-8B", None)
    assert said["rubric_hash"] == judge.rubric.hash and judge.load.in_flight == 0


@pytest.mark.parametrize(
    ("sets", "why", "named"),
    [
        (["judge.options.base_url=https://judge.example/v1"], "JUDGE_API_KEY, which is not set", "JUDGE_API_KEY"),
        (["judge.options.api_key_env=MINE", "judge.options.base_url=https://h/v1"], "MINE, which is not set", "MINE"),
        (["judge.type=rule", "judge.enabled=false"], "the rule of outcome criterion fact.correct is missing", "rule"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_judged(sets: list[str], why: str, named: str) -> None:
    config = load(SAMPLE, sets=sets).config.judge
    with pytest.raises(JudgeMisconfigured, match=why) as caught:
        make_judge(config, resolve_rubric(config.options, folder=None), record=lambda line: 0, environ={})
    assert named in caught.value.hint


def test_an_address_with_a_query_is_refused_and_not_repeated() -> None:
    options = JudgeOptionsConfig(base_url="http://127.0.0.1:1/v1?key=abc", model="m")
    config = JudgeConfig(enabled=True, options=options)
    resolved = resolve_rubric(load(SAMPLE).config.judge.options, folder=None)
    with pytest.raises(JudgeMisconfigured, match=r"behind \? or #") as caught:
        make_judge(config, resolved, record=lambda line: 0, environ={})
    assert caught.value.code == "judge_route" and "abc" not in str(caught.value)


def test_without_a_rubric_only_a_service_judges() -> None:
    config = JudgeConfig(enabled=True, options=JudgeOptionsConfig(base_url="http://127.0.0.1:1/v1", model="m"))
    resolved = resolve_rubric(config.options, folder=None, service=True)
    service = make_judge(config, resolved, record=lambda line: 0, judge_url="http://127.0.0.1:1", environ={})
    assert service.describe()["source"] == "service"
    with pytest.raises(JudgeMisconfigured, match="no rubric"):
        make_judge(config, resolved, record=lambda line: 0, environ={})
