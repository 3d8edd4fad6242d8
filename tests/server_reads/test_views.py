"""Config, judge calls, checkpoints and logs over HTTP, and what the routes refuse."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rltui.server import read as read_module
from rltui.server.reads import PREFIXES
from rltui.sources.local import LocalRunSource
from tests.server_reads.serving import Runs, Server, job_of, jobs
from tests.server_reads.test_events import Live, blocks
from trainer.rundir import RunReader


def test_the_config_as_given_as_resolved_and_by_origin(server: Server, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[policy]\nlabel = 'x'\n")
    leaf = {"value": 8, "origin": "file", "at": "config.toml:3:1"}
    resolved = {
        "config_hash": "ab",
        "values": {"training": {"group_size": leaf, "lora": {"r": {**leaf, "value": None}}}},
    }
    (tmp_path / "resolved.json").write_text(json.dumps(resolved))
    url = jobs(server, tmp_path, "config")

    def view(name: str) -> Any:
        return server.http.get(url, params={"view": name}).json()["config"]

    assert view("original") == "[policy]\nlabel = 'x'\n"
    assert view("origin") == resolved and view("environment") is None
    assert view("resolved")["values"] == {"training": {"group_size": 8, "lora": {"r": None}}}
    assert server.http.get(url, params={"view": "secrets"}).status_code == 400


def test_judge_calls_by_byte(server: Server, runs: Runs) -> None:
    folder = runs("healthy", episodes=64, judge=True)
    url, found, after = jobs(server, folder, "judge"), [], 0
    while True:
        page = server.http.get(url, params={"after": after, "limit": 9}).json()
        if not page["calls"]:
            break
        assert len(page["calls"]) <= 9
        found, after = found + page["calls"], page["next"]
    assert found == list(RunReader(folder).judge_lines()) and len(found) > 60
    assert page["next"] == after == (folder / "judge.jsonl").stat().st_size
    assert server.http.get(jobs(server, runs("healthy"), "judge")).json()["calls"] == []


def test_checkpoints(server: Server, runs: Runs) -> None:
    folder = runs("healthy")
    page = server.http.get(jobs(server, folder, "checkpoints")).json()
    assert page["checkpoints"] == page["data"] == LocalRunSource(folder).checkpoints() != []


def test_a_log_its_end_and_what_comes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "coordinator.log"
    log.write_text("".join(f"line {i}\n" for i in range(500)))
    url = jobs(server, tmp_path, "logs")
    page = server.http.get(url, params={"source": "trainer", "tail": 3}).json()
    assert page["lines"] == ["line 497", "line 498", "line 499"]
    os.rename(log, tmp_path / "logs" / "coordinator.log.1")
    log.write_text("after\n")
    page = server.http.get(url, params={"source": "coordinator", "offset": page["next_offset"]}).json()
    assert page["lines"] == ["after"] and not page["has_more"]
    assert server.http.get(url, params={"source": "engine"}).json()["lines"] == []
    for query in ("source=../status", "source=a%2Fb", "offset=5", "tail=x"):
        assert server.http.get(f"{url}?{query}").status_code == 400, query


def test_a_log_is_followed_until_the_run_ends(server: Server, tmp_path: Path) -> None:
    live = Live(tmp_path / "live")
    log = live.folder / "logs" / "learner-0.log"
    log.write_text("one\ntwo\n")
    params = {"source": "learner-0", "follow": 1, "tail": 1}
    with server.http.stream("GET", jobs(server, live.folder, "logs"), params=params) as answer:
        found = blocks(answer.iter_lines())
        first = json.loads(next(found)["data"])
        with log.open("a") as file:
            file.write("three\nhalf")
        second = next(found)
        with log.open("a") as file:
            file.write(" done\n")
        live.end()
        rest = [json.loads(block["data"]) for block in found]
    live.writer.close()
    assert first["lines"] == ["two"] and first["type"] == "rl.log" and first["source"] == "learner-0.log"
    assert json.loads(second["data"])["lines"] == ["three"]
    assert [line for block in rest for line in block["lines"]] == ["half done"]
    params = {"source": "learner-0", "offset": second["id"]}
    assert server.http.get(jobs(server, live.folder, "logs"), params=params).json()["lines"] == ["half done"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_prefix_leads_to_the_same(server: Server, runs: Runs, prefix: str) -> None:
    folder = runs("healthy")
    for path in ("events", "metrics", "rollouts", "judge", "checkpoints", "logs", "config"):
        answer = server.http.get(jobs(server, folder, path, prefix))
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        assert answer.json() == server.http.get(jobs(server, folder, path)).json()


def test_an_unknown_job_is_said_so(server: Server) -> None:
    for path in ("events", "events/stream", "metrics", "artifacts/x"):
        answer = server.http.get(f"{server.url}/rl/jobs/nobody/{path}")
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found"
        assert "nobody" in answer.json()["detail"]


def test_what_cannot_be_read_is_said_and_read_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    for path in ("metrics", "events"):
        (tmp_path / "events.jsonl").mkdir(exist_ok=True)
        body = server.http.get(jobs(server, tmp_path, path)).json()
        assert body["error"]["code"] == "unreadable" and f"{path}.jsonl" in body["detail"], path
    (tmp_path / "events.jsonl").rmdir()
    assert server.http.get(jobs(server, tmp_path, "events"), params={"heartbeat": 0}).json()["events"] == []


def test_a_run_that_is_to_go_on_waits(server: Server, runs: Runs) -> None:
    """What the attempt before said at its end is over once a further one was asked for."""
    folder = runs("failed")
    last = RunReader(folder).last_seq()
    server.jobs.attempts[job_of(folder)] = 2
    try:
        url = jobs(server, folder, "read")
        status = server.http.post(url, json={"read": "status"}).json()["value"]
        assert (status["state"], status["attempt"], status["error"]) == ("queued", 2, None)
        page = server.http.get(jobs(server, folder, "events"), params={"since_seq": last}).json()
        assert [event["type"] for event in page["events"]] == ["rl.heartbeat"]
    finally:
        server.jobs.attempts.clear()
    assert server.http.post(url, json={"read": "status"}).json()["value"]["state"] == "failed"


def test_a_large_answer_is_compressed_for_who_takes_it(server: Server, runs: Runs) -> None:
    url, body = jobs(server, runs("healthy"), "read"), {"read": "metrics"}
    with server.http.stream("POST", url, json=body, headers={"Accept-Encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    plain = server.http.post(url, json=body, headers={"Accept-Encoding": "identity"})
    assert gzip.decompress(raw) == plain.content and len(raw) < len(plain.content) / 3


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"[]", "malformed"),
        (b"\xff", "malformed"),
        (b"[" * 60_000, "malformed"),
        (b"{" * 70_000, "too_large"),
        (b'{"read": "__class__"}', "no_such_read"),
        (b'{"read": "request", "args": {"action": "kill"}}', "no_such_read"),
        (b'{"read": "kill"}', "no_such_read"),
        (b'{"read": "metrics", "args": {"cursor": "x"}}', "invalid"),
        (b'{"read": "metrics", "args": {"cursor": [[1, 1e30], 0]}}', "invalid"),
        (b'{"read": "index", "args": {"n0": 0, "n1": 20001}}', "invalid"),
        (b'{"read": "index", "args": {"n0": -1, "n1": 5}}', "invalid"),
        (b'{"read": "document", "args": {"name": "../status.json"}}', "invalid"),
        (b'{"read": "log", "args": {"name": "a.log", "limit_bytes": 99999999}}', "invalid"),
        (b'{"read": "status", "args": {"fields": 1}}', "invalid"),
        (b'{"read": "tokens", "args": {"ref": [0, 0]}}', "invalid"),
    ],
)
def test_a_read_that_makes_no_sense_is_refused(server: Server, runs: Runs, body: bytes, code: str) -> None:
    answer = server.http.post(jobs(server, runs("healthy"), "read"), content=body)
    assert answer.json()["error"]["code"] == code, answer.text
    assert answer.status_code == {"malformed": 400, "too_large": 413}.get(code, 422)


@pytest.mark.parametrize("ref", [[0, 5, 100], [0, 0, 3], [0, 8, 1 << 40]])
def test_a_place_without_tokens_is_not_said_to_be_damage_for_sure(server: Server, runs: Runs, ref: list[int]) -> None:
    body = {"read": "tokens", "args": {"ref": ref}}
    answer = server.http.post(jobs(server, runs("healthy"), "read"), json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "unreadable")
    place = "/".join(map(str, ref))
    assert error["message"].startswith(f"at {place} there are no tokens of this run, or they are damaged: ")


@pytest.mark.parametrize("name", read_module.READS)
def test_forged_cursors_do_no_harm(server: Server, runs: Runs, name: str) -> None:
    """Whatever a client makes up: an answer, or a refusal that is one of ours."""
    url = jobs(server, runs("healthy"), "read")
    huge = (1 << 63) - 1
    more = {"index": {"n0": huge >> 12, "n1": huge >> 12}, "tokens": {"ref": [0, 5, 1 << 52]}, "log": {"name": "a.log"}}
    for cursor in (None, -5, huge, [0, huge], [1, -1], [[1, huge], -3], [[huge, 7], huge], [3, huge]):
        args = {**more.get(name, {}), **({} if cursor is None else {"cursor": cursor})}
        answer = server.http.post(url, json={"read": name, "args": args})
        assert answer.status_code in (200, 409, 422), (cursor, answer.text)
