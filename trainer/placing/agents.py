"""Nodes behind agents: what all launchers have in common that get machines from somewhere.

A launcher gives the command that starts one agent (agent.py) on each node and ends when they have: `srun`, or our own
program that asks Ray. It runs as a child of the coordinator. All else goes over the agents' connections: a connection
that ends is a node that is lost, and every process on it has ended.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.frames import SCHEMA, TOKEN, Channel, Frame
from trainer.listening import Listener
from trainer.placing.agent import READ_BYTES
from trainer.placing.base import LOST, Node, Placed, Placing, PlacingError, Sink
from trainer.processes import TAIL_LINES, Child, spawn

ANSWER_S = 60.0
END_S = 15.0  # for an agent to end all of its processes


class RemoteProcess(Placed):
    """One process on a node. `sink` gets its lines."""

    def __init__(self, role: str, agent: Agent, number: int, sink: Sink) -> None:
        self.role, self.node, self._agent, self._number, self._sink = role, agent.node.name, agent, number, sink
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._pid = 0
        self.ended = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def tail(self) -> str:
        return "\n".join(self._tail)[-2000:]

    def take(self, frame: Frame) -> None:
        match frame["type"]:
            case "placed":
                self._pid = frame["pid"]
            case "line":
                self._tail.append(frame["data"].decode(errors="replace").rstrip())
                try:
                    self._sink(frame["data"])
                except OSError:
                    pass  # a full disk loses lines of the log
            case "ended":
                self.end(frame["code"])

    def end(self, code: int, lost: str = "") -> None:
        if not self.ended.done():
            self.lost = lost
            self.ended.set_result(code)

    async def terminate(self) -> None:
        if not self.ended.done():
            try:
                await self._agent.ask("terminate", child=self._number)
            except PlacingError:
                return
            await asyncio.wait([self.ended], timeout=ANSWER_S)


class Agent:
    """The coordinator's end of one node."""

    def __init__(self, channel: Channel, hello: Frame) -> None:
        self.ours, address = channel.ends  # where the node reaches the coordinator, and the coordinator the node
        self.node = Node(str(hello["name"]), address, tuple(hello["gpus"]), int(hello["cores"]))
        self._channel, self._lost = channel, ""
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._processes: dict[int, RemoteProcess] = {}
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        why = "its connection ended"
        while (frame := await self._channel.receive()) is not None:
            number = frame["id"]
            if frame["type"] == "leaving":
                why = f"its launcher took it away ({frame['why']})"
                break
            if number in self._processes:
                self._processes[number].take(frame)
            if frame["type"] in ("placed", "result", "error") and (answer := self._answers.get(number)):
                if not answer.done():
                    answer.set_result(frame)
        self._lose(why)

    def _lose(self, why: str) -> None:
        lost = self._lost = f"node {self.node.name} ({self.node.address}) was lost: {why}"
        for process in self._processes.values():
            process.end(LOST, lost)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result({"type": "error", "message": lost})

    async def ask(self, type_: str, number: int | None = None, **fields: Any) -> Frame:
        """Raises PlacingError."""
        number = next(self._numbers) if number is None else number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        who = f"node {self.node.name} ({self.node.address})"
        try:
            if self._lost:
                raise PlacingError(self._lost)
            await self._channel.send({"type": type_, "id": number, **fields})
            frame: Frame = await asyncio.wait_for(answer, ANSWER_S)
        except TimeoutError:
            raise PlacingError(f"{who} did not answer '{type_}' within {ANSWER_S:g} s") from None
        except OSError:
            raise PlacingError(f"{who} does not take '{type_}' any more") from None
        finally:
            self._answers.pop(number, None)
        if frame["type"] == "error":
            raise PlacingError(self._lost or f"{who}: {frame['message']}")
        return frame

    async def place(
        self, role: str, words: Sequence[str], sink: Sink, env: Mapping[str, str], own_group: bool
    ) -> RemoteProcess:
        number = next(self._numbers)
        process = self._processes[number] = RemoteProcess(role, self, number, sink)
        await self.ask("place", number, role=role, words=list(words), env=dict(env), own_group=own_group)
        return process

    async def close(self) -> None:
        """The node ends what is left on it."""
        await self._channel.close()
        self.reader.cancel()
        self._lose("the run ends")


class AgentPlacing(Placing):
    """`timeout_s`: for all nodes to be there. `sink` gets what the launcher's own command prints."""

    def __init__(self, count: int, timeout_s: float, sink: Sink) -> None:
        super().__init__()
        self._count, self._timeout_s, self._sink = count, timeout_s, sink
        self._agents: dict[int, Agent] = {}
        self._listener: Listener | None = None
        self._launched: Child | None = None
        self._all = asyncio.Event()
        self._refused = ""

    @abstractmethod
    def command(self, port: int) -> list[str]:
        """Runs an agent on each node, which connects to `port` of this machine, until it is ended by SIGTERM. The run
        token is in its environment, and has to be in that of the agents. Raises PlacingError."""

    @abstractmethod
    def why_late(self) -> str:
        """What to do where not all nodes were given in time."""

    async def start(self) -> None:
        self._listener = await Listener.at_port("", self.token, self._accept)
        assert self._listener.port is not None
        argv = self.command(self._listener.port)
        try:
            self._launched = await spawn("launcher", argv, sink=self._sink, env={TOKEN: self.token}, own_group=True)
        except OSError as error:
            raise PlacingError(f"{argv[0]} cannot be run: {error.strerror}", self.why_late()) from None
        ready = asyncio.ensure_future(self._all.wait())
        try:
            await asyncio.wait(
                [ready, self._launched.ended], timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if self._refused:
                raise PlacingError(self._refused, "install one version of rltui on all nodes")
            if not ready.done():
                raise await self._no_nodes()
        finally:
            ready.cancel()
        agents = [self._agents[i] for i in range(self._count)]
        self.address, self.nodes = self._agents[0].ours, [agent.node for agent in agents]
        self._listener.close()

    async def _no_nodes(self) -> PlacingError:
        assert self._launched is not None
        ended = self._launched.ended.done()
        if ended:
            await self._launched.terminate()  # its last lines are read
        said = [line for line in self._launched.tail.splitlines() if line.strip()]
        last = said[-1] if said else "the launcher said nothing"
        there = f"{len(self._agents)} of {self._count} nodes were there after {self._timeout_s:g} s"
        what = "the nodes could not be had" if ended else there
        return PlacingError(f"{what}: {last}", self.why_late(), self._launched.tail)

    def _accept(self, channel: Channel, hello: Frame) -> None:
        if hello.get("schema") != SCHEMA:
            self._refused = f"node {hello.get('name')} speaks schema {hello.get('schema')}, the coordinator {SCHEMA}"
            self._all.set()
            return
        self._agents[hello["node"]] = Agent(channel, hello)
        if all(i in self._agents for i in range(self._count)):
            self._all.set()

    async def place(
        self,
        node: int,
        role: str,
        words: Sequence[str],
        *,
        sink: Sink,
        env: Mapping[str, str] | None = None,
        own_group: bool = False,
    ) -> RemoteProcess:
        return await self._agents[node].place(role, words, sink, {**(env or {}), TOKEN: self.token}, own_group)

    async def free_port(self, node: int) -> int:
        port: int = (await self._agents[node].ask("port"))["port"]
        return port

    async def check_sees(self, file: Path) -> None:
        with file.open("rb") as opened:
            ours = opened.read(READ_BYTES)
        hint = "run from a file system that all nodes share under one path"
        for agent in self._agents.values():
            try:
                seen = (await agent.ask("read", path=str(file)))["data"]
            except PlacingError as error:
                raise PlacingError(f"{file.parent} is not seen on every node: {error}", hint) from None
            if seen != ours:
                raise PlacingError(f"{file.parent} is another folder on node {agent.node.name}", hint)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await asyncio.gather(*(agent.close() for agent in self._agents.values()))
        if self._launched is not None:
            await asyncio.wait([self._launched.ended], timeout=END_S)  # each agent ends what it started, then itself
            await self._launched.terminate()
