"""One of the apps as a file of its own, for faults that end the process: BROKEN names it."""

import os

from starlette.applications import Starlette

from tests.smoke.broken import APPS
from tests.smoke.broken.app import routes

app = Starlette(routes=routes(APPS[os.environ["BROKEN"]]()))
