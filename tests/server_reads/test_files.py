"""Files of checkpoints over HTTP: whole, from a byte on, and nothing else of the machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import threading
from pathlib import Path

import httpx
import pytest

from rltui.backend import Backend
from rltui.server import files
from tests.server_reads.serving import Runs, Server, job_of, jobs
from tests.waiting import free_port, until
from trainer.rundir import RunReader
from trainer.rundir.checkpoints import begin_checkpoint, finish_checkpoint


@pytest.fixture
def folder(runs: Runs, tmp_path: Path) -> Path:
    return shutil.copytree(runs("healthy"), tmp_path / "run")


@pytest.fixture
def name(folder: Path) -> str:
    """The largest file of the newest checkpoint."""
    checkpoint = RunReader(folder).checkpoints()[-1]
    largest = max(checkpoint.manifest["files"], key=lambda file: file["bytes"])
    return f"checkpoints/{checkpoint.path.name}/{largest['path']}"


def test_a_file_whole_and_in_parts(server: Server, folder: Path, name: str) -> None:
    url, data = jobs(server, folder, f"artifacts/{name}"), (folder / name).read_bytes()
    answer = server.http.get(url)
    assert answer.content == data and answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == f'"{hashlib.sha256(data).hexdigest()}"'
    size = len(data)
    for asked, start, end in ((f"{size // 2}-", size // 2, size), ("0-9", 0, 10), ("-7", size - 7, size)):
        part = server.http.get(url, headers={"Range": f"bytes={asked}"})
        assert part.status_code == 206 and part.content == data[start:end]
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    for asked in ("0-1,4-5", "x", "-"):
        assert server.http.get(url, headers={"Range": f"bytes={asked}"}).content == data
    changed = server.http.get(url, headers={"Range": "bytes=5-", "If-Range": '"another"'})
    assert changed.status_code == 200 and changed.content == data
    beyond = server.http.get(url, headers={"Range": f"bytes={size}-"})
    assert beyond.status_code == 416 and beyond.headers["content-range"] == f"bytes */{size}"
    head = server.http.head(url)
    assert head.headers["content-length"] == str(size) and head.content == b""


def test_a_download_that_broke_off_goes_on(server: Server, folder: Path, name: str, tmp_path: Path) -> None:
    data = (folder / name).read_bytes()
    out = tmp_path / "out.bin"
    (tmp_path / "out.bin.part").write_bytes(data[: len(data) // 3])
    with Backend(server.url) as backend:
        path = f"/rl/jobs/{job_of(folder)}/artifacts/{name}"
        backend.download(path, out, sha256=hashlib.sha256(data).hexdigest())
    assert out.read_bytes() == data


def big_checkpoint(folder: Path, size: int) -> str:
    """A finished checkpoint with one file of `size` bytes, no two MB of it alike; gives the file's name."""
    aside = begin_checkpoint(folder / "checkpoints", 900)
    with (aside / "model.safetensors").open("wb") as file:
        for i in range(size >> 20):
            file.write(i.to_bytes(8, "little") * (1 << 17))
    about = {"job_id": "rl_0", "step": 900, "iteration": 450, "attempt": 1, "trainer_mode": "full", "world_size": 1}
    finish_checkpoint(aside, folder / "checkpoints" / "step_900", {**about, "base_model": {}, "reward": {}})
    return "checkpoints/step_900/model.safetensors"


@pytest.mark.parametrize("size", [96 << 20, pytest.param(1 << 30, marks=pytest.mark.slow)])
def test_a_large_file_over_a_server_that_goes_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.bin"
    name = big_checkpoint(folder, size)
    part = tmp_path / "out.bin.part"
    half, go_on, read = threading.Event(), threading.Event(), files.read_range

    def read_to_the_half(fd: int, start: int, end: int) -> bytes:
        if start >= size // 2 and not half.is_set():
            half.set()
            go_on.wait(60)
        return read(fd, start, end)

    monkeypatch.setattr(files, "read_range", read_to_the_half)
    server = Server(free_port())
    with Backend(server.url) as backend:
        path = f"/rl/jobs/{job_of(folder)}/artifacts/{name}"
        fetching = threading.Thread(target=lambda: backend.download(path, out))
        fetching.start()
        assert half.wait(60)
        until(lambda: part.exists() and part.stat().st_size > size // 8)
        server.cut()
        go_on.set()
        server.close()
        had = part.stat().st_size
        server = Server(server.port)
        fetching.join(60)
        assert not fetching.is_alive()
    server.close()
    with out.open("rb") as file, (folder / name).open("rb") as original:
        assert hashlib.file_digest(file, "sha256").digest() == hashlib.file_digest(original, "sha256").digest()
    assert size // 8 < had < size  # it was in the middle


def test_a_client_that_leaves_in_the_middle_costs_nothing(server: Server, folder: Path) -> None:
    name = big_checkpoint(folder, 30 << 20)
    server.http.head(jobs(server, folder, f"artifacts/{name}"))  # its connection stays open
    before = len(os.listdir("/proc/self/fd"))
    url = httpx.URL(jobs(server, folder, f"artifacts/{name}"))
    with socket.create_connection((url.host, url.port)) as leaving:
        leaving.sendall(f"GET {url.raw_path.decode()} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert leaving.recv(1 << 16)
    whole = server.http.get(url)
    assert len(whole.content) == 30 << 20
    until(lambda: len(os.listdir("/proc/self/fd")) <= before + 1)  # the server may hear of it later than of the other


def test_nothing_else_leaves(server: Server, folder: Path, name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    step = name.rpartition("/")[0]
    os.replace(folder / name, folder / "kept")
    (folder / name).symlink_to(tmp_path / "secret")
    (folder / step / "unlisted").write_text("x")
    for path in (
        name,
        f"{step}/unlisted",
        f"{step}/../../status.json",
        f"{step}/%2e%2e/%2e%2e/status.json",
        "status.json",
        "config.toml",
        "checkpoints/step_900/x",
        f"{step}/%00",
        "../secret",
        "%2Fetc%2Fpasswd",
    ):
        answer = server.http.get(jobs(server, folder, f"artifacts/{path}"))
        assert answer.status_code == 404 and "secret" not in answer.text, path
    (folder / step / "STABLE").unlink()  # half removed: it is no checkpoint any more
    os.unlink(folder / name)
    os.replace(folder / "kept", folder / name)
    assert server.http.get(jobs(server, folder, f"artifacts/{name}")).status_code == 404


def test_a_manifest_does_not_lead_out_of_the_run(server: Server, folder: Path, name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    step = folder / name.rpartition("/")[0]
    manifest = json.loads((step / "manifest.json").read_bytes())
    manifest["files"] += [{"path": path, "bytes": 6} for path in ("../../../secret", str(tmp_path / "secret"), 3)]
    data = json.dumps(manifest).encode()
    (step / "manifest.json").write_bytes(data)
    (step / "STABLE").write_text(hashlib.sha256(data).hexdigest() + "\n")
    for path in ("%2e%2e/%2e%2e/%2e%2e/secret", str(tmp_path / "secret").replace("/", "%2F")):
        answer = server.http.get(jobs(server, folder, f"artifacts/checkpoints/{step.name}/{path}"))
        assert answer.status_code == 404
    assert server.http.get(jobs(server, folder, f"artifacts/{name}")).status_code == 200
