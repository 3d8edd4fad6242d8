"""How task apps reach the gateway: its own address, one that a person gave, or a tunnel (WIRE 2.1)."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from trainer.config import RunConfig
from trainer.errors import EXIT_CONFIG, RunError
from trainer.inference.gateway import Gateway

WILDCARDS = ("0.0.0.0", "::")


class ReachableGateway(Gateway):
    """A gateway whose public address is found out after it listens, and may change: each episode gets the latest."""

    advertised: str | None = None

    @property
    def public_url(self) -> str:
        return (self.advertised or super().public_url).rstrip("/")


def check_way_back(config: RunConfig) -> None:
    """A task app on another host must be able to reach the gateway. Raises RunError naming both keys."""
    app, gateway = urlsplit(config.services.task_url).hostname or "", config.inference.gateway_host
    has_way = config.inference.public_url is not None or config.inference.tunnel != "none"
    if not is_loopback(app) and is_loopback(gateway) and not has_way:
        raise RunError(
            "no_way_back",
            f"the task app at {app} cannot reach the gateway, which listens on {gateway} only",
            "set inference.public_url to an address that leads here, or inference.tunnel = quick",
            exit_code=EXIT_CONFIG,
        )


def own_url(gateway_url: str, task_url: str) -> str | None:
    """The gateway's address as the task app should call it, where the gateway listens on every interface: on the
    interface that leads to the app. None: the address is fine as it is."""
    parts = urlsplit(gateway_url)
    if parts.hostname not in WILDCARDS:
        return None
    app = urlsplit(task_url).hostname or "127.0.0.1"  # an app that we serve ourselves is on loopback
    host = address_towards(app) or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{parts.port}"


def address_towards(host: str) -> str | None:
    """Our own address on the way to `host`, by the routing table: nothing is sent. None: no way, or no such name."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return probe.getsockname()[0].partition("%")[0]
    except OSError:
        return None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
