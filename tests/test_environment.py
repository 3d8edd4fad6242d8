"""environment.json: the arguments are told, keys among them are not."""

import json

import pytest

from tests.taskapp.conftest import http, raw_server
from trainer.environment import describe, of_task_app
from trainer.inference.vllm.gate import Holds
from trainer.taskapp.client import TaskAppClient


def test_arguments_that_may_hold_keys_are_masked_and_counts_of_tokens_are_not(tmp_path):
    arguments = ["run", "my.toml", "--set", "policy.max_tokens=20", "--api-key=abc123", "JUDGE_TOKEN=12345678x"]
    told = describe(arguments, tmp_path)["argv"]
    assert told == ["run", "my.toml", "--set", "policy.max_tokens=20", "--api-key=***", "JUDGE_TOKEN=***"]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"service": {"task": {"id": "g", "name": "Guess\x1b"}, "version": 2}}, ("Guess", "2")),
        (200, {"service": {"task": "guess", "version": ["?"]}}, ("guess", None)),
        (404, {}, (None, None)),
        (200, None, (None, None)),
    ],
)
async def test_the_task_app_is_named_as_it_names_itself(status, body, expected):
    async with raw_server(lambda request, n: http(status, json.dumps(body))) as url:
        async with TaskAppClient(url, api_key="k", timeout_s=5.0, max_connections=1) as client:
            told = await of_task_app(client)
    assert (told["task"], told["version"]) == expected


async def test_updates_count_as_far_as_they_lie_within_a_call():
    holds = Holds()
    async with holds.held():
        pass
    holds._held.extend([(10.0, 12.0), (20.0, 21.0)])
    assert [holds.within(*span) for span in ((11.0, 30.0), (0.0, 10.5), (13.0, 19.0))] == [2.0, 0.5, 0.0]
