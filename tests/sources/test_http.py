"""What a run over HTTP does when the connection does not: it says so, and goes on where it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rltui.backend import Backend
from rltui.sources.base import Unreadable
from rltui.sources.http import HttpRunSource
from rltui.sources.local import LocalRunSource
from tests.server_reads.serving import Server, job_of, serving
from tests.sources.test_run_source import N, drained
from tests.waiting import free_port
from trainer.rundir.synth import play, write_run
from trainer.rundir.synth_data import SynthConfig


def test_every_read_gives_the_rows_of_the_folder(backend: Backend, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", SynthConfig(episodes=96, kind="resumed", judge=True, turns=2))
    ours, there = LocalRunSource(folder), HttpRunSource(backend, job_of(folder))
    for stream in ("events", "metrics", "groups", "dropped", "update_lines", "judge", "uses"):
        part, other = getattr(ours, stream)(), getattr(there, stream)()
        assert [list(row) if stream == "dropped" else row for row in part.rows] == other.rows, stream
        assert (part.more, part.rewind) == (other.more, other.rewind), stream
    row = ours.index(0, 96)[-1]
    n = row["n"]
    episode = ours.episode(n)
    assert episode is not None
    calls: list[tuple[str, tuple[Any, ...]]] = [
        *(("document", (name,)) for name in ("resolved.json", "environment.json")),
        *((name, ()) for name in ("status", "checkpoints", "logs", "episode_count", "vocabulary")),
        *((name, (n,)) for name in ("episode", "updates")),
        ("said", (0, 96)),
        ("episodes", ("train", 2)),
        ("index", (3, 30, ("R", "cid"))),
        ("tokens", (episode["branches"][0]["arr"],)),
        ("answer", ("nothing",)),
    ]
    for name, args in calls:
        assert getattr(there, name)(*args) == getattr(ours, name)(*args), name
    log = ours.logs()[0]["name"]
    assert there.log(log, tail=True).lines == ours.log(log, tail=True).lines != []


def test_a_connection_that_is_lost_is_said_and_the_reading_goes_on_from_its_cursor(tmp_path: Path) -> None:
    now = [0.0]
    root = tmp_path / "run"
    known: dict[str, tuple[list[Any], Any]] = {"metrics": ([], None), "groups": ([], None), "update_lines": ([], None)}
    port = free_port()
    server = Server(port)
    with Backend(server.url, timeout_s=60.0) as backend:
        source = HttpRunSource(backend, job_of(root), clock=lambda: now[0])
        for iteration in play(root, SynthConfig(episodes=N, kind="resumed")):
            if iteration == 3:  # away for two iterations
                server.close()
                now[0] = 40.0
                for read in (source.status, source.metrics, source.episode_count):
                    with pytest.raises(Unreadable, match="no answer from http://127"):
                        read()
                assert source.age() == 40.0
                with pytest.raises(OSError, match="no answer"):
                    source.request("stop")
            elif iteration == 5 and source.age():
                server = Server(port)
            if iteration not in (3, 4) or not source.age():
                source.status()
                for stream, (rows, cursor) in known.items():
                    known[stream] = drained(source, stream, cursor, rows)
        assert source.age() == 0.0
        for stream, (rows, cursor) in known.items():
            rows, _ = drained(source, stream, cursor, rows)
            assert rows == drained(LocalRunSource(root), stream)[0], stream
    server.close()


def test_a_job_that_is_not_there_and_a_server_that_is_none(backend: Backend) -> None:
    with pytest.raises(Unreadable, match="no job 'nobody'"):
        HttpRunSource(backend, "nobody").status()
    with pytest.raises(Unreadable):
        HttpRunSource(backend, "../../health").status()


def test_more_rows_than_one_request_may_ask_for(
    server: Server, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rltui.sources import http

    monkeypatch.setattr(http, "MAX_ROWS", 7)
    folder = write_run(tmp_path / "run", SynthConfig(episodes=64))
    source = HttpRunSource(backend, job_of(folder))
    assert source.index(0, 64) == LocalRunSource(folder).index(0, 64) and source.said(2, 40) == LocalRunSource(
        folder
    ).said(2, 40)
    assert math.isfinite(source.age())


def test_a_request_that_is_refused_says_why(tmp_path: Path) -> None:
    with serving() as server, Backend(server.url) as backend:
        with pytest.raises(OSError) as caught:  # this server has no routes that steer
            HttpRunSource(backend, job_of(tmp_path)).request("stop")
        assert caught.value.strerror
