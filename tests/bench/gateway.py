"""Calls/s of the gateway on one core over real HTTP, and its memory with many episodes open.

python tests/bench/gateway.py [--episodes 2000] [--turns 4] [--connections 32] [--stream] [--json]

The engine is a stub that renders and answers at once, so what is measured is the gateway: HTTP, JSON, ledger, joining,
record. The clients run in a process of their own and speak raw HTTP/1.1 over kept connections. Every episode stays
open to the end; each turn sends the whole chat again. `calls_per_s` is by the clock, `calls_per_cpu_s` by the CPU time
of the gateway's process: the two differ where other work shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

import psutil

from trainer.inference.engine import Chunk, Engine, Reply
from trainer.inference.gateway import Gateway
from trainer.inference.ledger import CallPolicy

SYSTEM = "You play a game. " * 60  # about 1,000 tokens of a real prompt
TURN_TEXT = "What you see now. " * 10
COMPLETION, CHUNK = 64, 8  # tokens of an answer, tokens of a chunk
END = 1


class Stub(Engine):
    """A token is a character; answers are always the same."""

    kind, model_name, max_model_len, weight_version = "stub", "stub", 1 << 20, 0
    eos_token_ids = frozenset([END])
    tool_markers, reasoning = (), False

    async def start(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    async def render(self, messages, tools=None, template_kwargs=None) -> list[int]:
        text = "".join(f"[{m['role']}]{m['content']}\x01" for m in messages)
        return list(f"{text}[assistant]".encode())

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def generate(self, prompt_ids, sampling, *, affinity=None):
        for at in range(0, COMPLETION, CHUNK):
            await asyncio.sleep(0)
            last = at + CHUNK >= COMPLETION
            ids = [97] * (CHUNK - last) + [END] * last
            yield Chunk(ids, [-0.5] * CHUNK, 0, "stop" if last else None)

    def decode(self, token_ids) -> str:
        return bytes(i for i in token_ids if i != END).decode()

    async def derender(self, token_ids, tools=None) -> Reply:
        return Reply(self.decode(token_ids))

    async def load_weights(self, path, version) -> None: ...

    async def stop(self) -> None: ...


async def play(port: int, cids: list[str], turns: int, stream: bool) -> None:
    """One connection: its episodes one turn after the other, all of them turn by turn."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TURN_TEXT}]
    for _ in range(turns):
        body = json.dumps({"model": "m", "messages": messages, "stream": stream}).encode()
        for cid in cids:
            head = f"POST /v1/chat/completions?cid={cid} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not answer.startswith(b"http/1.1 200"):
                raise SystemExit(f"the gateway answered {answer!r}")
            if stream:
                await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
            else:
                await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
        messages += [{"role": "assistant", "content": "a" * (COMPLETION - 1)}, {"role": "user", "content": TURN_TEXT}]
    writer.close()


async def clients(port: int, episodes: int, turns: int, connections: int, stream: bool) -> None:
    shares = [[f"e{i}" for i in range(c, episodes, connections)] for c in range(connections)]
    await asyncio.gather(*(play(port, share, turns, stream) for share in shares))


async def measure(options: argparse.Namespace) -> dict[str, float]:
    gateway, process = Gateway(Stub()), psutil.Process()
    await gateway.start()
    for i in range(options.episodes):
        gateway.ledger.open(f"e{i}", CallPolicy("train", 1.0, COMPLETION))
    before = process.memory_info().rss
    argv = [sys.executable, __file__, "--clients", gateway.url.rsplit(":", 1)[1]]
    argv += ["--episodes", str(options.episodes), "--turns", str(options.turns)]
    argv += ["--connections", str(options.connections), *(["--stream"] if options.stream else [])]
    cpu = time.process_time()
    child = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL)
    code = await child.wait()
    cpu = time.process_time() - cpu
    if code:
        raise SystemExit("the clients failed")
    rss = process.memory_info().rss
    calls = [call for i in range(options.episodes) for call in gateway.ledger.close(f"e{i}").calls]
    await gateway.stop()
    assert {call.prefix for call in calls} == {"first", "clean"} and len(calls) == options.episodes * options.turns
    wall = max(call.t_end for call in calls) - min(call.t_queued for call in calls)  # without the clients' start
    return {
        "calls": len(calls),
        "calls_per_s": round(len(calls) / wall, 1),
        "calls_per_cpu_s": round(len(calls) / cpu, 1),
        "rss_mb_before": round(before / 1e6, 1),
        "rss_mb": round(rss / 1e6, 1),
        "kb_per_episode": round((rss - before) / 1e3 / options.episodes, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--clients", type=int, help=argparse.SUPPRESS)  # port: this is the process of the clients
    options = parser.parse_args()
    if options.clients:
        asyncio.run(clients(options.clients, options.episodes, options.turns, options.connections, options.stream))
        return
    result = asyncio.run(measure(options))
    print(json.dumps(result) if options.json else "\n".join(f"{key:16} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
