"""Serving a task app: `TaskAppConfig` -> `create_task_app` -> `run_task_app` (WIRE 1.7)."""

from trainer.taskapp.proxy import ProxyConfig
from trainer.taskapp.registry import register_task_app
from trainer.taskapp.server import TaskAppConfig, create_task_app, run_task_app

__all__ = ["ProxyConfig", "TaskAppConfig", "create_task_app", "register_task_app", "run_task_app"]
