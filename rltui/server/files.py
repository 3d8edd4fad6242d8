"""Files of a job's checkpoints, whole or from a byte on, each with the sum of its manifest (WIRE 3.2, 5.9)."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rltui.server.answers import Refused
from rltui.server.reading import OpenRun
from rltui.server.sse import STALL_S, while_there
from rltui.sources.base import Json
from trainer.rundir.checkpoints import MANIFEST, OPTIMIZER, Checkpoint
from trainer.rundir.jsonl import decode_object
from trainer.rundir.layout import RunPaths, read_range
from trainer.rundir.reader import RunReader

CHUNK = 1 << 20
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


async def artifact(request: Request, run: OpenRun) -> Response:
    name = request.path_params["path"]
    fd, digest = await run.ask(lambda: _opened(run.reader, name))
    size = os.fstat(fd).st_size
    span = _span(request, size, digest)
    if span is not None:
        return _File(fd, size, span, digest)
    os.close(fd)
    refused = Refused(416, "range", f"{name} has {size} bytes").response()
    refused.headers["content-range"] = f"bytes */{size}"
    return refused


def _opened(reader: RunReader, name: str) -> tuple[int, str | None]:
    """An open file, and its sha256. Refused: no finished checkpoint names it."""
    refused = Refused(404, "not_found", f"no artifact {name[:200]!a} of this job: see {{id}}/artifacts")
    for checkpoint in reader.checkpoints():
        beginning = f"checkpoints/{checkpoint.path.name}/"
        if not name.startswith(beginning):
            continue
        inside = name.removeprefix(beginning)
        for path, digest in named_files(reader.paths, checkpoint):
            if path == inside:
                try:
                    fd = reader.paths.open(name)
                except (OSError, ValueError):
                    raise refused from None
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return fd, digest
                os.close(fd)
    raise refused


def named_files(paths: RunPaths, checkpoint: Checkpoint) -> Iterator[tuple[str, str | None]]:
    """Path inside the checkpoint and sha256 of each of its files."""
    yield MANIFEST, None
    yield from _listed(checkpoint.manifest)
    if checkpoint.resumable:
        inside = f"{OPTIMIZER}/{MANIFEST}"
        yield inside, None
        try:
            manifest = decode_object(paths.read(f"checkpoints/{checkpoint.path.name}/{inside}"))
        except (OSError, ValueError):
            return
        for path, digest in _listed(manifest):
            yield f"{OPTIMIZER}/{path}", digest


def _listed(manifest: Json) -> Iterator[tuple[str, str | None]]:
    files = manifest.get("files")
    for entry in files if isinstance(files, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("path"), str):
            yield entry["path"], entry["sha256"] if isinstance(entry.get("sha256"), str) else None


def _span(request: Request, size: int, digest: str | None) -> tuple[int, int] | None:
    """First byte and end of what is asked for; (0, size) is all of it. None: there is no such part."""
    found = _RANGE.match(request.headers.get("range", ""))
    known = request.headers.get("if-range")
    if found is None or found[1] == found[2] == "" or (known is not None and known != f'"{digest}"'):
        return 0, size  # several ranges at once are not given in parts
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    return (start, end) if start < end else None


class _File(Response):
    """Owns `fd`."""

    def __init__(self, fd: int, size: int, span: tuple[int, int], digest: str | None) -> None:
        self._fd, (self._start, self._end) = fd, span
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(self._end - self._start),
            "content-type": "application/octet-stream",
        }
        if span != (0, size):
            headers["content-range"] = f"bytes {self._start}-{self._end - 1}/{size}"
        if digest is not None:
            headers |= {"etag": f'"{digest}"', "x-sha256": digest}
        super().__init__(None, 200 if span == (0, size) else 206, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_there(receive, self._send(send, scope["method"] == "HEAD"))
        finally:
            os.close(self._fd)

    async def _send(self, send: Send, head: bool) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        at = self._end if head else self._start
        while at < self._end:
            data = await run_in_threadpool(read_range, self._fd, at, min(at + CHUNK, self._end))
            if not data:
                return  # it was cut off: the client sees that too little came
            at += len(data)
            async with asyncio.timeout(STALL_S):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
