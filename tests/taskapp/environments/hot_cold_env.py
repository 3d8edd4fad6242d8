"""An environment of verifiers: several turns, in which the environment is the user. The task set has no end."""

from collections.abc import Iterator

import verifiers.v1 as vf


class HiddenData(vf.TaskData):
    target: int


class HiddenTask(vf.Task[HiddenData]):
    @vf.reward
    async def found(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.target))


class Hidden(vf.Taskset[HiddenTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[HiddenTask]:
        target = 0
        while True:
            yield HiddenTask(HiddenData(prompt="Guess my number.", target=target))
            target += 1


class HotColdConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class HotCold(vf.Env[HotColdConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as guesser:
            segment = await guesser.turn()
            while not segment.terminated and segment.last_reply != str(task.data.target):
                segment = await guesser.turn("Cold.")


__all__ = ["Hidden", "HotCold"]
