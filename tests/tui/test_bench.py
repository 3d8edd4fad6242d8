"""The bench runs from start to end, here on a stand-in and small; its numbers are what they say they are."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.tui_pty import shows_count

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = [sys.executable, str(ROOT / "tests" / "tui" / "line_list.py")]
SMALL = ["--episodes", "2000", "--keys", "16", "--starts", "1", "--seconds", "1"]


@pytest.mark.slow
def test_every_number_is_measured_on_a_stand_in(tmp_path):
    command = [sys.executable, str(ROOT / "tests" / "bench" / "tui_pty.py"), "--json", "--work", str(tmp_path)]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *SMALL, "--command", shlex.join(STAND_IN)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    for name in ("first_paint_ms", "bare_app_ms", "key_ms_median", "key_ms_p99", "open_100k_s", "bytes_per_key"):
        assert numbers[name] > 0, name
    assert numbers["key_ms_median"] <= numbers["key_ms_p99"] < 1000 * (time.monotonic() - began)
    assert numbers["idle_bytes_per_s"] == 0  # the stand-in draws nothing of its own
    assert 10 < numbers["rss_base_mb"] < 500 and 10 < numbers["rss_100k_mb"] < 500
    assert (tmp_path / "episodes-2000" / "rollouts" / "index.jsonl").exists()


@pytest.mark.parametrize(
    ("screen", "shown"),
    [
        ("60 episodes of 100 320", True),
        ("of 100,000", True),
        ("100.000 episodes", True),
        ("102536", True),
        ("step 6250  99 999", False),
        ("tokens 4 100 000 000", False),
        ("", False),
    ],
)
def test_the_total_is_found_however_thousands_are_written(screen, shown):
    assert shows_count(screen, 100_000) is shown
