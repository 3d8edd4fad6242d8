import asyncio
import json
import shutil
import ssl
import subprocess

import pytest

from trainer.taskapp.bodies import MAX_BODY_BYTES
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import HealthCheckFailed, RolloutFailure, TaskAppError, TaskAppRejected

from .conftest import KEY, http, raw_server, request_body

GOOD = json.dumps({"trace_correlation_id": "cid-1", "metrics": {"outcome_reward": 0.5}})
UNAUTHORISED = json.dumps({"detail": {"error": {"code": "unauthorised"}}})


def client(url, **options):
    return TaskAppClient(url, **({"api_key": KEY, "timeout_s": 10.0, "max_connections": 4} | options))


async def rollout(*answers, **options):
    """The result of one rollout with a server that gives these answers in turn; and the requests it saw."""
    seen = []

    def reply(request, n):
        seen.append(request)
        return answers[min(n, len(answers) - 1)]

    async with raw_server(reply) as url, client(url, **options) as app:
        try:
            return await app.rollout(request_body()), seen, app
        except (RolloutFailure, TaskAppRejected) as error:
            return error, seen, app


async def test_a_good_answer_and_the_three_headers():
    result, seen, _ = await rollout(http(200, GOOD), aliases=("second-alias-key",))
    assert (result.outcome, result.status, result.body_bytes) == (0.5, 200, len(GOOD))
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /rollout http/1.1"
    assert f"x-api-key: {KEY}" in lines
    assert f"x-api-keys: {KEY},second-alias-key" in lines
    assert f"authorization: bearer {KEY}" in lines
    assert json.loads(body) == request_body()


async def test_without_a_key_no_header_is_sent_and_it_is_said():
    _, seen, app = await rollout(http(200, GOOD), api_key=None)
    head = seen[0].partition(b"\r\n\r\n")[0].lower()
    assert b"x-api-key" not in head and b"authorization" not in head
    assert any("ENVIRONMENT_API_KEY is not set" in note for note in app.notes)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_retryable_statuses(status):
    error, seen, _ = await rollout(http(status, "boom " * 1000, "retry-after: 7"))
    assert error.code == "http_error" and error.retryable and error.retry_after == 7
    assert error.detail["status"] == status and error.evidence == ("boom " * 1000)[:2000]
    assert len(seen) == 1  # the loop over tries is the dispatcher's


@pytest.mark.parametrize(("status", "code"), [(400, "http_rejected"), (501, "http_error")])
async def test_statuses_that_are_not_tried_again(status, code):
    error, _, _ = await rollout(http(status, "no"))
    assert error.code == code and not error.retryable


@pytest.mark.parametrize(
    ("status", "body", "reason", "words"),
    [
        (400, UNAUTHORISED, "auth", "the app rejected ENVIRONMENT_API_KEY"),
        (401, "", "auth", "the app rejected ENVIRONMENT_API_KEY"),
        (403, "", "auth", "the app rejected ENVIRONMENT_API_KEY"),
        (404, "", "route", "POST /rollout answered 404"),
        (405, "", "route", "POST /rollout answered 405"),
        (
            422,
            json.dumps({"detail": [{"loc": ["body", "env", "seed"], "msg": "too large", "type": "x"}]}),
            "request",
            "body.env.seed: too large",
        ),
    ],
)
async def test_what_stops_the_job(status, body, reason, words):
    error, seen, _ = await rollout(http(status, body))
    assert isinstance(error, TaskAppRejected) and error.reason == reason and error.status == status
    assert words in error.message and error.hint and len(seen) == 1


def forbidding(*paths):
    detail = [{"type": "extra_forbidden", "loc": ["body", *p], "msg": "Extra inputs…"} for p in paths]
    return http(422, json.dumps({"detail": detail}))


async def test_extra_fields_are_dropped_once_remembered_and_said():
    bodies = []

    def reply(request, n):
        bodies.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        return forbidding(["mode"], ["policy", "output_mode"]) if n == 0 else http(200, GOOD)

    async with raw_server(reply) as url, client(url) as app:
        assert (await app.rollout(request_body())).outcome == 0.5
        await app.rollout(request_body())
    assert "mode" in bodies[0]
    for body in bodies[1:]:
        assert "mode" not in body and "output_mode" not in body["policy"] and "record" in body
    assert len(bodies) == 3
    assert [n for n in app.notes if "mode, policy.output_mode" in n]


async def test_episodes_at_once_learn_what_to_drop_and_say_it_once():
    def reply(request, n):
        return forbidding(["mode"]) if b'"mode"' in request else http(200, GOOD)

    async with raw_server(reply) as url, client(url) as app:
        results = await asyncio.gather(*(app.rollout(request_body()) for _ in range(4)))
    assert [r.outcome for r in results] == [0.5] * 4 and len(app.notes) == 1


async def test_an_app_that_forbids_ever_more_fields_stops_the_job():
    error, seen, _ = await rollout(forbidding(["mode"]), forbidding(["record"]))
    assert isinstance(error, TaskAppRejected) and len(seen) == 2


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (b"", 0),
        (b"<html>", 0),
        (GOOD.encode()[:-2], len(GOOD) - 2),
        ('{"é": nope}'.encode(), 7),
        (b'{"a": "\xff"}', 7),
        (b"[" * 200_000, 0),
        (b"9" * 5000, 0),
    ],
)
async def test_bodies_that_are_not_json(body, at):
    error, _, _ = await rollout(http(200, body))
    assert error.code == "bad_json" and error.retryable and error.detail == {"at": at}


async def test_nan_arrives_as_a_reward_that_is_not_finite():
    error, _, _ = await rollout(http(200, GOOD.replace("0.5", "NaN")))
    assert error.code == "reward_not_finite" and error.detail["value"] == "nan"


async def test_an_answer_cut_off_in_the_middle():
    error, _, _ = await rollout(http(200, GOOD)[:-5])
    assert error.code == "http_error" and error.retryable
    assert str(error) == "task app answered nothing (connection closed in mid-answer) once"


async def test_an_answer_without_end_is_not_read_to_its_end():
    error, _, _ = await rollout(http(200, b" " * (MAX_BODY_BYTES + 1)))
    assert str(error) == "the answer is too large: over 64 MiB"
    assert error.code == "bad_json" and not error.retryable


async def test_nobody_listens():
    async with client("http://127.0.0.1:1") as app:
        with pytest.raises(RolloutFailure) as caught:
            await app.rollout(request_body())
    assert caught.value.code == "http_error" and "connection refused" in str(caught.value)


async def test_a_hanging_app_times_out_and_is_told_to_abort():
    aborted = []

    async def hang():
        await asyncio.sleep(60)
        return b""

    def reply(request, n):
        if request.startswith(b"POST /run/abort"):
            aborted.append(json.loads(request.partition(b"\r\n\r\n")[2]))
            return http(405, "")
        return hang()

    async with raw_server(reply) as url, client(url, timeout_s=0.2) as app:
        with pytest.raises(RolloutFailure) as caught:
            await app.rollout(request_body())
    assert caught.value.code == "timeout" and caught.value.detail == {"limit_s": 0.2}
    assert aborted == [{"run_id": "cid-1"}]


async def test_a_cancelled_episode_is_aborted_at_the_app_without_holding_up_the_cancel():
    asked, aborted = asyncio.Event(), []

    async def hang():
        asked.set()
        await asyncio.sleep(60)
        return b""

    def reply(request, n):
        if request.startswith(b"POST /run/abort"):
            aborted.append(json.loads(request.partition(b"\r\n\r\n")[2]))
            return http(404, "")
        return hang()

    async with raw_server(reply) as url:
        async with client(url) as app:
            playing = asyncio.create_task(app.rollout(request_body()))
            await asked.wait()
            playing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await playing
            assert aborted == []
        assert aborted == [{"run_id": "cid-1"}]  # closing waits until it is out


async def test_a_connection_is_used_again_after_a_failure():
    answers = [http(200, GOOD)[:-5], http(200, GOOD)]
    async with raw_server(lambda _, n: answers[n]) as url, client(url, max_connections=1) as app:
        with pytest.raises(RolloutFailure):
            await app.rollout(request_body())
        assert (await app.rollout(request_body())).outcome == 0.5


async def test_redirects_stay_on_the_origin():
    moved = http(307, "", "location: /v2/rollout")
    result, seen, _ = await rollout(moved, http(200, GOOD))
    assert result.outcome == 0.5
    assert seen[1].startswith(b"POST /v2/rollout") and seen[1].endswith(seen[0].partition(b"\r\n\r\n")[2])

    for target in ("http://localhost:9/rollout", "https://127.0.0.1/rollout", "http://["):
        error, seen, _ = await rollout(http(307, "", f"location: {target}"))
        assert isinstance(error, TaskAppRejected) and error.reason == "redirect" and len(seen) == 1

    error, seen, _ = await rollout(http(307, "", "location: /rollout"))
    assert error.reason == "redirect" and len(seen) == 6


async def test_a_key_echoed_by_the_app_reaches_no_record():
    error, _, _ = await rollout(http(500, f"headers were {KEY}"))
    assert KEY not in error.evidence and "***" in error.evidence
    body = json.dumps({"metrics": {"outcome_reward": 1, "details": {"key": KEY}}})
    result, _, _ = await rollout(http(200, body))
    assert result.metrics["details"] == {"key": "***"}


@pytest.mark.parametrize("bad", ["ftp://h", "h:80", "", "http://["])
def test_a_url_that_is_none_is_refused_at_once(bad):
    with pytest.raises(TaskAppError, match="not a URL"):
        client(bad)


@pytest.mark.parametrize("key", ["a\nb" * 4, "schlüssel-schlüssel"])
def test_a_key_that_no_header_carries_is_refused_without_repeating_it(key):
    with pytest.raises(TaskAppError) as caught:
        client("http://h", api_key=key)
    assert key not in str(caught.value) and "ENVIRONMENT_API_KEY" in str(caught.value)


@pytest.fixture
def certificate(tmp_path):
    """(certificate, key) that nobody has signed."""
    paths = [str(tmp_path / name) for name in ("cert.pem", "key.pem")]
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    made = subprocess.run([*words.split(), "-out", paths[0], "-keyout", paths[1]], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return paths


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_certificates_are_checked_unless_that_is_switched_off_which_is_said(monkeypatch, certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    async with raw_server(lambda *_: http(200, GOOD), ssl=context) as url:
        async with client(url) as app:
            with pytest.raises(RolloutFailure, match="CERTIFICATE_VERIFY_FAILED"):
                await app.rollout(request_body())
            assert app.notes == []
        monkeypatch.setenv("RLTUI_INSECURE_TLS", "1")
        async with client(url) as app:
            assert "RLTUI_INSECURE_TLS=1" in app.notes[0]
            assert (await app.rollout(request_body())).outcome == 0.5


def routes(**answers):
    def reply(request, _):
        path = request.split(b" ")[1].decode().partition("?")[0].strip("/")
        return answers.get(path, http(404, ""))

    return reply


async def test_the_health_gate_passes_and_gives_the_task_set():
    taskset = json.dumps({"taskset": {"sizes": {"train": 160}}})
    reply = routes(health=http(200, "{}"), task_info=http(200, taskset))
    async with raw_server(reply) as url, client(url) as app:
        assert (await app.health_gate()).sizes == {"train": 160}


@pytest.mark.parametrize(
    ("health", "task_info", "text", "hint"),
    [
        (http(200, ""), http(500, ""), "/health=200, /task_info=500", "log"),
        (http(401, ""), http(401, ""), "/health=401, /task_info=401", "ENVIRONMENT_API_KEY"),
        (http(503, ""), http(503, ""), "/health=503, /task_info=503", "ENVIRONMENT_API_KEY"),
        (b"junk\r\n\r\n", http(200, ""), "/health=connection closed in mid-answer, /task_info=200", "log"),
    ],
)
async def test_the_health_gate_names_both_statuses_and_does_not_wait(health, task_info, text, hint):
    waits = []
    async with raw_server(routes(health=health, task_info=task_info)) as url, client(url) as app:
        with pytest.raises(HealthCheckFailed) as caught:
            await app.health_gate(lambda s: waits.append(s))
    assert caught.value.message == f"Task app health check failed: {text}"
    assert hint in caught.value.hint and waits == []


async def test_the_health_gate_waits_for_a_server_that_is_not_up():
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async with client("http://127.0.0.1:1") as app:
        with pytest.raises(HealthCheckFailed, match=r"/health=connection refused.*/task_info="):
            await app.health_gate(sleep)
    assert waits == [1, 2, 4, 8]
    async with client("http://no-such-host.invalid") as app:
        with pytest.raises(HealthCheckFailed):
            await app.health_gate(sleep)
    assert waits == [1, 2, 4, 8] * 2


@pytest.mark.parametrize(("health", "up"), [(http(200, "{}"), True), (http(503, ""), False), (b"junk", False)])
async def test_an_app_is_up_when_its_health_answers_200(health, up):
    async with raw_server(routes(health=health)) as url, client(url) as app:
        assert await app.is_up() is up


async def test_an_app_that_refuses_connections_is_not_up():
    async with client("http://127.0.0.1:1") as app:
        assert not await app.is_up()


async def test_task_info_of_seeds_and_the_optional_info():
    seen = []

    def reply(request, _):
        path = request.split(b" ")[1].decode()
        seen.append(path)
        if path.startswith("/task_info?"):
            infos = [{"task": {"id": "a"}}, "<circular>"]
            return http(200, json.dumps(infos if "seed=2" in path else infos[0]))
        return http(404, "")

    async with raw_server(reply) as url, client(url) as app:
        assert [t.task.id for t in await app.task_info([1, 2])] == ["a", None]
        assert [t.task.id for t in await app.task_info([1])] == ["a"]
        assert (await app.info()).rubrics.outcome is None
        assert (await app.taskset()).sizes is None
    assert seen[0] == "/task_info?seed=1&seed=2"
