"""An environment of `verifiers` as an app holds it: loaded once per set of options, its shared tools running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from trainer.taskapp.contracts import Json
from trainer.taskapp.llm import chat_url
from trainer.taskapp.reading import mapping
from trainer.taskapp.verifiers import chat

NO_KEY = "RLTUI_NO_KEY"  # the gateway asks for none: no variable of this name is set
SAMPLING = ("temperature", "top_p", "max_tokens", "stop")


class Tasks:
    """The tasks of a task set by number, read as far as was asked for: it may be endless, and a load a download.

    Its methods block, and are called from threads.
    """

    def __init__(self, taskset: vf.Taskset[Any, Any]) -> None:
        self._taskset = taskset
        self._read: list[vf.Task[Any, Any, Any]] = []
        self._rest: Iterator[vf.Task[Any, Any, Any]] | None = None
        self._lock = threading.Lock()

    def get(self, number: int) -> vf.Task[Any, Any, Any] | None:
        """None: there are fewer."""
        with self._lock:
            if self._rest is None:
                self._rest = iter(self._taskset)
            while len(self._read) <= number and (task := next(self._rest, None)) is not None:
                self._read.append(task)
            return self._read[number] if 0 <= number < len(self._read) else None

    def size(self) -> int | None:
        """How many there are; None: no end."""
        if not self._taskset.bounded:
            return None
        while self.get(len(self._read)) is not None:
            pass
        return len(self._read)


class Environment:
    """One loaded environment. Episodes play at the same time; what they share starts with the first of them."""

    def __init__(self, name: str, options: Json, max_turns: int | None = None) -> None:
        """options: verifiers' own `[env]` table: taskset {...}, AGENT {...}, id of the way to play.

        Agents without a harness, and without one in the task set's package, are played by chat.py; those without a
        place to run in, as processes of this machine.

        Raises what verifiers raises over options that make no environment.
        """
        config = resolve_env_config({**options, "taskset": {**mapping(options.get("taskset")), "id": name}})
        agents = {
            field: _settled(agent, config.agent_harnesses()[field].id, max_turns)
            for field, agent in agent_config_fields(config).items()
        }
        self.env: vf.Env[Any] = load_environment(config.model_copy(update=agents))
        self.has_splits = "split" in type(config.taskset).model_fields
        self.split = str(getattr(config.taskset, "split", "train"))
        self.taskset_key = config.taskset.model_dump_json()
        self._served: asyncio.Task[None] | None = None
        self._up, self._down, self._starting = asyncio.Event(), asyncio.Event(), asyncio.Lock()

    async def play(self, task: vf.Task[Any, Any, Any], policy: Json, *, mode: str) -> vf.Episode[Any, Any, Any]:
        """Plays `task` with the policy of a rollout request. What goes wrong in it is on the episode."""
        await self._serve()
        return await self.env.run_episode(task, model_context(policy, mode))

    async def close(self) -> None:
        self._down.set()
        if self._served is not None:
            await asyncio.gather(self._served, return_exceptions=True)

    async def _serve(self) -> None:
        """Starts what all episodes share, at the first of them; a start that failed is tried again at the next."""
        async with self._starting:
            if self._served is None:
                self._served = asyncio.create_task(self._hold())
                up = asyncio.create_task(self._up.wait())
                await asyncio.wait({up, self._served}, return_when=asyncio.FIRST_COMPLETED)
                up.cancel()
                if not self._up.is_set():
                    failed, self._served = self._served, None
                    failed.result()

    async def _hold(self) -> None:
        """One task enters and leaves: verifiers' contexts may not be left from another."""
        async with self.env.serving():
            # Each episode then has an interception of its own, which ends with it: a shared one would keep an HTTP
            # client for every address that it ever called, and each episode has its own address.
            self.env._interception = None
            self._up.set()
            await self._down.wait()


def model_context(policy: Json, mode: str) -> vf.ModelContext:
    """Where an episode's model calls go and how they are sampled, by the request's `policy.config`.

    verifiers appends a path to its base URL. Ours is complete, with a query that names the episode: a `#` turns what
    is appended into a fragment, which is never sent.
    """
    url = str(policy["inference_url"])
    client = vf.EvalClientConfig(base_url=f"{url if mode == 'eval' else chat_url(url)}#", api_key_var=NO_KEY)
    sampling = {name: policy[name] for name in SAMPLING if policy.get(name) is not None}
    return vf.ModelContext(str(policy.get("model") or "policy"), client, vf.SamplingConfig(**sampling))


def _settled(agent: vf.AgentConfig, harness: str, max_turns: int | None) -> vf.AgentConfig:
    """`agent` with what nobody chose: the harness, where it runs, its turns."""
    chosen: Json = {}
    if harness == "null" or (agent.harness is None and harness == "bash"):
        chosen["harness"] = vf.HarnessConfig(id=chat.ID)
    if "runtime" not in agent.model_fields_set:
        chosen["runtime"] = vf.SubprocessConfig()
    if agent.max_turns is None:
        chosen["max_turns"] = max_turns
    return agent.model_copy(update=chosen)
