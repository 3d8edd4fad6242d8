"""A task app as a user writes it: the reward is whether the answer holds a vowel."""

from rltui.sdk.task.server import TaskAppConfig


def build_config():
    return TaskAppConfig(
        app_id="hello",
        name="Hello",
        description="A vowel is wanted.",
        base_task_info={"task": {"id": "hello", "name": "Hello"}},
        describe_taskset=lambda: {"sizes": {"train": 100}},
        provide_task_instances=lambda seeds: [{"task": {"id": f"hello-{seed}"}} for seed in seeds],
        rollout=lambda request, http_request: {"metrics": {"outcome_reward": 1.0}, "run_id": request.run_id},
    )
