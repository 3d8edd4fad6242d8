"""What is said of a run whose record cannot be read: that, of this run alone."""

from __future__ import annotations

import logging
from pathlib import Path

from rltui.server.answers import Refused
from trainer.rundir.jsonl import Json

# What reading a damaged record raises.
DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
HINT = "look at its folder: a file was replaced or damaged, or belongs to somebody else"

log = logging.getLogger("rltui.server")


def unreadable(error: Exception) -> Json:
    """The `error` of a job object."""
    return {"code": "unreadable", "message": _sentence(error), "hint": HINT}


def refusal(job_id: str, error: Exception) -> Refused:
    """Of a read of that job. It may as well be an error of ours, so the log has where."""
    log.warning("job %s: %s", job_id, _sentence(error), exc_info=None if isinstance(error, OSError) else error)
    return Refused(409, "unreadable", _sentence(error))


def _sentence(error: Exception) -> str:
    if not isinstance(error, OSError):
        return "the run's record is damaged"
    name = f"{Path(str(error.filename)).name}: " if error.filename else ""
    return f"the run's record cannot be read: {name}{error.strerror or error}"
