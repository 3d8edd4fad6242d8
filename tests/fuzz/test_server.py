"""Requests to the job server through its real ASGI app: bodies, paths, queries and headers."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from rltui.server.app import job_server
from rltui.server.auth import Access
from rltui.server.jobs import Jobs
from rltui.server.slots import Places
from rltui.server.submit import House
from tests.fuzz.effort import examples, within
from tests.fuzz.mutate import mutated, to_json, torn, values
from tests.server.conftest import CONFIG, body
from trainer.config.json_schema import json_schema
from trainer.config.sources import LOADER_KEYS
from trainer.rundir.synth import SynthConfig, write_run

RUN = f"rl_{1:016x}"
PREFIXES = ("/rl/jobs", "/learning/jobs", "/orchestration/jobs", "/jobs")
OLD = {
    "data": {
        "model": "builtin:tiny",
        "endpoint_base_url": "builtin:facts",
        "config": CONFIG,
        "trainer": {"batch_size": 8},
    }
}
FLAT = {"model": "builtin:tiny", "endpoint_base_url": "builtin:facts", "trainer_id": "t", "config": CONFIG}
READ = [
    {"read": "index", "args": {"n0": 0, "n1": 5, "fields": ["R", "stop"]}},
    {"read": "events", "args": {"cursor": 3, "limit": 5}},
    {"read": "log", "args": {"name": "coordinator.log", "tail": True}},
    {"read": "tokens", "args": {"ref": [0, 0, 100]}},
    {"read": "metrics", "args": {}},
    {"read": "dropped", "args": {"cursor": None}},
]  # fmt: skip


class Client(TestClient):
    """With the jobs of the server that it asks."""

    jobs: Jobs


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server with one run that has ended and no place for another: what is accepted waits for ever."""
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        write_run(runs / f"run-{RUN}", SynthConfig(episodes=16, seed=1, judge=True))
        jobs = Jobs(House(runs, False, {}), Places((), 0))
        app = job_server(jobs, Access())
        with Client(app, "http://127.0.0.1/api", raise_server_exceptions=False) as found:
            assert found.get(f"/rl/jobs/{RUN}").status_code == 200
            found.jobs = jobs
            yield found


@pytest.fixture(scope="module")
def schema() -> Any:
    return jsonschema.Draft202012Validator(json_schema())


def check(answer: Any) -> None:
    """What was asked for, or WIRE 3.1's error: never a fault of ours."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        error = answer.json()
        assert list(error) == ["detail", "error"] and error["detail"] == error["error"]["message"] and error["detail"]
        assert error["error"]["code"] and "Traceback" not in answer.text


bodies = st.one_of(
    st.sampled_from([body(), body(metadata={"a": 1}, compute={"gpu_count": 0}), OLD, FLAT])
    .flatmap(mutated)
    .map(to_json),
    torn(to_json(body())),
)
heads = st.dictionaries(
    st.sampled_from(["Idempotency-Key", "X-User-ID", "X-Environment-API-Key", "Content-Type", "Content-Length"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=9) | st.just("x" * 300),
    max_size=2,
)


@examples(40)
@given(raw=bodies, headers=heads)
def test_a_body_becomes_a_valid_job_or_a_refusal(client: Client, schema: Any, raw: bytes, headers: Any) -> None:
    headers.pop("Content-Length", None)
    with within(60):
        answer = client.post("/rl/jobs", content=raw, headers=headers)
        check(answer)
        assert answer.status_code in (200, 201, 400, 409, 413, 422), answer.text
        if answer.status_code == 201:
            made = answer.json()
            folder = client.jobs.folder(made["job_id"])
            written = tomllib.loads((folder / "config.toml").read_text())
            assert not set(LOADER_KEYS) & written.keys()
            wrong = list(schema.iter_errors(written))
            assert not wrong, wrong[:3]
            check(client.post(f"/rl/jobs/{made['job_id']}/cancel", json={}))


words = st.one_of(
    st.sampled_from(
        ["1", "0", "-1", "9" * 30, "NaN", "1e999", "x", "", "train", "original", "24h", "9" * 9 + "w", "true"]
    ),
    st.text(max_size=8),
)
queries = st.dictionaries(
    st.sampled_from(
        "limit after since_seq after_step after_attempt name types level status model type tag created_after "
        "created_before view iteration step attempt group split code min_reward max_reward tokens tail offset source "
        "run_id aliases open heartbeat _t include_metadata".split()
    ),
    words,
    max_size=3,
)
PATHS = (
    "", "status", "runs", "timeline", "artifacts", "checkpoints", "events", "events/stream", "metrics", "rollouts",
    "rollouts/0", "judge", "logs", "config", "start", "cancel", "control", "resume", "read",
    "artifacts/checkpoints/step_2/manifest.json", "artifacts/../config.toml", "artifacts/%2e%2e/%2e%2e/etc/passwd",
)  # fmt: skip
OF_SERVER = (
    "/health",
    "/version",
    "/system",
    "/models",
    "/artifacts",
    "/learning/models/rl/x",
    "/rl/services/t",
    "/rl/jobs",
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)) == 0:
        path = draw(st.sampled_from(OF_SERVER))
    else:
        job = draw(st.sampled_from([RUN] * 6 + ["rl_none", "..", "%2e%2e", "%00", "é"]))
        path = f"{draw(st.sampled_from(PREFIXES))}/{job}/{draw(st.sampled_from(PATHS))}".rstrip("/")
    if draw(st.integers(0, 5)) == 0:
        path = quote(draw(torn(path.encode(), 1)).decode("latin-1"), safe="/%.")
    return path


@examples(70)
@given(path=paths(), query=queries, headers=heads, last=st.none() | words)
def test_any_path_and_query_is_answered_or_refused(
    client: Client, path: str, query: dict[str, str], headers: Any, last: str | None
) -> None:
    if last is not None and last.isascii() and last.isprintable():
        headers = {**headers, "Last-Event-ID": last}
    with within(60):
        check(client.get(path, params=query, headers=headers))


ASKED = {
    "cancel": [{"mode": "graceful", "client": "c"}],
    "control": [{"action": "set", "args": {"rollout.max_concurrent_rollouts": 4}}, {"action": "pause", "args": {}}],
    "resume": [{"from": 2, "overrides": {"training": {"num_epochs": 2}, "logging.log_level": "debug"}}],
    "start": [{}],
    "read": READ,
}


@st.composite
def steered(draw: st.DrawFn) -> tuple[str, bytes]:
    verb = draw(st.sampled_from(sorted(ASKED)))
    sent = draw(st.sampled_from(ASKED[verb]))
    return verb, to_json(draw(mutated(sent, 2) | values | st.just(sent)))


@examples(50)
@given(asked=steered())
def test_steering_and_reading_of_a_run_is_done_or_refused(client: Client, asked: tuple[str, bytes]) -> None:
    verb, raw = asked
    with within(60):
        check(client.post(f"/rl/jobs/{RUN}/{verb}", content=raw))
        assert client.get(f"/rl/jobs/{RUN}").json()["status"] == "succeeded"


@examples(15)
@given(
    raw=mutated({"endpoint_base_url": "http://127.0.0.1:9"}, 2, ["http://[", "ftp://x", "http://127.0.0.1:99999"]).map(
        to_json
    )
)
def test_an_address_to_verify_is_tried_or_refused(client: Client, raw: bytes) -> None:
    with within(60):
        check(client.post("/rl/verify_task_app", content=raw))
