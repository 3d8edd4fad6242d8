"""Serves one task app as a child process: `python -m trainer.taskapp serve builtin:NAME|NAME|FILE.py`.

Stdout carries one JSON line: `{type: ready, url, name}` once the app listens, or `{type: error, message,
hint}` with exit code 2. Everything else, prints of the app included, goes to stderr. The key comes from
ENVIRONMENT_API_KEY. The process ends on SIGTERM, and by itself when its parent does; an app that
blocks, five seconds later.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO

import uvicorn

from trainer.taskapp import auth
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.load import load_task_app
from trainer.taskapp.server import check_bind, server_config

PR_SET_PDEATHSIG = 1
PARENT_POLL_S = 1.0
END_S = 5.0  # that the app is given to end once it was told to


class _Server(uvicorn.Server):
    """Says when it listens, and ends with its parent."""

    def __init__(self, config: uvicorn.Config, parent: int, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        threading.Thread(target=self._watch, args=[parent], daemon=True).start()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        _end_within(END_S)

    def _watch(self, parent: int) -> None:
        """In a thread: an app that blocks the event loop must not outlive its parent."""
        while os.getppid() == parent:  # nothing tells us, so it is polled
            time.sleep(PARENT_POLL_S)
        self.should_exit = True
        _end_within(END_S)


def _end_within(seconds: float) -> None:
    """Ends this process by then, also where the app never gives the event loop back."""
    end = threading.Timer(seconds, os._exit, [1])
    end.daemon = True
    end.start()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.taskapp", description="Serve a task app.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="serve one task app until SIGTERM")
    serve.add_argument("app", help="builtin:NAME, NAME or FILE.py")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=0, help="0: a free one")
    args = parser.parse_args(argv)

    parent = os.getppid()
    _die_with(parent)
    lines = _claim_stdout()
    try:
        _serve(args.app, args.host, args.port, parent, lines)
    except TaskAppError as error:
        _say(lines, {"type": "error", "message": error.message, "hint": error.hint})
        return 2
    return 0


def _serve(spec: str, host: str, port: int, parent: int, lines: TextIO) -> None:
    check_bind(host, has_key=bool(auth.valid_keys()))
    listener = _listen(host, port)  # before the app is loaded: a taken port is known at once
    name, app = load_task_app(spec)
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    ready = {"type": "ready", "url": f"http://{shown}:{bound}", "name": name}
    server = _Server(server_config(app), parent, lambda: _say(lines, ready))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    if not server.started:
        raise TaskAppError(f"{spec} failed while it started", "Its log above says why")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # the protocol named, asyncio switches Nagle off; unnamed, answers wait 40 ms for an acknowledgement
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)  # now, since two bound sockets may share a port until one listens
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise TaskAppError(
            f"cannot listen on {host} port {port}: {cause}",
            "Choose another --port (0 takes a free one), or stop the program that holds it",
        ) from None
    return listener


def _die_with(parent: int) -> None:
    """Linux: SIGTERM to us when the thread that started us ends (prctl(2)). Elsewhere polling does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os._exit(0)


def _claim_stdout() -> TextIO:
    """The real stdout for our lines; whatever the app prints goes to stderr from now on."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return lines


def _say(lines: TextIO, message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), file=lines, flush=True)
    except BrokenPipeError:  # nobody reads us; the parent watch ends us
        pass


def run() -> None:
    """Entry point. Ends at once: a plain rollout function in a thread must not hold the process."""
    code = main()
    sys.stderr.flush()
    os._exit(code)
