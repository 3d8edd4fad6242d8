"""Configs that the tests start from."""

from pathlib import Path

SDK_EXAMPLE = (Path(__file__).parent / "sdk_example.toml").read_text()

SMALL = """\
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "http://localhost:8001"
[policy]
model_name = "builtin:tiny"
trainer_mode = "lora"
label = "small"
[rollout]
env_name = "e"
policy_name = "p"
max_turns = 2
episodes_per_batch = 32
[training]
num_epochs = 1
iterations_per_epoch = 3
batch_size = 16
group_size = 4
learning_rate = 1e-5
"""
