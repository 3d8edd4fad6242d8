"""Finds task apps that listen on this host (WIRE 1.1, 1.3): `GET /` names the service, `/health` says that it is up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from trainer.taskapp.bodies import ACCEPTED, no_cookies, parts
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import mapping

TIMEOUT_S = 2.0
MAX_BODY_BYTES = 1 << 16
AT_ONCE = 64
UP = (200, 400, 401, 403)  # a server that asks for a key is up


@dataclass(frozen=True, slots=True)
class Found:
    """A task app. health: the status of `/health` asked without a key."""

    url: str
    service: str
    health: int

    @property
    def needs_key(self) -> bool:
        return self.health != 200


async def scan(ports: Iterable[int], host: str = "127.0.0.1") -> list[Found]:
    """The task apps on these ports, in their order. No key is sent: whoever listens there is unknown."""
    room = asyncio.Semaphore(AT_ONCE)
    shown = f"[{host}]" if ":" in host else host
    async with httpx.AsyncClient(headers=ACCEPTED, cookies=no_cookies(), timeout=TIMEOUT_S, trust_env=False) as http:

        async def look(port: int) -> Found | None:
            async with room:
                return await probe(http, f"http://{shown}:{port}")

        found = await asyncio.gather(*map(look, ports))
    return [app for app in found if app is not None]


async def probe(http: httpx.AsyncClient, url: str) -> Found | None:
    """What answers at `url`, if it is a task app."""
    try:
        async with asyncio.timeout(2 * TIMEOUT_S):  # of both together: the client's own is of each byte
            root = mapping(await _json(http, url + "/"))
            async with http.stream("GET", url + "/health") as answer:
                health = answer.status_code
    except (TimeoutError, httpx.HTTPError, ValueError, RecursionError):
        return None
    service = root.get("service")
    if root.get("status") != "ok" or not isinstance(service, str) or health not in UP:
        return None
    return Found(url, clean(service, 60), health)


async def _json(http: httpx.AsyncClient, url: str) -> object:
    """ValueError: no JSON, or too much of it."""
    body = bytearray()
    async with http.stream("GET", url) as answer:
        async for part in parts(answer):
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise ValueError("no task app names itself at such length")
    return json.loads(body)
