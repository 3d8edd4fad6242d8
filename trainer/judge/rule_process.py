"""Rules of foreign code and foreign patterns, in a process that can be killed: they may never end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from trainer.judge.rules import RuleFailed, WrongRule
from trainer.judge.types import JudgedEpisode

Json = dict[str, Any]
START_S = 120.0  # what the modules of rules may take to be imported
ENDED_S = 10.0  # from the end of its connection to that of the process, on a machine that stands still
_PIECE = 1 << 16
_WORKER = """import json, sys
sys.path[:] = json.loads(sys.argv[2])
from trainer.judge.rule_worker import main
main(int(sys.argv[1]))"""
_STDERR = 2


class WrongRuleAt(WrongRule):
    """Rule `number` of those given cannot be applied; None: nobody knows which."""

    def __init__(self, number: int | None, text: str) -> None:
        super().__init__(text)
        self.number = number


class RuleProcess:
    """Applies one rule at a time. A process that a rule hangs or ends is replaced before the next one."""

    def __init__(self, rules: Sequence[Json], timeout_s: float, code_from: Path | None) -> None:
        """Starts the process: what is wrong shows now rather than at the first episode.

        Args:
            rules: {kind, value, target}.
            timeout_s: of one rule.
            code_from: the folder in which modules of rules are looked for, too.

        Raises:
            WrongRuleAt: a rule that cannot be applied.
        """
        self._first: Json = {"rules": list(rules), "code_from": None if code_from is None else str(code_from)}
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._sent: JudgedEpisode | None = None  # the episode that the process has
        self._closed = False
        self._ending = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "rules")
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    async def score(self, number: int, episode: JudgedEpisode, position: int | None) -> float:
        """0 to 1. position: of the turn that is judged; None: the episode is. Raises RuleFailed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._score, number, episode, position)

    def close(self) -> None:
        """Ends the process, whatever it does, and with it the wait for it."""
        if not self._closed:
            self._closed = True
            self._end()
            self._thread.submit(self._disconnect)
            self._thread.shutdown(wait=False)

    def _score(self, number: int, episode: JudgedEpisode, position: int | None) -> float:
        if self._closed:
            raise RuleFailed("the judge is closed")
        if self._process is None:
            try:
                self._start()
            except WrongRule as error:
                raise RuleFailed(str(error)) from None
        sent = None if episode is self._sent else msgspec.to_builtins(episode)
        try:
            said = self._ask({"rule": number, "position": position, "episode": sent}, self._timeout_s)
        except TimeoutError:
            self._end()
            raise RuleFailed(f"it did not end within {self._timeout_s:g} s") from None
        except _Gone:
            raise RuleFailed(f"it ended the process that applies rules ({self._how_it_ended()})") from None
        self._sent = episode
        if "score" in said:
            return float(said["score"])
        raise RuleFailed(said["text"], said["code"])

    def _start(self) -> None:
        self._disconnect()
        ours, theirs = socket.socketpair()
        paths = json.dumps([path for path in sys.path if isinstance(path, str)])
        # What a rule prints belongs in our log. A terminal is none, and what a rule prints may be a model's text.
        output = subprocess.DEVNULL if os.isatty(_STDERR) else _STDERR
        with theirs:
            self._connection, self._sent = ours, None
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-c", _WORKER, str(theirs.fileno()), paths],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                process_group=0,  # it is killed with what it started; no session, or it could outlive us stopped
            )
        if self._closed:  # by another thread, which may have seen no process yet
            self._end()
        try:
            said = self._ask(self._first, START_S)
        except TimeoutError:
            self._end()
            raise WrongRuleAt(None, f"their modules were not imported within {START_S:g} s") from None
        except _Gone:
            raise WrongRuleAt(None, f"the process that applies them ended ({self._how_it_ended()})") from None
        if "wrong" in said:
            self._end()
            raise WrongRuleAt(*said["wrong"])

    def _ask(self, message: Json, limit_s: float) -> Json:
        """Raises TimeoutError, _Gone."""
        connection = self._connection
        assert connection is not None
        end = time.monotonic() + limit_s
        answer = bytearray()
        try:
            connection.settimeout(limit_s)
            connection.sendall(json.dumps({**message, "limit_s": limit_s}, default=str).encode() + b"\n")
            while not answer.endswith(b"\n"):
                connection.settimeout(max(0.001, end - time.monotonic()))
                piece = connection.recv(_PIECE)
                if not piece:
                    raise _Gone
                answer += piece
        except TimeoutError:
            raise
        except OSError:
            raise _Gone from None
        said: Json = json.loads(answer)
        return said

    def _how_it_ended(self) -> str:
        """Of a process that gave no answer."""
        process = self._process
        if process is None:
            return "closed"
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel closes its connection a moment before
            process.wait(ENDED_S)
        status = process.returncode
        self._end()
        if status is None:
            return "it closed the connection"
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def _end(self) -> None:
        """Kills the process and what it started. Any thread; a wait for its answer ends, too."""
        with self._ending:
            process, self._process = self._process, None
            if process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with contextlib.suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    def _disconnect(self) -> None:
        """Only where nobody waits at the connection."""
        if self._connection is not None:
            self._connection.close()


class _Gone(Exception):
    """The process ended, or closed its connection."""
