"""Relays chat completions to a vendor with the server's own key, for task apps that ask for it (WIRE 1.1)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from starlette.responses import Response

from trainer.taskapp.codes import clean
from trainer.taskapp.reading import Json, listing
from trainer.taskapp.replies import refuse

TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Which vendors are served. system_hint: put before the system message of every request."""

    enable_openai: bool = True
    enable_groq: bool = True
    system_hint: str | None = None
    openai_url: str = "https://api.openai.com/v1/chat/completions"
    groq_url: str = "https://api.groq.com/openai/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Vendor:
    """paths: where it is served; url: where it is; key_name: the variable that holds its key."""

    paths: tuple[str, ...]
    url: str
    key_name: str


def vendors(config: ProxyConfig) -> list[Vendor]:
    """The vendors that `config` switches on."""
    openai = Vendor(("/proxy/v1/chat/completions",), config.openai_url, "OPENAI_API_KEY")
    groq_paths = ("/proxy/groq/v1/chat/completions", "/proxy/groq/chat/completions")
    groq = Vendor(groq_paths, config.groq_url, "GROQ_API_KEY")
    return [vendor for vendor, on in ((openai, config.enable_openai), (groq, config.enable_groq)) if on]


async def relay(body: Json, vendor: Vendor, hint: str | None, environ: Mapping[str, str] = os.environ) -> Response:
    """The vendor's answer as it stands, status included. Raises the refusal of no key (503) or no answer (502)."""
    key = environ.get(vendor.key_name, "").strip()
    if not key:
        message = f"{vendor.key_name} is not set where this task app runs"
        raise refuse(503, f"missing_{vendor.key_name.lower()}", message)
    body = with_hint(body, hint) if hint else body
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as http:
            answer = await http.post(vendor.url, json=body, headers={"Authorization": f"Bearer {key}"})
    except httpx.HTTPError as error:
        cause = clean(str(error) or type(error).__name__).replace(key, "***")
        raise refuse(502, "vendor_unreachable", f"no answer from the vendor: {cause}") from None
    content = answer.content.replace(key.encode(), b"***")
    return Response(content, answer.status_code, media_type=answer.headers.get("content-type", "application/json"))


def with_hint(body: Json, hint: str) -> Json:
    """A copy of `body` whose first system message begins with `hint`, or that gets one."""
    messages = list(listing(body.get("messages")))
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system" and isinstance(first.get("content"), str):
        messages[0] = {**first, "content": f"{hint}\n\n{first['content']}"}
    else:
        messages.insert(0, {"role": "system", "content": hint})
    return {**body, "messages": messages}
