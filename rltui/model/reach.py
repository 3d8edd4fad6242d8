"""Whether something listens at an address: one connection, opened and closed, nothing sent."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

LIMIT_S = 2.0


def reach(url: str, limit_s: float = LIMIT_S) -> tuple[bool, str]:
    """(whether it answered, what to say of it). In a thread: it waits up to `limit_s`."""
    if "://" not in url and url.endswith(".py"):
        there = Path(url).expanduser().is_file()
        return there, f"{'a' if there else 'there is no'} file {url}, from the folder that you stand in"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError as error:
        return False, f"no address: {error}"
    if not host or port is None:
        return False, "no http(s) address, so there is nothing to reach"
    begun = time.perf_counter()
    try:
        socket.create_connection((host, port), timeout=limit_s).close()
    except TimeoutError:
        return False, f"no answer from {host}:{port} within {limit_s:g} s"
    except OSError as error:
        return False, f"{host}:{port}: {error.strerror or error}"
    return True, f"{host}:{port} answers, {1000 * (time.perf_counter() - begun):.0f} ms"
