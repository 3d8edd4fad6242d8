"""Answers of the job server: JSON, compressed where that saves something, and refusals in one shape (WIRE 3.1)."""

from __future__ import annotations

import gzip
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from trainer.rundir.jsonl import Json, encode

GZIP_FROM_BYTES = 1_000
GZIP_LEVEL = 1  # rows shrink five times as it is; more only takes time


class Refused(Exception):
    """Ends a request with an error body; the text is one plain sentence."""

    def __init__(self, status: int, code: str, message: str, errors: list[Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.errors = status, code, errors or []

    def response(self) -> Response:
        error = {"code": self.code, "message": str(self), "errors": self.errors}
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        return Response(encode({"detail": str(self), "error": error}), self.status, headers, "application/json")


def object_of(value: Any, name: str = "the body") -> Json:
    """The value, which has to be an object. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused(422, "wrong_shape", f"{name} is not an object")
    return value


def answer(request: Request, body: Any, status: int = 200) -> Response:
    """`body` as JSON. A large one takes some milliseconds: see `OpenRun.ask`."""
    data = encode(body)
    headers = {"vary": "Accept-Encoding"}
    if len(data) >= GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        data = gzip.compress(data, GZIP_LEVEL, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(data, status, headers, "application/json")
