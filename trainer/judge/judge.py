"""What every judge is, and how it describes itself."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from trainer.judge.rubric import Rubric
from trainer.judge.types import JudgedEpisode, Judgement

T = TypeVar("T")


class Load(msgspec.Struct, frozen=True):
    """Calls at this moment. `oldest_s`: age of the oldest one in flight."""

    in_flight: int = 0
    queued: int = 0
    oldest_s: float | None = None


class Judge(ABC):
    """Scores episodes; as many at once as it is asked to, with its own limit of calls."""

    source: str  # llm, rule, service
    provider: str | None = None
    model: str | None = None

    def __init__(self, rubric: Rubric | None, aggregation: str) -> None:
        """aggregation: of the turns' scores, mean or sum."""
        self.rubric, self.aggregation = rubric, aggregation

    @abstractmethod
    async def judge(self, episode: JudgedEpisode) -> Judgement:
        """The scores of an episode.

        Raises:
            JudgeFailed: there is none for this episode: it is excluded as `judge_failed`.
            JudgeMisconfigured: there will be none for any.
        """

    @property
    def load(self) -> Load:
        return Load()

    async def close(self) -> None:  # noqa: B027 - a judge without connections has nothing to end
        """Ends its connections."""

    def describe(self) -> dict[str, Any]:
        """What is printed at start and stored."""
        return {
            "source": self.source,
            "provider": self.provider,
            "model": self.model,
            "rubric_id": self.rubric.id if self.rubric else None,
            "rubric_hash": self.rubric.hash if self.rubric else None,
        }


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results, in order. The first failure ends the others and is raised as it is."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
