"""The network between client and server is cut for a while: afterwards each has everything, and nothing twice."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import rltui.backend
from rltui.backend import Backend
from rltui.sources.base import TERMINAL, Unreadable
from rltui.sources.http import HttpRunSource
from rltui.sources.local import LocalRunSource
from tests.cli.conftest import CONFIG
from tests.server.conftest import environment
from tests.server_faults.conftest import Follower, Serve, finish, folder_of
from tests.server_faults.proxy import Proxy
from tests.server_reads.serving import Server as Reads
from tests.server_reads.serving import job_of
from tests.server_reads.test_files import big_checkpoint
from tests.sources.test_run_source import drained
from tests.waiting import until

pytestmark = pytest.mark.slow

STREAMS = ("metrics", "events", "update_lines", "groups")


class Reader(threading.Thread):
    """Reads a run as a screen does, each stream from its cursor and episodes by number, until it has ended."""

    def __init__(self, url: str, job_id: str) -> None:
        super().__init__(daemon=True)
        self.known: dict[str, tuple[list[Any], Any]] = {stream: ([], None) for stream in STREAMS}
        self.episodes: list[dict[str, Any]] = []
        self.lost = 0  # looks that got no answer
        self._url, self._job_id = url, job_id
        self.start()

    def run(self) -> None:
        with Backend(self._url, timeout_s=2.0) as backend:
            source, ended = HttpRunSource(backend, self._job_id), False
            while not ended:
                try:
                    over = (source.status() or {}).get("state") in TERMINAL
                    self._look(source)
                    ended = over
                except Unreadable:
                    self.lost += 1
                time.sleep(0.05)

    def _look(self, source: HttpRunSource) -> None:
        for stream, (rows, cursor) in self.known.items():
            self.known[stream] = drained(source, stream, cursor, rows)
        self.episodes += source.index(len(self.episodes), source.episode_count())


class Train(threading.Thread):
    """`rltui train` of a job elsewhere, and what it prints."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(daemon=True)
        (folder / "my.toml").write_text(CONFIG.replace("http://127.0.0.1:9", "builtin:facts"))
        command = [sys.executable, "-m", "rltui", "train", "my.toml", "--backend", url, "--poll-interval", "0.1"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, cwd=folder, env=environment(folder), text=True, **pipes)
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def steps(self) -> list[int]:
        return [int(line.split()[1].partition("/")[0]) for line in self.lines if line.startswith("step ")]


@pytest.mark.parametrize("seconds", [5.0, 60.0])
def test_followers_of_every_kind_have_all_after_cuts(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(rltui.backend, "SILENCE_S", seconds / 2)
    server = serve()
    with Proxy(server.port) as proxy:
        train = Train(tmp_path, proxy.url)
        try:
            (job,) = until(lambda: server.get("/rl/jobs")["jobs"])
            follower, reader = Follower(proxy.url, job["job_id"]), Reader(proxy.url, job["job_id"])

            def had() -> tuple[int, int, int]:
                return len(follower.events), len(reader.episodes), len(train.steps)

            def all_go_on() -> None:
                before = had()
                until(lambda: all(now > then + 3 for now, then in zip(had(), before, strict=True)))

            def settled() -> tuple[int, int, int] | None:
                """What they have, once nothing is on its way to them any more."""
                before = had()
                time.sleep(3.0)
                return before if had() == before else None

            all_go_on()
            for silent in (True, False):
                proxy.cut(silent=silent)
                stood = until(settled)
                time.sleep(seconds if silent else seconds / 2)
                assert had() == stood
                proxy.mend()
                all_go_on()
            finish(server)
            follower.has_all(server)
            reader.join(60)
            assert train.process.wait(60) == 0, train.lines[-5:]
            train.join(10)
        finally:
            train.process.kill()
    assert not reader.is_alive() and reader.lost >= 2
    source = LocalRunSource(folder_of(server, job["job_id"]))
    count = source.episode_count()
    assert count > seconds * 3  # it went on meanwhile
    for stream, (rows, _) in reader.known.items():
        assert rows == drained(source, stream)[0], stream
    assert [row["step"] for row in reader.known["metrics"][0]] == list(range(1, count + 1)) == train.steps
    assert reader.episodes == source.index(0, count)
    assert [row["n"] for row in reader.episodes] == list(range(count))


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("size", [24 << 20, 1 << 30])
def test_a_checkpoint_goes_on_from_where_the_cut_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, silent: bool
) -> None:
    monkeypatch.setattr(rltui.backend, "WAITS_S", (0.1,))
    folder, out = tmp_path / "run", tmp_path / "out.bin"
    name = big_checkpoint(folder, size)
    with (folder / name).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    server = Reads()
    with Proxy(server.port) as proxy, Backend(proxy.url, timeout_s=1.0) as backend:
        proxy.cut_at(size // 3, silent=silent)
        path = f"/rl/jobs/{job_of(folder)}/artifacts/{name}"
        fetching = threading.Thread(target=lambda: backend.download(path, out, sha256=digest), daemon=True)
        fetching.start()
        until(lambda: proxy.is_cut)
        time.sleep(1.5)  # longer than the client waits
        assert fetching.is_alive() and 0 < (tmp_path / "out.bin.part").stat().st_size < size // 2
        proxy.mend()
        fetching.join(120)
        assert not fetching.is_alive() and out.stat().st_size == size
        assert proxy.came < size + (12 << 20)  # it was not begun anew
    server.close()
