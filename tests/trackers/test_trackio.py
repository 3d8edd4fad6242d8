"""Trackio's own database, read back."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trackio", reason="trackio is not installed: pip install 'rltui[trackio]'")

ROOT = str(Path(__file__).parents[2])
# In a process of its own: the package reads its folder while it is imported.
TOLD = """
import sys
from pathlib import Path
from trainer.trackers.base import RunFacts
from trainer.trackers.trackio import Trackio
facts = RunFacts("rl_0", "demo-rl_0", Path(sys.argv[1]), {"training": {"group_size": 4}}, {"team": "mine"})
tracker = Trackio(facts, "mine")
tracker.row(2, {"reward/mean": 0.5})
tracker.row(0, {"eval/reward_mean": 0.125})
tracker.close()
"""


def test_rows_config_and_tags_are_in_the_database_and_stdout_stays_ours(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": ROOT}
    done = subprocess.run([sys.executable, "-c", TOLD, str(tmp_path)], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    with sqlite3.connect(tmp_path / "trackio" / "mine.db") as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
        [(config,)] = database.execute("SELECT config FROM configs").fetchall()
    assert [(name, step, json.loads(values)) for name, step, values in rows] == [
        ("demo-rl_0", 2, {"reward/mean": 0.5}),
        ("demo-rl_0", 0, {"eval/reward_mean": 0.125}),
    ]
    told = json.loads(config)
    assert told["training"] == {"group_size": 4} and told["tags"] == {"team": "mine"}
