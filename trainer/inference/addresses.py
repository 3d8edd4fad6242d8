"""The gateway's addresses, the malformed ones that old helpers produce included (WIRE 2.1). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

_ROUTES = {
    "/chat/completions": "chat",
    "/completions": "completion",
    "/models": "models",
    "/health": "health",
}


@dataclass(frozen=True, slots=True)
class Address:
    route: str | None  # chat, completion, models, health; None: no such path
    cid: str | None
    repaired: bool = False


def chat_url(base: str, cid: str) -> str:
    return f"{base}/v1/chat/completions?cid={quote(cid, safe='')}"


def base_url(base: str, cid: str) -> str:
    return f"{base}/cid/{quote(cid, safe='')}/v1"


def parse_address(path: str, query: str) -> Address:
    """`path` decoded, `query` raw. A cid in the path wins over one in the query."""
    repaired = False
    cid = next((value for key, value in parse_qsl(query) if key == "cid"), None)
    if cid and "/" in cid:
        # a helper appended the path to a URL that ended in its query
        cid, _, appended = cid.partition("/")
        path, repaired = f"/{appended}", True
    if path.startswith("/cid/"):
        in_path, _, rest = path.removeprefix("/cid/").partition("/")
        cid, path = unquote(in_path), f"/{rest}"
    path = path.rstrip("/") or "/"
    doubled = "/chat/completions/chat/completions"
    while path.endswith(doubled):
        path, repaired = path.removesuffix("/chat/completions"), True
    route = next((name for end, name in _ROUTES.items() if path.endswith(end)), None)
    if route is None and "/v1/models/" in path:
        route = "models"
    return Address(route, cid or None, repaired)
