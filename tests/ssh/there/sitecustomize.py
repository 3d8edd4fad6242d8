"""Of the host at the other end: its runs are fake ones."""

import sys
from pathlib import Path

import rltui.launch.local

FAKE = Path(__file__).resolve().parents[2] / "cli" / "fake_coordinator.py"
real = rltui.launch.local.trainer_argv
rltui.launch.local.trainer_argv = lambda job: [sys.executable, str(FAKE), *real(job)[4:]]
