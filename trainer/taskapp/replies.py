"""What our server reads and answers: JSON bodies within a limit, JSON answers, errors of one shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MAX_REQUEST_BYTES = 16 * 2**20


def refuse(status: int, code: str, message: str, **extra: Any) -> HTTPException:
    """An error answer `{detail: {error: {code, message, ...}}}`, to be raised by handlers."""
    # Starlette only passes `detail` through, so the error object may stand there.
    return HTTPException(status, detail={"error": {"code": code, "message": message, **extra}})  # type: ignore[arg-type]


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers, media_type="application/json")


async def read_json(request: Request) -> Any:
    """The decoded body. Raises the refusal of one that is too large (413) or no JSON (400)."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_REQUEST_BYTES:
            raise refuse(413, "too_large", f"the request is over {MAX_REQUEST_BYTES} bytes")
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise refuse(400, "bad_json", "the request body is not JSON") from None
