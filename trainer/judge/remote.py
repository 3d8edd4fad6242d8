"""What the judges that are asked over HTTP have in common."""

from __future__ import annotations

from trainer.judge.calls import Calls
from trainer.judge.http import JudgeHttp
from trainer.judge.judge import Judge, Load
from trainer.judge.rubric import Rubric


class HttpJudge(Judge):
    """One that is asked over HTTP, by `calls` that keep the limits of the config."""

    def __init__(self, rubric: Rubric | None, aggregation: str, calls: Calls, http: JudgeHttp) -> None:
        super().__init__(rubric, aggregation)
        self._calls, self._http = calls, http

    @property
    def load(self) -> Load:
        return self._calls.load

    async def close(self) -> None:
        await self._http.close()
