"""`rltui` with fake_coordinator.py in the coordinator's place; all else is the real thing."""

import sys
from pathlib import Path

import rltui.launch.local
import rltui.processes
from rltui.cli.main import main

FAKE = Path(__file__).parent / "fake_coordinator.py"
real = rltui.launch.local.trainer_argv


if __name__ == "__main__":
    rltui.launch.local.trainer_argv = lambda job: [sys.executable, str(FAKE), *real(job)[4:]]
    rltui.processes.GRACE_S = 0.5
    sys.exit(main())
