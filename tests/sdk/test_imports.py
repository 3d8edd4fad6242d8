"""Importing the SDK costs little and touches nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"torch", "transformers", "textual", "rltui.cli.main", "ray"}
MODULES = (
    "rltui.sdk.api.train.rl",
    "rltui.sdk.api.train.configs",
    "rltui.sdk.api.train.configs.rl",
    "rltui.sdk.api.train.configs.shared",
    "rltui.sdk.task.in_process",
    "rltui.sdk.task.contracts",
    "rltui.sdk.task.server",
)

CONFIGS = (
    "RLServicesConfig ModelConfig RolloutConfig WeightSyncConfig RewardsConfig RLTrainingConfig EvaluationConfig "
    "JudgeOptionsConfig RubricConfig JudgeConfig SmokeConfig RLConfig"
).split()


def loaded_after(code, watched, tmp_path):
    tail = """
import json, os, signal, sys
handlers = [signal.getsignal(s) is d for s, d in
            ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL))]
print(json.dumps([[m for m in WATCHED if m in sys.modules], handlers, os.listdir()]))
""".replace("WATCHED", repr(sorted(watched)))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_modules_of_the_layout_write_no_file_handle_no_signal_and_load_nothing_heavy(tmp_path):
    code = "\n".join(f"import {name}" for name in MODULES)
    assert loaded_after(code, HEAVY, tmp_path) == [[], [True, True], []]


def test_importing_rltui_loads_nothing(tmp_path):
    watched = {"pydantic", "httpx", "numpy", "uvicorn", "starlette", "rltui.sdk", "rltui.backend", "asyncio"}
    assert loaded_after("import rltui\nassert 'RLJob' in rltui.__all__", watched, tmp_path)[0] == []


def test_names_lead_to_their_classes():
    import rltui
    import rltui.sdk.api.train
    import rltui.sdk.task
    from rltui.sdk.api.train.configs import rl as configs
    from rltui.sdk.api.train.rl import RLJob, RLJobConfig
    from rltui.sdk.task.in_process import InProcessTaskApp

    for package in (rltui, rltui.sdk):
        assert (package.RLJob, package.RLJobConfig) == (RLJob, RLJobConfig)
        assert package.InProcessTaskApp is InProcessTaskApp
        for name in CONFIGS:
            assert getattr(package, name) is getattr(configs, name)
        assert set(package.__all__) == {"RLJob", "RLJobConfig", "InProcessTaskApp", *CONFIGS} <= set(dir(package))
    assert rltui.sdk.api.train.RLJob is RLJob and rltui.sdk.task.InProcessTaskApp is InProcessTaskApp
    with pytest.raises(AttributeError, match="rltui"):
        _ = rltui.no_such_name
