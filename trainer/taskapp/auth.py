"""The key of a task app: where it comes from, the headers that carry it, how a request is checked (WIRE 1.2)."""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping, Sequence

KEY_NAMES = ("ENVIRONMENT_API_KEY", "dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY")
ALIASES_NAME = "ENVIRONMENT_API_KEY_ALIASES"


def split_keys(text: str) -> list[str]:
    """The non-empty parts of a comma list."""
    return [part for part in (piece.strip() for piece in text.split(",")) if part]


def valid_keys(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The key (the first of its names that is set) and its aliases; empty if there is no key."""
    key = next((value for name in KEY_NAMES if (value := environ.get(name, "").strip())), None)
    return [key, *split_keys(environ.get(ALIASES_NAME, ""))] if key else []


def auth_headers(keys: Sequence[str]) -> dict[str, str]:
    """The key in all three headers that task apps read; keys[0] is the key, the rest aliases."""
    if not keys:
        return {}
    return {"X-API-Key": keys[0], "X-API-Keys": ",".join(keys), "Authorization": f"Bearer {keys[0]}"}


def keys_of_request(headers: Mapping[str, str]) -> list[str]:
    """The candidates in the three headers that clients send, each split at commas."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token if scheme.lower() == "bearer" else ""
    texts = (headers.get("x-api-key", ""), headers.get("x-api-keys", ""), bearer)
    return [key for text in texts for key in split_keys(text)]


def accepts(valid: Iterable[str], got: Iterable[str]) -> bool:
    """Whether any candidate is a valid key, in a time that does not tell which or how much of it matched."""
    got, matched = list(got), False
    for key in valid:
        for candidate in got:
            matched |= hmac.compare_digest(key.encode(), candidate.encode())
    return matched
