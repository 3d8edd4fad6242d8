"""The same answers in every episode: for the comparison of two plays of one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rltui.smoke.policies.base import Call, Policy, Reply
from rltui.smoke.policies.mock import answer


class ScriptedPolicy(Policy):
    """Call k of every episode gets the same answer: `replies[k]` (the last one for all that follow), else a valid
    one that hangs on `variant` and k alone."""

    name = "scripted"

    def __init__(self, replies: Sequence[Reply] = (), variant: int = 0) -> None:
        self._replies, self._variant = tuple(replies), variant

    async def reply(self, call: Call) -> Reply:
        if self._replies:
            return self._replies[min(call.number, len(self._replies) - 1)]
        return answer(call, random.Random(f"{self._variant}:{call.number}"))
