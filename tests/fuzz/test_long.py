"""The same properties for minutes, with examples that nobody has seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_ten_minutes_of_other_examples_find_nothing() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "600", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failures"] == {} and sum(found["examples"].values()) > 1_000, found
