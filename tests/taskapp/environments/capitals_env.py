"""An environment of verifiers: one question, one answer. Its task set has splits, and a reward that may be broken."""

from typing import Literal

import verifiers.v1 as vf

ROWS = {
    "train": [("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid")],
    "test": [("Japan", "Tokyo")],
}


class CapitalData(vf.TaskData):
    answer: str


class CapitalConfig(vf.TaskConfig):
    broken: bool = False


class CapitalTask(vf.Task[CapitalData, vf.State, CapitalConfig]):
    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace) -> float:
        if self.config.broken:
            raise KeyError("no such row")
        return float(self.data.answer in trace.last_reply)

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 10)

    @vf.metric
    async def letters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class CapitalsConfig(vf.TasksetConfig):
    split: Literal["train", "test"] = "train"
    task: CapitalConfig = CapitalConfig()


class Capitals(vf.Taskset[CapitalTask, CapitalsConfig]):
    def load(self) -> list[CapitalTask]:
        return [
            CapitalTask(
                CapitalData(prompt=f"The capital of {country}?", system_prompt="Answer in a word.", answer=city),
                self.config.task,
            )
            for country, city in ROWS[self.config.split]
        ]


__all__ = ["Capitals"]
