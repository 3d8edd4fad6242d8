"""The job server under many viewers: delay of events and of status answers, its CPU and memory, and where it breaks.

python tests/bench/server_load.py [--clients 200] [--status 100] [--events 10] [--seconds 10] [--until-break] [--json]

The server is `rltui serve` over real HTTP, as it comes. `--clients` follow one run by SSE, which gets `--events` events
a second; beside them its status is asked for `--status` times a second, on time whether or not the answers come. The
delay of an event runs from before it is written to its arrival, that of an answer from when it was due. All clients
are in this process: under --until-break, which doubles clients and requests until a p99 passes 2 s, an answer is no
200, or a stream ends, they share the machine with the server. `load` is the machine's at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil

from trainer.rundir import RunWriter, run_folder_name

JOB = "rl_00000000000000ff"
CONNECTIONS = 32  # for status requests
LIMIT_S = 2.0


class Load:
    """One stage: what came, and when."""

    def __init__(self, port: int, clients: int, rate: float) -> None:
        self.port, self.clients, self.rate = port, clients, rate
        self.event_delays: list[float] = []
        self.status_delays: list[float] = []
        self.wrong: Counter[str] = Counter()
        self.measuring = False
        self.since = 0.0  # when it began to measure: what is older is replayed
        self.connected = 0
        self._ending = False
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    def request(self, path: str) -> bytes:
        return f"GET /api/rl/jobs/{JOB}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()

    async def run(self, settle_s: float, seconds: float, process: psutil.Process) -> dict[str, Any]:
        streams = [asyncio.create_task(self._stream(i)) for i in range(self.clients)]
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self.port))
        deadline = time.monotonic() + 60
        while self.connected < self.clients and time.monotonic() < deadline and not self.wrong:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        asking = asyncio.create_task(self._ask(settle_s + seconds))
        await asyncio.sleep(settle_s)
        self.measuring, self.since = True, time.time()
        cpu, started = sum(process.cpu_times()[:2]), time.monotonic()
        await asyncio.sleep(seconds)
        wall = time.monotonic() - started
        cpu = sum(process.cpu_times()[:2]) - cpu
        self.measuring = False
        await asking
        self._ending = True
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        while not self._free.empty():
            self._free.get_nowait()[1].close()
        return {
            "clients": self.clients,
            "connected": self.connected,
            "status_per_s": self.rate,
            "answers": len(self.status_delays),
            "status": spread(self.status_delays),
            "events_delivered": len(self.event_delays),
            "event": spread(self.event_delays),
            "server_cpu": round(cpu / wall, 3),
            "server_rss_mb": round(process.memory_info().rss / 1e6, 1),
            "wrong": dict(self.wrong),
        }

    async def _stream(self, number: int) -> None:
        try:
            await asyncio.sleep(number * 0.002)
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
            try:
                writer.write(self.request("events/stream"))
                first = await reader.readline()
                if b" 200 " not in first:
                    self.wrong[first.decode(errors="replace").strip()] += 1
                    return
                self.connected += 1
                while line := await reader.readline():
                    at = line.find(b'"sent":') if line.startswith(b"data: ") and self.measuring else -1
                    sent = float(line[at + 7 : line.index(b"}", at)]) if at >= 0 else 0.0
                    if sent > self.since:
                        self.event_delays.append(time.time() - sent)
                if not self._ending:
                    self.wrong["a stream ended"] += 1
            finally:
                writer.close()
        except OSError as error:
            self.wrong[f"stream: {error.strerror or type(error).__name__}"] += 1

    async def _ask(self, seconds: float) -> None:
        start, asked, tasks = time.monotonic(), 0, set()
        while (now := time.monotonic()) < start + seconds:
            while asked < (now - start) * self.rate:
                task = asyncio.create_task(self._one(start + asked / self.rate))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                asked += 1
            await asyncio.sleep(0.002)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=15)
            if late:
                self.wrong["status: no answer in 15 s"] += len(late)
            for task in late:
                task.cancel()

    async def _one(self, due: float) -> None:
        measured = self.measuring
        reader, writer = await self._free.get()
        try:
            writer.write(self.request("status"))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            if measured:
                self.status_delays.append(time.monotonic() - due)
            if b" 200 " not in head[:20]:
                self.wrong[f"status: {head[:40].decode(errors='replace').splitlines()[0]}"] += 1
        except (OSError, EOFError, ValueError) as error:
            self.wrong[f"status: {type(error).__name__}"] += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._free.put_nowait((reader, writer))


def spread(delays: list[float]) -> dict[str, float]:
    """p50, p99 and the largest, in ms."""
    found = sorted(delays) or [float("inf")]
    at = {"p50_ms": len(found) // 2, "p99_ms": min(len(found) - 1, int(len(found) * 0.99)), "max_ms": len(found) - 1}
    return {name: round(found[i] * 1_000, 1) for name, i in at.items()}


def broken(found: dict[str, Any]) -> bool:
    late = max(found["status"]["p99_ms"], found["event"]["p99_ms"]) > LIMIT_S * 1_000
    return late or bool(found["wrong"]) or found["connected"] < found["clients"]


def serve(runs: Path, state: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-P", "-m", "rltui", "serve", "--port", "0", "--runs-dir", str(runs), "--json"]
    env = {name: value for name, value in os.environ.items() if name not in ("RLTUI_API_KEY", "SYNTH_API_KEY")}
    process = subprocess.Popen(command, env={**env, "XDG_STATE_HOME": str(state)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = ""
    while "}" not in told:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"rltui serve ended with {process.wait()}")
        told += line
    return process, int(json.loads(told)["url"].rpartition(":")[2].partition("/")[0])


async def write(writer: RunWriter, rate: float) -> None:
    """A live run: its beat, and events that say when they were sent."""
    count, start = 0, time.monotonic()
    while True:
        writer.event("rl.train.step", "a step", step=count, loss=0.1, grad_norm=0.2, sent=time.time())
        count += 1
        if count % max(1, int(rate)) == 0:
            writer.beat()
        await asyncio.sleep(max(0.0, start + count / rate - time.monotonic()))


async def measure(args: argparse.Namespace, process: psutil.Process, port: int, writer: RunWriter) -> list[Any]:
    writing = asyncio.create_task(write(writer, args.events))
    found: list[Any] = []
    clients, rate = args.clients, args.status
    while True:
        found.append(await Load(port, clients, rate).run(2.0, args.seconds, process))
        if not args.json:
            print(json.dumps(found[-1]), flush=True)
        if not args.until_break or broken(found[-1]):
            break
        clients, rate = clients * 2, rate * 2
        await asyncio.sleep(1.0)
    writing.cancel()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--status", type=float, default=100.0, help="requests a second")
    parser.add_argument("--events", type=float, default=10.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--until-break", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "runs")
        with RunWriter(runs / run_folder_name("load", JOB), job_id=JOB, label="load") as writer:
            writer.event("rl.job.created", "Job created", step=0)
            writer.status(state="running", phase="training")
            server, port = serve(runs, Path(folder, "state"))
            try:
                deadline = time.monotonic() + 20
                while httpx.get(f"http://127.0.0.1:{port}/api/rl/jobs/{JOB}/status").status_code != 200:
                    if time.monotonic() > deadline:
                        raise SystemExit("the server does not take the run in")
                    time.sleep(0.1)
                found = asyncio.run(measure(args, psutil.Process(server.pid), port, writer))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(20)
    if args.json:
        print(json.dumps({"load": round(load, 2), "cores": os.cpu_count(), "stages": found}))


if __name__ == "__main__":
    main()
