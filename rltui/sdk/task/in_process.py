"""A task app inside the program that trains on it: `async with InProcessTaskApp(task_app_path="app.py") as app:`."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rltui.sdk.task.addressing import MODES, Checks, Plan, leads_here, plan
from trainer.taskapp.auth import auth_headers

if TYPE_CHECKING:
    from rltui.sdk.task.hosting import HostedApp
    from trainer.taskapp.server import TaskAppConfig
    from trainer.taskapp.tunnel import Tunnel

log = logging.getLogger(__name__)

HOSTS = ("127.0.0.1", "localhost", "0.0.0.0")
KEY_VARIABLE = "ENVIRONMENT_API_KEY"
LOOK_S = 0.05
TUNNEL_END_S = 20.0


class InProcessTaskApp:
    """Serves a task app from a thread of its own, so that a blocking `submit()` or poll inside does not hold it up.

    Args:
        app, config, config_factory, task_app_path: exactly one of them: an ASGI app, a TaskAppConfig, what makes
            one, or a .py file that has one.
        port: where it listens. Taken: the next free one of 100 with `auto_find_port`, else an error that names the
            holder. Nothing is ever ended for its port.
        tunnel_mode: "local": its loopback address. "quick": a public address through `cloudflared`; with a job
            server on this machine, or without that program, it is local, and said so. "named": a tunnel of your
            own, whose host is SYNTH_TUNNEL_HOSTNAME. "preconfigured": `preconfigured_url`.
        preconfigured_auth_header, preconfigured_auth_token: sent when that address is checked.
        api_key: the app's key; default: ENVIRONMENT_API_KEY, else a random one. It is put into that variable,
            where the app and RLJob read it.
        health_check_timeout: seconds until /health must answer.
        skip_tunnel_verification: False: an address of elsewhere is asked for /health and /task_info first.
        force_new_tunnel: no effect: every quick tunnel is a new one.
        on_start, on_stop: called with this object; what they raise is logged.

    Attributes:
        url: the app's address, once it is up.
        port: the port that it got.
    """

    def __init__(
        self,
        *,
        app: Any = None,
        config: TaskAppConfig | None = None,
        config_factory: Callable[[], Any] | None = None,
        task_app_path: Path | str | None = None,
        port: int = 8114,
        host: str = "127.0.0.1",
        tunnel_mode: str = "quick",
        preconfigured_url: str | None = None,
        preconfigured_auth_header: str | None = None,
        preconfigured_auth_token: str | None = None,
        api_key: str | None = None,
        health_check_timeout: float = 30.0,
        auto_find_port: bool = True,
        skip_tunnel_verification: bool = True,
        force_new_tunnel: bool = False,
        on_start: Callable[[InProcessTaskApp], object] | None = None,
        on_stop: Callable[[InProcessTaskApp], object] | None = None,
    ) -> None:
        if sum(item is not None for item in (app, config, config_factory, task_app_path)) != 1:
            raise ValueError("exactly one of app, config, config_factory and task_app_path is wanted")
        if not 1024 <= port <= 65535:
            raise ValueError(f"port must be in 1024 to 65535; it is {port}")
        if host not in HOSTS:
            raise ValueError(f"host must be one of {', '.join(HOSTS)}; it is {host!r}")
        if tunnel_mode not in MODES:
            raise ValueError(f"tunnel_mode must be one of {', '.join(MODES)}; it is {tunnel_mode!r}")
        if task_app_path is not None:
            path = Path(task_app_path)
            if not path.exists():
                raise FileNotFoundError(f"Task app path does not exist: {path}")
            if path.suffix != ".py":
                raise ValueError(f"Task app path must be a .py file, got {path}")
        self._app, self._config, self._config_factory, self._path = app, config, config_factory, task_app_path
        self.port, self.host, self.tunnel_mode = port, host, tunnel_mode
        self.preconfigured_url = preconfigured_url
        self._extra_header = (preconfigured_auth_header, preconfigured_auth_token)
        self.api_key = api_key
        self.health_check_timeout, self.auto_find_port = health_check_timeout, auto_find_port
        self.skip_tunnel_verification, self.force_new_tunnel = skip_tunnel_verification, force_new_tunnel
        self.on_start, self.on_stop = on_start, on_stop
        self.url: str | None = None
        self._hosted: HostedApp | None = None
        self._tunnel: Tunnel | None = None
        self._ending = threading.Lock()

    async def __aenter__(self) -> InProcessTaskApp:
        """Raises ValueError and RuntimeError; then nothing of it is left."""
        from rltui.sdk.task.hosting import HostedApp, listen

        wanted = plan(self.tunnel_mode, self.preconfigured_url)
        if wanted.why:
            log.warning("%s", wanted.why)
        self.api_key = self.api_key or os.environ.get(KEY_VARIABLE, "").strip() or secrets.token_urlsafe(32)
        os.environ[KEY_VARIABLE] = self.api_key
        listener = listen(self.host, self.port, find=self.auto_find_port)
        try:
            asked, self.port = self.port, listener.getsockname()[1]
            if asked != self.port:
                led = f", where {wanted.url} must lead" if wanted.url else ""
                log.warning("port %d is taken; the task app listens on port %d%s", asked, self.port, led)
            self._hosted = HostedApp(self._load(), listener)
            self._hosted.start()
            await self._until_healthy(self._hosted)
            self.url = await self._address(wanted)
        except BaseException:
            await self._stop()
            listener.close()
            raise
        self._call(self.on_start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self.on_stop)
        await self._stop()

    def _load(self) -> Any:
        from trainer.taskapp.load import load_task_app
        from trainer.taskapp.server import TaskAppConfig, create_task_app

        if self._path is not None:
            return load_task_app(str(self._path))[1]
        built = self._config_factory() if self._config_factory is not None else self._config or self._app
        return create_task_app(built) if isinstance(built, TaskAppConfig) else built

    async def _until_healthy(self, hosted: HostedApp) -> None:
        import httpx

        url, status = f"http://127.0.0.1:{self.port}/health", "no answer"
        async with httpx.AsyncClient(headers=self._headers(), timeout=5.0, trust_env=False) as client:
            try:
                async with asyncio.timeout(self.health_check_timeout):
                    while not hosted.ended:
                        try:
                            code = (await client.get(url)).status_code
                        except httpx.HTTPError:
                            pass
                        else:
                            if code in (200, 400):
                                return
                            status = str(code)
                        await asyncio.sleep(LOOK_S)
            except TimeoutError:
                waited = f"{self.health_check_timeout:g} s"
                raise RuntimeError(f"the task app was not ready within {waited}: /health={status}") from None
        raise RuntimeError("the task app failed while it started; its log above says why")

    async def _address(self, wanted: Plan) -> str:
        own = f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"
        if wanted.mode == "local":
            return own
        checks = Checks.of()
        if wanted.mode == "quick":
            return await self._quick(own, checks)
        assert wanted.url is not None
        if not self.skip_tunnel_verification and not await self._leads_here(wanted.url, checks):
            log.warning("nothing answers at %s as this task app does; going on all the same", wanted.url)
        return wanted.url

    async def _quick(self, own: str, checks: Checks) -> str:
        """Raises RuntimeError after the last attempt."""
        from trainer.taskapp.tunnel import Tunnel, TunnelError

        assert self._hosted is not None
        for number in range(1, checks.attempts + 1):
            # In the app's loop: the caller's may be held up for hours, and the program's log must be read.
            self._tunnel = Tunnel(own, on_change=self._moved)
            try:
                url = await asyncio.wrap_future(self._hosted.run(self._tunnel.start()))
                if self.skip_tunnel_verification or await self._leads_here(url, checks):
                    return url
                raise TunnelError(f"the tunnel at {url} does not lead to the task app", "try again")
            except TunnelError as error:
                await asyncio.wrap_future(self._hosted.run(self._tunnel.stop()))
                if number == checks.attempts:
                    raise RuntimeError(
                        f"{error}. SYNTH_TUNNEL_MODE=local does without, for a job server on this machine"
                    ) from None
                log.warning("%s; attempt %d of %d", error.message, number, checks.attempts)
        raise AssertionError("the last attempt returns or raises")

    async def _leads_here(self, url: str, checks: Checks) -> bool:
        await asyncio.sleep(checks.first_wait_s)
        return await leads_here(url, self._headers(), tries=checks.tries, wait_s=checks.wait_s)

    def _moved(self, url: str) -> None:
        log.warning(
            "the tunnel was opened again; the task app is at %s now. A job keeps the address it began with", url
        )
        self.url = url

    def _headers(self) -> dict[str, str]:
        name, value = self._extra_header
        return auth_headers([self.api_key or ""]) | ({name: value} if name and value else {})

    def _call(self, hook: Callable[[InProcessTaskApp], object] | None) -> None:
        if hook is None:
            return
        try:
            hook(self)
        except Exception as error:  # the caller's code: its fault keeps no app from ending
            log.warning("%s raised %s: %s", getattr(hook, "__name__", "a hook"), type(error).__name__, error)

    async def _stop(self) -> None:
        """Ends tunnel and app, also where this very task is being cancelled."""
        stopping = asyncio.get_running_loop().run_in_executor(None, self._end)
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            self._end()
            raise

    def _end(self) -> None:
        """Blocks, also while another thread does it. Repeatable."""
        with self._ending:
            if self._hosted is None:
                return
            if self._tunnel is not None and not self._hosted.ended:
                try:
                    self._hosted.run(self._tunnel.stop()).result(TUNNEL_END_S)
                except Exception as error:  # whatever became of it, the app ends
                    log.warning("the tunnel did not end as it should: %s", error)
                self._tunnel = None
            self._hosted.stop()
            self._hosted = None


__all__ = ["InProcessTaskApp"]
