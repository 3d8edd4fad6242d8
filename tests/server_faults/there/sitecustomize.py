"""Of servers that tests kill: the coordinators of their runs note that they were started.

DIE=before or after: the server is killed by itself, just before or after it starts one.
"""

import os
import signal
import sys
from pathlib import Path

import rltui.launch.local

COORDINATOR = Path(__file__).parents[1] / "coordinator.py"
real_argv, real_start = rltui.launch.local.trainer_argv, rltui.launch.local.LocalLauncher.start


def start(self, job):
    if os.environ["DIE"] == "after":
        real_start(self, job)
    os.kill(os.getpid(), signal.SIGKILL)


rltui.launch.local.trainer_argv = lambda job: [sys.executable, str(COORDINATOR), *real_argv(job)[1:]]
if "DIE" in os.environ:
    rltui.launch.local.LocalLauncher.start = start
