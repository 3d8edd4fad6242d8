"""In which step's batch an episode was trained: of attempts that a later one went on from, 4 bytes an episode."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from trainer.rundir.jsonl import Json
from trainer.rundir.layout import RunPaths
from trainer.rundir.lines import Cursor, read_lines
from trainer.rundir.resume import Resumed, counts

NAME = "rollouts/groups.jsonl"
NONE = -1


class ClosedAt:
    """Steps of the groups of attempts before `attempt`: those lines stand when that attempt's resume is on record.

    An episode's row has the step that it was played for. In an asynchronous run its group may close with an earlier
    or a later batch, and only the group's line knows which.
    """

    def __init__(self, paths: RunPaths, attempt: int, episodes: int) -> None:
        self._steps = array("i", [NONE]) * episodes
        cursor, more = Cursor(), True
        while more:
            part = read_lines(paths, NAME, cursor)
            for line in part.rows:
                if isinstance(line.get("attempt"), int) and line["attempt"] < attempt:
                    self._take(line)
            cursor, more = part.cursor, part.more

    def counts(self, row: Json, resumes: Iterable[Resumed]) -> bool:
        """Whether an index row of these attempts still counts.

        Evaluations and excluded episodes are in no batch: they count by their own step. A training episode that is
        in none was still waiting for one when its attempt ended, and the next attempt plays it again.
        """
        n = row.get("n")
        if isinstance(n, int) and 0 <= n < len(self._steps) and self._steps[n] != NONE:
            return counts({**row, "step": self._steps[n]}, resumes)
        waited = row.get("split") == "train" and not row.get("excl")
        return not waited and counts(row, resumes)

    def _take(self, line: Json) -> None:
        step, members = line.get("step"), line.get("members")
        if type(step) is not int or not 0 <= step < 2**31 or not isinstance(members, list):
            return
        for n in members:
            if type(n) is int and 0 <= n < len(self._steps):
                self._steps[n] = step
