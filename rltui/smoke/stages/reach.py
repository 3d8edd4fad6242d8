"""S01 reachable, S02 health and key, S03 wrong key is refused."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from urllib.parse import urlsplit

from rltui.smoke.bench import Bench
from rltui.smoke.probe import NoAnswer
from rltui.smoke.record import shows_part_of
from rltui.smoke.stages.base import Findings, Found
from rltui.smoke.target import DidNotStart
from trainer.taskapp.bodies import Answer
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import mapping
from trainer.taskapp.refusals import is_unauthorised

CONNECT_S = 10.0
SLOW_S = 2.0  # of an answer that needs no work
KEY = "ENVIRONMENT_API_KEY"


async def reachable(bench: Bench) -> Found:
    target = bench.target
    try:
        await target.start()
    except DidNotStart as error:
        log = tuple(clean(line) for line in error.log.splitlines()[-5:])
        return Found("fail", f"the app did not start: {clean(error.message, 400)}", clean(error.hint, 300), log)
    bench.recorder.keep_secret(target.secrets)
    parts = urlsplit(target.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    loop, began = asyncio.get_running_loop(), time.monotonic()
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            named = time.monotonic()
            _, writer = await asyncio.open_connection(host, port)
            connected = time.monotonic()
            writer.close()
    except TimeoutError:
        return Found("fail", f"no connection to {host} port {port} within {CONNECT_S:g} s", _way(bench))
    except socket.gaierror:
        return Found("fail", f"the name {host} is not known", "correct services.task_url")
    except OSError as error:
        words = "connection refused" if isinstance(error, ConnectionRefusedError) else clean(str(error))
        return Found("fail", f"nothing answers at {host} port {port}: {words}", _way(bench))
    try:
        answer = await bench.probe.get("/")
    except NoAnswer as error:
        fix = "see why the app does not answer HTTP"
        if "certificate" in str(error):
            fix = (
                "give the app a certificate that this machine trusts; on your own network RLTUI_INSECURE_TLS=1 will do"
            )
        return Found("fail", f"connected, but GET / got {error}", fix)
    found = Findings()
    replied = time.monotonic()
    steps = {"name": named - began, "connect": connected - named, "reply": replied - connected}
    found.note(", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in steps.items()))
    if answer.status >= 500:
        found.warn(f"GET / answers {answer.status}", "answer {status: ok, service: NAME}, which `rltui scan` looks for")
    if steps["reply"] > SLOW_S:
        found.warn(f"GET / took {steps['reply']:.1f} s", "find out what delays the app: it does no work here")
    return found.found(target.url)


def _way(bench: Bench) -> str:
    return "see the app's log" if bench.target.served else "start the app, or correct services.task_url"


async def health(bench: Bench) -> Found:
    found = Findings()
    for path in ("/health", "/task_info"):
        began = time.monotonic()
        try:
            answer = await bench.probe.get(path, bench.keys)
        except NoAnswer as error:
            found.fail(f"GET {path}: {error}", "answer it at once: a run waits for it before it starts")
            continue
        _check_answer(bench, path, answer, time.monotonic() - began, found)
    if not bench.keys:
        found.note(f"{KEY} is not set: requests go without a key")
    return found.found("healthy with the key of the environment" if bench.keys else "healthy")


def _check_answer(bench: Bench, path: str, answer: Answer, seconds: float, found: Findings) -> None:
    body = answer.json_or_none()
    if answer.status in (401, 403) or (answer.status == 400 and is_unauthorised(body)):
        fix = f"set {KEY} to the key that the app was started with" if not bench.target.served else "accept that key"
        found.fail(f"GET {path} answers {answer.status}: the app rejected {KEY}", fix)
    elif answer.status == 503:
        found.fail(f"GET {path} answers 503: the app is not ready", f"start it with {KEY} set, and see its log")
    elif answer.status != 200:
        fix = "serve it with 200" if answer.status != 404 else "serve it, or correct services.task_url"
        found.fail(f"GET {path} answers {answer.status}", fix)
    elif not isinstance(body, dict | list):
        found.fail(f"GET {path} answers 200 with no JSON ({_kind(answer)})", "answer a JSON object")
    else:
        if path == "/health" and mapping(body).get("healthy") is False:
            found.warn("GET /health says healthy: false", "see what the app is missing")
        if "json" not in _kind(answer):
            found.warn(f"GET {path} has content type {_kind(answer)}", "send application/json")
    if seconds > SLOW_S:
        found.warn(f"GET {path} took {seconds:.1f} s", "answer it at once; a run gives it 10 s")


def _kind(answer: Answer) -> str:
    return clean(answer.headers.get("content-type") or "none", 60)


async def wrong_key(bench: Bench) -> Found:
    found, refused = Findings(), 0
    for name, keys in (("a wrong key", [f"wrong-{secrets.token_urlsafe(24)}"]), ("no key", [])):
        for path in ("/health", "/task_info"):
            try:
                answer = await bench.probe.get(path, keys)
            except NoAnswer as error:
                found.warn(f"GET {path} with {name}: {error}", "answer 401 or 403")
                continue
            if bench.keys and shows_part_of(answer.body, bench.keys):
                found.fail(
                    f"the answer to GET {path} with {name} shows part of the right key",
                    "leave the key, and any prefix of it, out of every answer",
                )
            elif answer.status in (401, 403) or (answer.status == 400 and is_unauthorised(answer.json_or_none())):
                refused += 1
            elif answer.status < 400 and path == "/task_info":
                found.warn(
                    f"GET {path} is answered with {name}",
                    "check the key on every path, unless the app listens on loopback alone",
                )
            elif answer.status >= 400:
                found.warn(f"GET {path} with {name} answers {answer.status}", "answer 401 or 403")
    return found.found(f"refused ({refused} requests without the right key)")
