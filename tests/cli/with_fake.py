"""`rltui` with fake_coordinator.py in the coordinator's place; all else is the real thing."""

import sys
from pathlib import Path

from rltui.cli.main import main
from rltui.launch.local import LocalLauncher

FAKE = Path(__file__).parent / "fake_coordinator.py"


class FakeLauncher(LocalLauncher):
    def command(self, job):
        return [sys.executable, str(FAKE), *super().command(job)[4:]]


if __name__ == "__main__":
    import rltui.cli.start
    import rltui.processes

    rltui.cli.start.LocalLauncher = FakeLauncher
    rltui.processes.GRACE_S = 0.5
    sys.exit(main())
