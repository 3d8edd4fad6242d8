"""Why an episode failed, where more is known than its exclusion code says. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trainer.taskapp.reading import mapping

GIVEN_UP = "given_up"  # in Episode.excluded: by the person who played; no fault of the app
DIED_FIX = "find out why the app's process ended; an episode that fails is answered with 500 and ends nothing else"
ANSWER_FIX = "correct what the rollout handler returns: each reward is a finite JSON number"
LOG_FIX = "correct the error that the app's log shows; an answer is 200 with the episode in it"
LOG_LINES = 8

_MARKS = re.compile(r"[\s^~]*")  # under a line of a traceback


def invalid_answer(body: Any) -> bool:
    """Whether our server says that the app's handler returned what it did not send on."""
    error = mapping(mapping(mapping(body).get("detail")).get("error"))
    return error.get("code") == "invalid_rollout_response"


def log_end(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines of a log that say something."""
    return tuple(line for line in lines if not _MARKS.fullmatch(line))[-LOG_LINES:]
