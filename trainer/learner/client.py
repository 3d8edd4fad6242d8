"""The coordinator's end of the learner (no torch): starts it, asks it, notices when it dies."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainer import frames
from trainer.devices import Devices, visible
from trainer.learner import protocol
from trainer.processes import Child, socket_folder, spawn, torch_environment


class LearnerError(RuntimeError):
    """The learner failed. `code` is a word of the record, `hint` says what to do, `evidence` is the end of its log."""

    def __init__(self, message: str, hint: str = "", evidence: str = "", code: str = "learner_failed") -> None:
        super().__init__(message)
        self.hint, self.evidence, self.code = hint, evidence, code


class SyncResult(msgspec.Struct):
    bytes: int
    seconds: float
    rounding_gap: float


class LearnerProcess:
    """One learner process behind a Unix socket in a folder that only this user can enter."""

    def __init__(
        self,
        settings: protocol.LearnerSettings,
        *,
        threads: int,
        sink: Callable[[bytes], object],
        devices: Devices = (),
    ) -> None:
        self._settings, self._threads, self._sink, self._devices = settings, threads, sink, devices
        self._waiting: dict[int, asyncio.Future[frames.Frame]] = {}
        self._next_id = 0
        self._channel: frames.Channel | None = None
        self._reader: asyncio.Task[None] | None = None
        self.child: Child | None = None
        self.steps = 0  # number of the last step that was taken

    async def start(self, timeout_s: float) -> protocol.LearnerInfo:
        """Returns when the model is loaded. Raises LearnerError."""
        try:
            folder = socket_folder()
        except OSError as error:
            hint = "free some space, or set TMPDIR to a folder that can be written"
            raise LearnerError(f"there is no temporary folder for the learner's socket: {error}", hint) from None
        path = f"{folder}/s"
        connected: asyncio.Future[frames.Channel] = asyncio.get_running_loop().create_future()

        def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result(frames.Channel(reader, writer))

        server: asyncio.Server | None = None
        try:
            server = await asyncio.start_unix_server(on_connect, path)
            self.child = await spawn(
                "learner",
                [sys.executable, "-m", "trainer.learner", "--socket", path, "--threads", str(self._threads)],
                sink=self._sink,
                env=torch_environment(self._threads) | visible(self._devices),
            )
            await asyncio.wait([connected, self.child.ended], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not connected.done():
                raise self._lost("did not start")
            self._channel = connected.result()
        finally:
            if server is not None:
                server.close()
            shutil.rmtree(folder, ignore_errors=True)  # now: the connection needs it no more, and a crash leaves none
        self._reader = asyncio.create_task(self._read())
        reply = await self._ask(
            "hello", schema=frames.SCHEMA, settings=protocol.to_frame(self._settings), timeout_s=timeout_s
        )
        if reply.get("schema") != frames.SCHEMA:
            raise LearnerError(
                f"the learner speaks schema {reply.get('schema')}, the coordinator {frames.SCHEMA}",
                "install one version of rltui for both",
            )
        info = protocol.from_frame(reply["info"], protocol.LearnerInfo)
        self.steps = info.step
        return info

    async def anchor(self, updates: Sequence[Sequence[protocol.Sequence]]) -> protocol.AnchorResult:
        """With training.anchor "proximal", once an iteration, before its first `step`.

        Args:
            updates: the sequences of each of the iteration's m steps, in order, an empty list for a step that has
                none; `lag` as in `step`, where it counts the iteration's earlier steps too.

        Returns:
            What `protocol.take_anchor(sequences, result)` makes ready for each `step`.
        """
        reply = await self._ask("anchor", updates=[[protocol.to_frame(s) for s in part] for part in updates])
        return protocol.from_frame(reply["result"], protocol.AnchorResult)

    async def step(self, step: int, sequences: Sequence[protocol.Sequence]) -> protocol.StepResult:
        reply = await self._ask("batch", step=step, sequences=[protocol.to_frame(s) for s in sequences])
        self.steps = step
        return protocol.from_frame(reply["result"], protocol.StepResult)

    async def sync(self, path: Path, version: int, mode: str = "full") -> SyncResult:
        """Has the weights written to `path` for the engine: merged or full ones, or the adapter alone (`lora`)."""
        reply = await self._ask("sync", path=str(path), version=version, mode=mode)
        return msgspec.convert(reply["result"], SyncResult)

    async def canary(self, prefixes: list[bytes], candidates: list[bytes]) -> list[bytes]:
        """Log-probabilities (f32) of candidate tokens (i32) after prefixes (i32), a row a prefix, at temperature 1."""
        reply = await self._ask("canary", prefixes=prefixes, candidates=candidates)
        return reply["result"]["logprobs"]

    async def checkpoint(self, path: Path, state: dict[str, Any]) -> None:
        """Has the weights, the optimizer state and `state.json` written into the folder `path`."""
        await self._ask("checkpoint", path=str(path), state=state)

    async def set(self, values: dict[str, float]) -> None:
        await self._ask("set", values=values)

    async def stop(self) -> None:
        """Ends the process; repeatable."""
        if self._channel is not None and self.child is not None and not self.child.ended.done():
            try:
                await self._ask("stop", timeout_s=2.0)
            except LearnerError:
                pass
        if self.child is not None:
            await self.child.terminate()
        if self._reader is not None:
            self._reader.cancel()
        if self._channel is not None:
            await self._channel.close()

    async def _ask(self, type_: str, *, timeout_s: float | None = None, **fields: Any) -> frames.Frame:
        assert self._channel is not None and self.child is not None
        self._next_id += 1
        future: asyncio.Future[frames.Frame] = asyncio.get_running_loop().create_future()
        self._waiting[self._next_id] = future
        try:
            await self._channel.send({"type": type_, "id": self._next_id, **fields})
            reply = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise LearnerError(f"the learner did not answer '{type_}' within {timeout_s:g} s") from None
        except ConnectionError:
            raise self._lost("went away") from None
        finally:
            self._waiting.pop(self._next_id, None)
        if reply["type"] == "error":
            raise LearnerError(reply["message"], reply["hint"], self.child.tail, reply["code"])
        return reply

    async def _read(self) -> None:
        assert self._channel is not None
        while (frame := await self._channel.receive()) is not None:
            future = self._waiting.get(frame.get("id", -1))
            if future is not None and not future.done():
                future.set_result(frame)
        if self.child is not None:
            await asyncio.wait([self.child.ended], timeout=2.0)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost("ended"))

    def _lost(self, what: str) -> LearnerError:
        code = self.child.ended.result() if self.child is not None and self.child.ended.done() else None
        how = "" if code is None else f" (exit {code})" if code >= 0 else f" (killed by signal {-code})"
        hint = "see logs/learner-0.log"
        if code == -9:
            hint = "if the machine ran out of memory, lower training.micro_batch_tokens; see logs/learner-0.log"
        return LearnerError(f"the learner process {what}{how}", hint, self.child.tail if self.child else "")
