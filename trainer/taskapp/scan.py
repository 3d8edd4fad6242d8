"""Finds task apps that listen on this host (WIRE 1.1, 1.3): `GET /` names the service, `/health` says that it is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from trainer.taskapp.codes import clean
from trainer.taskapp.reading import mapping

TIMEOUT_S = 2.0
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
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:

        async def look(port: int) -> Found | None:
            async with room:
                return await probe(http, f"http://{shown}:{port}")

        found = await asyncio.gather(*map(look, ports))
    return [app for app in found if app is not None]


async def probe(http: httpx.AsyncClient, url: str) -> Found | None:
    """What answers at `url`, if it is a task app."""
    try:
        root = mapping((await http.get(url + "/")).json())
        health = (await http.get(url + "/health")).status_code
    except (httpx.HTTPError, ValueError, RecursionError):
        return None
    service = root.get("service")
    if root.get("status") != "ok" or not isinstance(service, str) or health not in UP:
        return None
    return Found(url, clean(service, 60), health)
