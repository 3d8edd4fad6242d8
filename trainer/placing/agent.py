"""python -m trainer.placing.agent HOST:PORT [--node N]: starts processes on a node, as a run's coordinator says.

A launcher (Ray, srun) starts one on each node, with the run token in its environment. It connects to the coordinator,
tells what the node has, and is asked for one thing after another:
  place {id, role, words, env, own_group}  ->  placed {id, pid}, then line {id, data} and at last ended {id, code}
  terminate {id, child}   port {id}   read {id, path}  ->  result {id, ...}
It says leaving {why} when its launcher ends it. An error is {type: error, id, message}. When the connection ends, so
does everything that it started: a coordinator that is gone leaves nothing behind, whatever became of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from functools import partial

import psutil

from trainer.batch import hold_off_term, in_batch_job
from trainer.config.machine import count_gpus
from trainer.frames import SCHEMA, TOKEN, Channel, Frame
from trainer.listening import keep_alive
from trainer.placing.local import free_port
from trainer.processes import Child, die_with_parent, spawn
from trainer.rundir.process import host_name

READ_BYTES = 4096
CONNECT_S = 30.0


class Agent:
    """Answers one coordinator, until its connection ends."""

    def __init__(self, channel: Channel, address: str) -> None:
        self._channel, self._address = channel, address
        self._children: dict[int, Child] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            while (frame := await self._channel.receive()) is not None:
                task = asyncio.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            await asyncio.gather(*(child.terminate() for child in self._children.values()))

    async def _answer(self, frame: Frame) -> None:
        number = frame["id"]
        try:
            match frame["type"]:
                case "place":
                    await self._place(number, frame)
                case "terminate":
                    await self._children[frame["child"]].terminate()
                    self._channel.post({"type": "result", "id": number})
                case "port":
                    self._channel.post({"type": "result", "id": number, "port": free_port(self._address)})
                case "read":
                    data = await asyncio.to_thread(_start_of, frame["path"])
                    self._channel.post({"type": "result", "id": number, "data": data})
        except (OSError, KeyError) as error:
            self._channel.post({"type": "error", "id": number, "message": str(error)})

    async def _place(self, number: int, frame: Frame) -> None:
        child = await spawn(
            frame["role"],
            [sys.executable, *frame["words"]],
            sink=lambda line: self._channel.post({"type": "line", "id": number, "data": line}),
            env=network_environment(self._address, os.environ) | frame["env"],
            own_group=frame["own_group"],
        )
        self._children[number] = child
        self._channel.post({"type": "placed", "id": number, "pid": child.pid})
        child.ended.add_done_callback(partial(self._tell_end, number, child))

    def _tell_end(self, number: int, child: Child, _: object) -> None:
        async def tell() -> None:
            await child.terminate()  # its last lines are read, and its group is gone
            self._channel.post({"type": "ended", "id": number, "code": child.ended.result()})

        task = asyncio.create_task(tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(READ_BYTES)


def network_environment(address: str, environ: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """Of processes that meet others of the run over the network: they must not take the loopback, as the host's name
    often is. What the node's own environment says counts."""
    names = [
        name for name, found in psutil.net_if_addrs().items() for entry in found if entry.address == address
    ]  # fmt: skip
    told = {"VLLM_HOST_IP": address}
    if names:
        told |= {"GLOO_SOCKET_IFNAME": names[0], "NCCL_SOCKET_IFNAME": names[0]}
    return {key: value for key, value in told.items() if key not in environ}


def gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them; the launcher has set it to those that are ours."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(i) for i in range(count_gpus({}))]
    return [part.strip() for part in named.split(",") if part.strip()]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def serve(target: str, node: int) -> None:
    """Raises OSError where the coordinator is not reached."""
    host, _, port = target.rpartition(":")
    reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), CONNECT_S)
    keep_alive(writer.get_extra_info("socket"))
    channel = Channel(reader, writer)
    address = channel.ends[0]
    about = {"node": node, "name": host_name(), "gpus": gpus(), "cores": cores()}
    await channel.send({"type": "hello", "schema": SCHEMA, "token": os.environ[TOKEN], **about})
    work = asyncio.ensure_future(Agent(channel, address).serve())

    def leave(number: int) -> None:
        """Whoever gave the node takes it away: that is the cause of all that ends with it, so it is told first."""
        channel.post({"type": "leaving", "id": -1, "why": signal.Signals(number).name})
        work.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave, number)
    try:
        await work
    except asyncio.CancelledError:
        pass  # by a signal: all is ended
    await channel.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.placing.agent", description="A node of a run.")
    parser.add_argument("target", metavar="HOST:PORT", help="the run's coordinator")
    parser.add_argument("--node", type=int, default=None, help="the node's number; default: SLURM_PROCID")
    args = parser.parse_args()
    if in_batch_job():
        hold_off_term()  # the notice is for the coordinator; this ends with its connection
    die_with_parent(signal.SIGKILL if in_batch_job() else signal.SIGTERM)
    os.umask(0o077)  # what a run writes is for this user alone
    node = int(os.environ.get("SLURM_PROCID", "0")) if args.node is None else args.node
    try:
        asyncio.run(serve(args.target, node))
    except (OSError, TimeoutError) as error:
        print(
            f"{socket.gethostname()} does not reach the run's coordinator at {args.target}: {error or 'no answer'}",
            file=sys.stderr,
        )
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
