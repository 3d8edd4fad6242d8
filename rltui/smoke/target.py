"""What is tested: an address as it stands, or an app that is served here, watched, and stopped at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections import deque
from pathlib import Path

import psutil

from rltui.smoke.child import environment, sigterm_then_kill
from trainer.taskapp.auth import ALIASES_NAME, KEY_NAMES, split_keys
from trainer.taskapp.envfile import load_env_file
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.reading import mapping
from trainer.taskapp.registry import BUILTIN, builtin_factory

START_S = 60.0
LOOK_S = 0.02  # between two looks at whether the app has ended
LOG_S = 5.0  # that the end of its log is waited for, once it has ended
LOG_LINES = 80  # that are kept


class TargetRefused(Exception):
    """There is nothing to test for a reason that lies in what was asked for. message, hint: for a person."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}. {hint}")
        self.message, self.hint = message, hint


class DidNotStart(Exception):
    """The app itself failed to start. message, hint: for its author; log: its last lines."""

    def __init__(self, message: str, hint: str, log: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.log = message, hint, log


class Target:
    """`url` and `keys` hold once `start` has returned. secrets: what must not be shown."""

    def __init__(self, app: str, *, port: int = 0, env_file: str | None = None, force: bool = False) -> None:
        """Raises TargetRefused: no such app, or no such file of variables."""
        self.app, self._port, self._force = app, port, force
        self.served = not app.startswith(("http://", "https://"))
        self.url = "" if self.served else app.rstrip("/")
        self.keys = self._keys_of_environment()
        self.secrets: list[str] = list(self.keys)
        self._env: dict[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self.lines = 0  # that a served app has printed by now
        if not self.served:
            return
        check_app(app)
        self._env = environment()
        if env_file is not None:
            self._read(env_file)
        key = secrets.token_urlsafe(32)
        self.keys = [key]
        self.secrets += [key]
        self._env |= {KEY_NAMES[0]: key}
        self._env.pop(ALIASES_NAME, None)

    def _read(self, env_file: str) -> None:
        before = set(self._env)
        try:
            added = load_env_file(Path(env_file).expanduser(), self._env)
        except TaskAppError as error:
            raise TargetRefused(error.message, f"{error.hint}, or change smoke.task_app_env_file") from None
        self.secrets += [self._env[name] for name in added if name not in before]

    @staticmethod
    def _keys_of_environment() -> list[str]:
        key = os.environ.get(KEY_NAMES[0], "").strip()
        return [key, *split_keys(os.environ.get(ALIASES_NAME, ""))] if key else []

    async def start(self) -> None:
        """Serves the app where it is ours to serve; repeatable.

        Raises:
            TargetRefused: its port is taken.
            DidNotStart: the app failed.
        """
        if not self.served or self.alive:
            return
        if self._port:
            await make_room(self._port, force=self._force)
        argv = [sys.executable, "-m", "trainer.taskapp", "serve", self.app, "--port", str(self._port)]
        process = self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            start_new_session=True,  # the terminal's Ctrl-C is ours to carry out
        )
        self._pump = asyncio.create_task(self._keep_log(process))
        assert process.stdout is not None
        try:
            ready = mapping(json.loads(await asyncio.wait_for(process.stdout.readline(), START_S)))
        except TimeoutError:
            raise DidNotStart(f"{self.app} did not start within {START_S:g} s", "Its log says more", self.log) from None
        except ValueError:
            await asyncio.wait([self._pump], timeout=LOG_S)
            raise DidNotStart(f"{self.app} ended while it started", "Its log says why", self.log) from None
        if ready.get("type") != "ready":
            raise DidNotStart(str(ready.get("message")), str(ready.get("hint") or ""), self.log)
        self.url = str(ready["url"])

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def died(self) -> int | None:
        """The exit status of a served app that has ended by itself."""
        return None if self._process is None else self._process.returncode

    async def died_within(self, seconds: float) -> int | None:
        """`died`, waited for: a connection that breaks is seen before the end of the process behind it."""
        for _ in range(round(seconds / LOOK_S)):  # looks, not seconds: a busy machine may take them between two
            if not self.alive:
                break
            await asyncio.sleep(LOOK_S)  # wait() also waits for its pipes
        return self.died

    def cpu_seconds(self) -> float:
        """CPU time of a served app by now; 0 where it is not ours to see."""
        if self._process is None:
            return 0.0
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self._process.pid).cpu_times()
            return float(used.user + used.system)
        return 0.0

    @property
    def log_over(self) -> bool:
        """Whether no line can come any more; of an app that is not served here none ever comes."""
        return self._pump is None or self._pump.done()

    @property
    def log(self) -> str:
        """The last lines that a served app printed."""
        return "\n".join(self._log)

    def log_since(self, lines: int) -> list[str]:
        """What it printed after its first `lines` lines, as far as it is kept."""
        new = min(self.lines - lines, len(self._log))
        return list(self._log)[-new:] if new > 0 else []

    async def _keep_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while True:
            with contextlib.suppress(ValueError):  # a line over 64 KiB
                line = await process.stderr.readline()
                if not line:
                    return
                self._log.append(line.decode(errors="replace").rstrip())
                self.lines += 1

    async def close(self) -> None:
        if self._process is not None:
            await sigterm_then_kill(self._process)
            if self._pump is not None:
                await asyncio.wait([self._pump], timeout=1.0)
                self._pump.cancel()


def check_app(app: str) -> None:
    """Raises TargetRefused where there is no such file or no app of that name."""
    if app.endswith(".py"):
        if not Path(app).expanduser().is_file():
            raise TargetRefused(f"there is no file {app}", "Give the path of the task app")
        return
    try:
        builtin_factory(app.removeprefix("builtin:"))
    except TaskAppError as error:
        raise TargetRefused(error.message, error.hint) from None
    except ImportError as error:
        known = ", ".join(sorted(BUILTIN))
        raise TargetRefused(
            f"{app} cannot be loaded: {error}", f"Install what it needs, or choose one of {known}"
        ) from None


async def make_room(port: int, *, force: bool) -> None:
    """Ends an app of ours on `port` if `force`; a process of someone else is never touched. Raises TargetRefused."""
    holder = await asyncio.to_thread(holder_of, port)
    if holder is None:
        return
    if not is_ours(holder):
        raise TargetRefused(
            f"port {port} is held by process {holder.pid} ({_name(holder)}), which is not ours to end",
            "Stop it yourself, or choose another smoke.task_app_port",
        )
    if not force:
        raise TargetRefused(
            f"port {port} is held by a task app that we started (process {holder.pid})",
            "Set smoke.task_app_force = true to replace it, or choose another smoke.task_app_port",
        )
    holder.terminate()
    await asyncio.to_thread(psutil.wait_procs, [holder], 5.0)
    if holder.is_running():
        raise TargetRefused(
            f"process {holder.pid} on port {port} does not end",
            "Stop it yourself, or choose another smoke.task_app_port",
        )


def holder_of(port: int) -> psutil.Process | None:
    """The process that listens on a loopback or wildcard port, as far as this user may know it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            for socket in process.net_connections(kind="tcp"):
                if socket.status == psutil.CONN_LISTEN and socket.laddr and socket.laddr.port == port:
                    return process
    return None


def is_ours(process: psutil.Process) -> bool:
    """Whether it is a task app that `rltui` started, for this user."""
    try:
        words = process.cmdline()
        mine = process.uids().real == os.getuid()
    except psutil.Error:
        return False
    pairs = zip(words, words[1:], words[2:], strict=False)
    return mine and ("-m", "trainer.taskapp", "serve") in pairs


def _name(process: psutil.Process) -> str:
    name = "?"
    with contextlib.suppress(psutil.Error):
        name = process.name()
    return name
