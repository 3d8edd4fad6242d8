"""An environment of verifiers whose task brings a tool."""

import verifiers.v1 as vf


class AdderTools(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "sums"

    @vf.tool
    async def add(self, a: int, b: int) -> int:
        """The sum of a and b."""
        return a + b


class SumTask(vf.Task[vf.TaskData]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [AdderTools(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float("579" in trace.last_reply)


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        return [SumTask(vf.TaskData(prompt="What is 123 + 456?"))]


__all__ = ["Sums"]

if __name__ == "__main__":
    AdderTools.run()
