"""A fault of ours: one sentence for the client, one line and a bounded traceback for the log."""

import logging
from logging.handlers import RotatingFileHandler

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from rltui.server.faults import FRAMES, MAX_TEXT, Brief, Faults
from rltui.server.serve import _log_to


async def broken(request: Request) -> None:
    def deeper(levels: int) -> None:
        if not levels:
            raise ValueError("two\nlines " + "x" * 5_000)
        deeper(levels - 1)

    deeper(300)


async def test_it_is_told_shortly(caplog):
    app = Starlette(routes=[Route("/", broken)], middleware=[Middleware(Faults)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "ValueError" not in answer.text
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    record.exc_text = None  # what another formatter made of it
    line, *frames = Brief("%(message)s").format(record).splitlines()
    assert line.startswith("GET / failed: ValueError: two\\nlines xxx")
    assert len(line) < MAX_TEXT + 100
    assert sum(frame.startswith("  File ") for frame in frames) <= FRAMES
    assert len(frames) <= 3 * FRAMES + 3 and max(map(len, frames)) < MAX_TEXT + 100


def test_the_log_is_bounded_and_brief(tmp_path):
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        _log_to(tmp_path / "server.log")
        (handler,) = [handler for handler in root.handlers if handler not in before]
        root.removeHandler(handler)
    finally:
        root.setLevel(level)
    assert isinstance(handler, RotatingFileHandler) and isinstance(handler.formatter, Brief)
    assert 0 < handler.maxBytes * (1 + handler.backupCount) <= 16 << 20
