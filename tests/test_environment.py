"""environment.json: the arguments are told, keys among them are not."""

from trainer.environment import describe


def test_arguments_that_may_hold_keys_are_masked_and_counts_of_tokens_are_not(tmp_path):
    arguments = ["run", "my.toml", "--set", "policy.max_tokens=20", "--api-key=abc123", "JUDGE_TOKEN=12345678x"]
    told = describe(arguments, tmp_path)["argv"]
    assert told == ["run", "my.toml", "--set", "policy.max_tokens=20", "--api-key=***", "JUDGE_TOKEN=***"]
