"""Under which address a run reaches a task app that is served from here: which mode, and whether it leads there."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rltui.backend import backend_url
from rltui.smoke.net import is_loopback
from trainer.taskapp.tunnel import PROGRAM

log = logging.getLogger(__name__)

Mode = Literal["local", "quick", "named", "preconfigured"]
MODES: tuple[Mode, ...] = ("local", "quick", "named", "preconfigured")


@dataclass(frozen=True)
class Plan:
    """`url`: the address, where it is known before the app is up. `why`: said where the mode is not the one asked."""

    mode: Mode
    url: str | None = None
    why: str = ""


def plan(asked: str, preconfigured_url: str | None, env: Mapping[str, str] = os.environ) -> Plan:
    """What the arguments and the environment come to (WIRE 4.4). Raises ValueError for an incomplete wish."""
    given = env.get("SYNTH_TASK_APP_URL", "").strip()
    named = env.get("SYNTH_TUNNEL_MODE", "").strip()
    host = env.get("SYNTH_TUNNEL_HOSTNAME", "").strip().removeprefix("https://").rstrip("/")
    mode = "preconfigured" if given else named or asked
    if mode not in MODES:
        raise ValueError(f"SYNTH_TUNNEL_MODE must be one of {', '.join(MODES)}; it is {mode!r}")
    if mode == "preconfigured":
        url = given or (preconfigured_url or "").strip()
        if not url:
            raise ValueError("tunnel_mode 'preconfigured' needs preconfigured_url, or the variable SYNTH_TASK_APP_URL")
        return Plan("preconfigured", url.rstrip("/"))
    if mode == "named":
        if not host:
            raise ValueError(
                "tunnel_mode 'named' is a tunnel of your own that leads to this port: set SYNTH_TUNNEL_HOSTNAME to "
                "its host name; 'quick' opens one by itself"
            )
        return Plan("named", f"https://{host}")
    if mode == "quick" and not named:  # where the variable asks for it, it is not second-guessed
        if is_loopback(backend_url(env=env)):
            return Plan("local", why="the job server is on this machine, so no tunnel is opened")
        if shutil.which(PROGRAM) is None:
            why = f"no tunnel is opened: the program {PROGRAM} is not installed. A job server elsewhere cannot reach it"
            return Plan("local", why=why)
    return Plan("quick" if mode == "quick" else "local")


async def leads_here(url: str, headers: Mapping[str, str], *, tries: int, wait_s: float) -> bool:
    """Whether /health and /task_info answer 200 under that address, by the last try."""
    import httpx

    insecure = os.environ.get("SYNTH_TUNNEL_VERIFY_TLS", "true").strip().lower() in ("0", "false", "no", "off")
    async with httpx.AsyncClient(headers=dict(headers), timeout=10.0, verify=not insecure) as client:
        for number in range(tries):
            if number:
                await asyncio.sleep(wait_s)
            try:
                answers = [await client.get(f"{url}{path}") for path in ("/health", "/task_info")]
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                log.debug("%s: %s", url, error)
                continue
            if all(answer.status_code == 200 for answer in answers):
                return True
    return False


@dataclass(frozen=True)
class Checks:
    """How often and how long a tunnel is tried (the SDK's variables)."""

    attempts: int
    tries: int
    wait_s: float
    first_wait_s: float

    @classmethod
    def of(cls, env: Mapping[str, str] = os.environ) -> Checks:
        return cls(
            attempts=max(1, int(_number(env, "SYNTH_TUNNEL_MAX_ATTEMPTS", 3))),
            tries=max(1, int(_number(env, "SYNTH_TUNNEL_VERIFY_MAX_RETRIES", 30))),
            wait_s=_number(env, "SYNTH_TUNNEL_VERIFY_DELAY_SECS", 2.0),
            first_wait_s=_number(env, "SYNTH_TUNNEL_VERIFY_INITIAL_DELAY_SECS", 3.0),
        )


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise ValueError(f"the variable {name} must be a number >= 0; it is {text!r}")
    return value
