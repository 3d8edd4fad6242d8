"""Events of a job over HTTP: the list with its cursor, and the stream (WIRE 3.5, 3.6, 3.8)."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rltui.backend import Backend
from rltui.server import feed as feed_module
from rltui.server.reading import reading
from tests.server_reads.serving import Runs, Server, job_of, jobs
from tests.waiting import until
from trainer.rundir import RunReader, RunWriter


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [{**event, "job_id": job_of(folder)} for event in RunReader(folder).events()]


class Live:
    """A run that goes on as a test tells it to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = RunWriter(folder, job_id="rl_0", label="live")
        self.writer.event("rl.job.created", "Job created", step=0)
        self.writer.status(state="running", phase="training")

    def say(self, count: int = 1, text: str = "") -> None:
        for _ in range(count):
            self.writer.event("rl.train.step", "a step", step=1, text=text)

    def end(self) -> None:
        self.writer.event("rl.job.completed", "Job completed", step=1)
        self.writer.status(state="succeeded", phase="done", end_reason="completed")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    run = Live(tmp_path / "live")
    yield run
    run.writer.close()


def blocks(lines: Iterator[str], *, comments: bool = False) -> Iterator[dict[str, str]]:
    """Blocks as an old parser sees them: fields of one line each; a comment is none, or a block of its own."""
    block: dict[str, str] = {}
    for line in lines:
        assert "\r" not in line
        if line.startswith(":"):
            if comments:
                yield {"comment": line}
        elif line:
            name, _, value = line.partition(": ")
            assert name in ("id", "event", "data") and name not in block
            block[name] = value
        elif block:
            yield block
            block = {}


@pytest.mark.parametrize("kind", ["healthy", "resumed", "failed"])
def test_a_stream_of_a_run_that_has_ended_is_its_events_and_an_end(server: Server, runs: Runs, kind: str) -> None:
    folder = runs(kind)
    expected = recorded(folder)
    with server.http.stream("GET", jobs(server, folder, "events/stream")) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache" and answer.headers["x-accel-buffering"] == "no"
        found = list(blocks(answer.iter_lines()))
    assert [json.loads(block["data"]) for block in found] == expected
    for block, event in zip(found, expected, strict=True):
        assert block["id"] == str(event["seq"]) and block["event"] == event["type"]


def test_a_stream_goes_on_from_a_seq(server: Server, runs: Runs) -> None:
    folder = runs("healthy")
    last = RunReader(folder).last_seq()
    url = jobs(server, folder, "events/stream", "/learning/jobs")
    for params, headers in (({"since_seq": last - 3}, {}), ({}, {"Last-Event-ID": str(last - 3)})):
        with server.http.stream("GET", url, params=params, headers=headers) as answer:
            assert [int(block["id"]) for block in blocks(answer.iter_lines())] == [last - 2, last - 1, last]
    with server.http.stream("GET", url, params={"since_seq": last}) as answer:
        found = list(blocks(answer.iter_lines()))
    assert [block["event"] for block in found] == ["rl.heartbeat"] and "id" not in found[0]
    assert json.loads(found[0]["data"])["seq"] == last
    assert server.http.get(url, headers={"Last-Event-ID": "x"}).status_code == 400
    assert server.http.head(url).headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("params", [{}, {"types": "rl.train.step"}, {"level": "error"}, {"heartbeat": 0}])
def test_who_asks_behind_the_end_is_told_where_that_is(server: Server, live: Live, params: dict[str, Any]) -> None:
    live.say(3)
    url = jobs(server, live.folder, "events")
    page = server.http.get(url, params={"since_seq": 99_999_999, **params}).json()
    assert (page["next_seq"], page["has_more"]) == (4, False)
    assert all(event["type"] == "rl.heartbeat" for event in page["events"])
    live.say()
    page = server.http.get(url, params={"since_seq": page["next_seq"]}).json()
    assert [event["seq"] for event in page["events"]] == [5] and page["next_seq"] == 5


def test_a_stream_from_behind_the_end_has_what_comes(server: Server, live: Live) -> None:
    headers = {"Last-Event-ID": "99999999"}
    with server.http.stream("GET", jobs(server, live.folder, "events/stream"), headers=headers) as answer:
        found = blocks(answer.iter_lines())
        assert json.loads(next(found)["data"])["seq"] == 1
        live.say()
        assert next(found)["id"] == "2"


def test_a_live_stream_has_every_event_once_and_ends_with_the_run(server: Server, live: Live) -> None:
    """Whoever comes first, in the middle, or with what another one saw last: all have the same."""
    url, found = jobs(server, live.folder, "events/stream"), {}
    live.say(5)
    with server.http.stream("GET", url) as first:
        one = blocks(first.iter_lines())
        found["first"] = [next(one) for _ in range(6)]
        live.say(3)
        found["first"] += [next(one) for _ in range(3)]
        with server.http.stream("GET", url, params={"since_seq": 9}) as second:
            two = blocks(second.iter_lines())
            assert next(two)["event"] == "rl.heartbeat"
            live.say(700)
            live.writer.event("rl.job.completed", "Job completed", step=1)
            found["second"] = [next(two) for _ in range(701)]
            live.writer.status(state="succeeded", phase="done", end_reason="completed")
            found["first"] += list(one)
            assert list(two) == []
    assert [int(block["id"]) for block in found["first"]] == list(range(1, 711))
    assert found["second"] == found["first"][9:]


def test_a_stream_of_a_silent_run_gives_signs_of_life(
    server: Server, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "KEEP_ALIVE_S", 0.05)
    with server.http.stream("GET", jobs(server, live.folder, "events/stream"), params={"since_seq": 1}) as answer:
        found = blocks(answer.iter_lines(), comments=True)
        assert next(found)["event"] == "rl.heartbeat"
        assert next(found) == next(found) == {"comment": ": keep-alive"}


def test_the_client_goes_on_after_the_server_went(server: Server, live: Live) -> None:
    live.say(4)
    with Backend(server.url) as backend:
        found = backend.events(f"/rl/jobs/{job_of(live.folder)}/events/stream", since=2)
        seqs = [next(found)["seq"], next(found)["seq"]]
        for run in reading(server.app)._runs.values():  # as at the end of a server
            for feed in run.feeds.values():
                server.soon(feed.close)
        live.say(2)
        seqs += [next(found)["seq"] for _ in range(3)]
    assert seqs == [3, 4, 5, 6, 7]


def test_who_does_not_read_is_cut_off_and_can_come_again(server: Server, live: Live) -> None:
    url = httpx.URL(jobs(server, live.folder, "events/stream"))
    with socket.create_connection((url.host, url.port)) as slow:
        slow.sendall(f"GET {url.raw_path.decode()} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = slow.recv(200)
        run = next(run for run in reading(server.app)._runs.values() if run.folder == live.folder)
        until(lambda: run.feeds["events"].watched)
        for _ in range(40):
            live.say(200, "x" * 10_000)
            time.sleep(0.05)
            if not run.feeds["events"].watched:
                break
        until(lambda: not run.feeds["events"].watched)
        data = head + b"".join(iter(lambda: slow.recv(1 << 16), b""))
    seen = [int(line[4:]) for line in data.split(b"\n") if line.startswith(b"id: ")]
    assert seen == list(range(1, len(seen) + 1)) and len(seen) < live.writer.last_seq
    live.end()
    while seen[-1] < live.writer.last_seq:  # on a busy machine this client may be slow, too
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            server.http.stream("GET", url, headers={"Last-Event-ID": str(seen[-1])}) as answer,
        ):
            for block in blocks(answer.iter_lines()):
                seen.append(int(block["id"]))
    assert seen == list(range(1, live.writer.last_seq + 1))


def test_the_list_pages_by_seq(server: Server, runs: Runs) -> None:
    folder = runs("healthy")
    expected = recorded(folder)
    url, found, since, more = jobs(server, folder, "events"), [], 0, True
    while more:
        page = server.http.get(url, params={"since_seq": since, "limit": 7, "_t": "1"}).json()
        found, since, more = found + page["events"], page["next_seq"], page["has_more"]
        assert len(page["events"]) <= 7
    assert found == expected and all(event["event_type"] == event["type"] for event in found)
    assert server.http.get(url, params={"since_seq": since}).json() == {
        "events": [],
        "next_seq": since,
        "has_more": False,
    }


def test_the_list_by_type_and_level(server: Server, runs: Runs) -> None:
    folder = runs("failed")
    expected, url = recorded(folder), jobs(server, folder, "events", "/jobs")
    for query, fits in (
        ({"types": "rl.train.step"}, lambda event: event["type"] == "rl.train.step"),
        ({"types": "rl.job.*,rl.phase"}, lambda event: event["type"].startswith(("rl.job.", "rl.phase"))),
        ({"level": "warning"}, lambda event: event["level"] != "info"),
    ):
        found = server.http.get(url, params={**query, "limit": 5_000}).json()["events"]
        seqs = [event["seq"] for event in expected if fits(event)]
        assert [event["seq"] for event in found] == seqs and 0 < len(seqs) < len(expected), query


def test_an_old_client_of_a_silent_run_sees_it_live(server: Server, live: Live) -> None:
    url = jobs(server, live.folder, "events", "/learning/jobs")
    page = server.http.get(url, params={"since_seq": 1}).json()
    assert [event["type"] for event in page["events"]] == ["rl.heartbeat"] and page["events"][0]["seq"] == 1
    assert page["next_seq"] == 1
    assert server.http.get(url, params={"since_seq": 1, "heartbeat": 0}).json()["events"] == []
    live.end()
    assert server.http.get(url, params={"since_seq": 2}).json()["events"] == []
    with server.http.stream("GET", url, headers={"Accept": "text/event-stream"}) as answer:
        assert [block["id"] for block in blocks(answer.iter_lines())] == ["1", "2"]


@pytest.mark.parametrize("query", ["since_seq=-1", "since_seq=x", "limit=0", "level=loud", "types=" + "a" * 400])
def test_what_makes_no_sense_is_refused(server: Server, live: Live, query: str) -> None:
    answer = server.http.get(jobs(server, live.folder, "events") + "?" + query)
    body = answer.json()
    assert answer.status_code == 400 and body["error"]["code"] == "malformed"
    assert body["detail"] == body["error"]["message"] and query.partition("=")[0] in body["detail"]
