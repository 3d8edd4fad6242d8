"""The routes that read: what clients ask of a job that is there. Paths are below `/api`."""

from __future__ import annotations

from starlette.routing import Route

from rltui.server.events import events, stream
from rltui.server.files import artifact
from rltui.server.logs import logs
from rltui.server.points import metrics
from rltui.server.read import read
from rltui.server.reading import of_run
from rltui.server.rollouts import rollout, rollouts
from rltui.server.views import checkpoints, config, judge

PREFIXES = ("/rl/jobs", "/learning/jobs", "/orchestration/jobs", "/jobs")  # aliases of each other

_HANDLERS = (
    ("POST", "read", read),
    ("GET", "events", events),
    ("GET", "events/stream", stream),
    ("GET", "metrics", metrics),
    ("GET", "rollouts", rollouts),
    ("GET", "rollouts/{cid}", rollout),
    ("GET", "judge", judge),
    ("GET", "checkpoints", checkpoints),
    ("GET", "logs", logs),
    ("GET", "config", config),
    ("GET", "artifacts/{path:path}", artifact),
)

routes = [
    Route(f"{prefix}/{{job_id}}/{path}", of_run(handle), methods=[method])
    for prefix in PREFIXES
    for method, path, handle in _HANDLERS
]
