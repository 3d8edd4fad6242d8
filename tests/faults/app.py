"""The digit task, whose answers break as files in a folder ask for it."""

import os
from pathlib import Path

from tests.e2e.digit_app import build_config
from tests.faults.answers import Faulty
from trainer.taskapp.server import create_task_app

app = Faulty(create_task_app(build_config()), Path(os.environ["RLTUI_FAULTS_APP"]), "/rollout")
