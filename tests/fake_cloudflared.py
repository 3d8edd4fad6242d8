"""A stand-in for `cloudflared`: the words of a quick tunnel, and where FAKE_CLOUDFLARED_FORWARD says so, a real one.

Its folder (FAKE_CLOUDFLARED) holds `starts` (a line a start) and `argv`; a file `refuse` there makes it fail as the
real one does when the service is busy, a file `silent` keeps it from connecting. With FAKE_CLOUDFLARED_FORWARD=HOST
it listens on HOST and forwards every connection to --url; that address is then the tunnel's.
"""

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit


def install(folder: Path) -> Path:
    """Writes the program into `folder`, and returns the folder."""
    program = folder / "cloudflared"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(0o755)
    return folder


def log(level: str, text: str) -> None:
    print(f"2026-01-01T00:00:00Z {level} {text}", file=sys.stderr, flush=True)


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main() -> None:
    folder = Path(os.environ["FAKE_CLOUDFLARED"])
    (folder / "argv").write_text(" ".join(sys.argv[1:]))
    starts = folder / "starts"
    number = len(starts.read_text().splitlines()) if starts.exists() else 0
    with starts.open("a") as file:
        file.write(f"{os.getpid()}\n")
    log("INF", "Requesting new quick Tunnel on trycloudflare.com...")
    if (folder / "refuse").exists():
        log(
            "ERR", 'error="failed to request quick Tunnel: https://api.trycloudflare.com/tunnel: 429 Too Many Requests"'
        )
        sys.exit(1)
    address, host = f"https://fake-{number}.trycloudflare.com", os.environ.get("FAKE_CLOUDFLARED_FORWARD")
    if host:
        target = urlsplit(sys.argv[sys.argv.index("--url") + 1])

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there_writer = await asyncio.open_connection(target.hostname, target.port)
            await asyncio.gather(pipe(reader, there_writer), pipe(there_reader, writer))

        server = await asyncio.start_server(forward, host, 0)
        address = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    log("INF", "+" + "-" * 92 + "+")
    log("INF", "|  Your quick Tunnel has been created! Visit it at (it may take some time to be reachable):  |")
    log("INF", f"|  {address:90}|")
    log("INF", "+" + "-" * 92 + "+")
    log("INF", f"Settings: map[ha-connections:1 url:{sys.argv[-1]}]")
    if not (folder / "silent").exists():
        log("INF", "Registered tunnel connection connIndex=0 event=0 ip=198.51.100.1 location=abc01 protocol=quic")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
