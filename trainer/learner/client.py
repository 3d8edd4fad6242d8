"""The coordinator's end of the learner (no torch): starts it, asks it, notices when it dies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trainer import frames
from trainer.devices import Place, ranks_of, visible
from trainer.learner import protocol
from trainer.learner.ranks import Ranks, place_ranks
from trainer.listening import Listener, listen
from trainer.placing.base import Placed, Placing, PlacingError, Sink
from trainer.placing.local import LocalPlacing
from trainer.processes import how_ended, torch_environment
from trainer.waiting import LearnerLimit, Wait

T = TypeVar("T")

STOP_S = 2.0
END_S = 5.0  # from the end of a connection to that of the process, whose code tells more
CAUSE_S = 10.0  # how long an error that tells of another rank's end waits for that rank's own
WORK = {  # what is asked, in words
    "batch": "the update of step {step}",
    "anchor": "the log-probabilities before the updates",
    "logprobs": "the log-probabilities of the reference",
    "sync": "a copy of the weights",
    "checkpoint": "a checkpoint",
    "set": "a key that changes",
}
TORCHRUN = re.compile(r"rank +: (\d+) .*\n.*exitcode +: (-?\d+)")


class LearnerError(RuntimeError):
    """The learner failed. `code` is a word of the record, `hint` says what to do, `evidence` is the end of its log."""

    def __init__(self, message: str, hint: str = "", evidence: str = "", code: str = "learner_failed") -> None:
        super().__init__(message)
        self.hint, self.evidence, self.code = hint, evidence, code


class LearnerLost(LearnerError):
    """Its process, or that of a rank, is gone."""


class SyncResult(msgspec.Struct):
    bytes: int
    seconds: float
    rounding_gap: float


class _Asked:
    """What was asked of all ranks: done with the answer of rank 0 once all have answered, or with the first error."""

    def __init__(self, ranks: int) -> None:
        self.answer: asyncio.Future[frames.Frame | LearnerError] = asyncio.get_running_loop().create_future()
        self._missing = ranks
        self._first: frames.Frame | None = None

    def take(self, frame: frames.Frame) -> None:
        self._missing -= 1
        if frame["rank"] == 0:
            self._first = frame
        done = frame if frame["type"] == "error" else self._first if self._missing == 0 else None
        if done is not None:
            self.end(done)

    def end(self, answer: frames.Frame | LearnerError) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


async def _both(first: Awaitable[Any], then: Awaitable[T]) -> T:
    await first
    return await then


class SendResult(msgspec.Struct):
    bytes: int
    rounding_gap: float
    update: dict[str, Any]  # over CUDA IPC: what the engine is told; else empty


class LearnerProcess:
    """One learner process behind a Unix socket in a folder that only this user can enter; of several ranks on this
    machine it is torchrun, which starts them and ends them together. On nodes that are given to the run each rank is
    placed by itself, and connects over TCP with the run token."""

    role = "learner"  # of `python -m trainer.learner`; in errors, and the name of its log

    def __init__(
        self,
        settings: protocol.LearnerSettings,
        *,
        threads: int,
        sink: Sink,
        places: Sequence[Place] = (Place(0, ()),),
        placing: Placing | None = None,
        sink_of: Callable[[int], Sink] | None = None,
    ) -> None:
        """`sink_of`: of a rank that is placed by itself; default: `sink`."""
        self._settings, self._sink, self._places, self.ranks = settings, sink, places, ranks_of(places)
        self._placing, self._sink_of = placing or LocalPlacing(), sink_of
        self._threads = threads // self.ranks or 1
        self.pids: dict[int, int] = {}  # by rank
        self._waiting: dict[int, _Asked] = {}
        self._next_id = 0
        self._channels: list[frames.Channel] = []
        self._readers: list[asyncio.Task[None]] = []
        self.child: Placed | None = None
        self.steps = 0  # number of the last step that was taken
        self.limit = LearnerLimit()  # of what is asked without one
        self._works: dict[int, tuple[str, float]] = {}  # what is not answered yet: words, since when

    async def start(self, timeout_s: float) -> protocol.LearnerInfo:
        """Returns when the model is loaded. Raises LearnerError."""
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_connect(channel: frames.Channel, hello: frames.Frame) -> None:
            if connected.done():
                return
            self._channels.append(channel)
            if len(self._channels) == self.ranks:
                connected.set_result(None)

        listener: Listener | None = None
        try:
            try:
                listener = await listen(self._placing.address, self._placing.token, on_connect)
            except OSError as error:
                hint = "free some space, or set TMPDIR to a folder that can be written"
                raise LearnerError(f"there is no temporary folder for the learner's socket: {error}", hint) from None
            try:
                self.child = await self._place(listener.target)
            except PlacingError as error:
                raise LearnerError(f"the {self.role} could not be started: {error}", error.hint) from None
            await asyncio.wait([connected, self.child.ended], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not connected.done():
                raise self._lost("did not start")
        finally:
            if listener is not None:
                listener.close()
        self._readers = [asyncio.create_task(self._read(channel)) for channel in self._channels]
        return await self.greet(self._settings, timeout_s)

    async def _place(self, target: str) -> Placed:
        if self._placing.address is None or self.ranks == 1:
            place = self._places[0]
            env = torch_environment(self._threads) | visible(place.devices)
            return await self._placing.place(place.node, self.role, self._words(target), sink=self._sink, env=env)
        sinks = [self._sink_of(rank) if self._sink_of else self._sink for rank in range(self.ranks)]
        return await place_ranks(
            self._placing, self._places, self.role, lambda threads: self._rank_words(target, threads), sinks
        )

    def _words(self, target: str) -> list[str]:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return [*(torchrun if self.ranks > 1 else []), *self._rank_words(target, self._threads)]

    def _rank_words(self, target: str, threads: int) -> list[str]:
        return ["-m", "trainer.learner", "--role", self.role, "--socket", target, "--threads", str(threads)]

    async def greet(self, settings: protocol.LearnerSettings, timeout_s: float) -> protocol.LearnerInfo:
        """A learner of these settings, in the place of what was there. Raises LearnerError."""
        reply = await self._ask(
            "hello", schema=frames.SCHEMA, settings=protocol.to_frame(settings), timeout_s=timeout_s
        )
        if reply.get("schema") != frames.SCHEMA:
            raise LearnerError(
                f"the learner speaks schema {reply.get('schema')}, the coordinator {frames.SCHEMA}",
                "install one version of rltui for both",
            )
        info = protocol.from_frame(reply["info"], protocol.LearnerInfo)
        self.steps = info.step
        return info

    async def rehearse(self, timeout_s: float) -> protocol.RehearsalResult:
        """Before the first step: whether the largest passes that a step can have fit into memory. Raises LearnerError,
        of code out_of_memory and with the key to lower where they do not."""
        reply = await self._ask("rehearse", timeout_s=timeout_s)
        return protocol.from_frame(reply["result"], protocol.RehearsalResult)

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

    async def layout(self) -> dict[str, list[Any]]:
        """What would be sent from device to device. LearnerError where it cannot be."""
        return (await self._ask("layout"))["result"]

    async def connect(self, way: str, address: str, port: int, world_size: int) -> None:
        """`way`: nccl, which waits at `address` for all others; ipc."""
        await self._ask("connect", way=way, address=address, port=port, world_size=world_size)

    async def send(self) -> SendResult:
        """Sends the weights that `sync` would write; over NCCL it waits for every engine to take them."""
        return msgspec.convert((await self._ask("send"))["result"], SendResult)

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
        if self._readers and self.child is not None and not self.child.ended.done():
            try:
                await self._ask("stop", timeout_s=STOP_S)
                if self.ranks > 1:  # torchrun would tell of a signal as of an error
                    await asyncio.wait([self.child.ended], timeout=STOP_S)
            except LearnerError:
                pass
        if self.child is not None:
            await self.child.terminate()
        for reader in self._readers:
            reader.cancel()
        for channel in self._channels:
            await channel.close()

    @property
    def work(self) -> Wait | None:
        """What it has been at for the longest, and has not answered yet."""
        if not self._works:
            return None
        words, since = next(iter(self._works.values()))
        return Wait("run", "policy", f"{words} ({self._where()})", since)

    def _where(self) -> str:
        """Its process and log."""
        return f"{self.role} process {self.child.pid if self.child else None}, logs/{self.role}-0.log"

    async def _ask(self, type_: str, *, timeout_s: float | None = None, **fields: Any) -> frames.Frame:
        """Raises LearnerError. `timeout_s`: default is `limit`."""
        assert self.child is not None
        self._next_id += 1
        number, words = self._next_id, WORK.get(type_, f"its answer to '{type_}'").format(step=fields.get("step"))
        asked = self._waiting[number] = _Asked(self.ranks)
        self._works[number] = words, asyncio.get_running_loop().time()
        try:
            work = asyncio.gather(*(c.send({"type": type_, "id": number, **fields}) for c in self._channels))
            if timeout_s is not None:
                await work
                reply = await asyncio.wait_for(asked.answer, timeout_s)
            else:
                reply = await self.limit.hold(type_, _both(work, asked.answer))
        except TimeoutError as error:
            within = f"within {timeout_s:g} s" if timeout_s is not None else str(error)
            hint = f"look at {self._where()}; one that is stopped goes on by kill -CONT"
            raise LearnerError(f"the {self.role} did not give {words} {within}", hint, self.child.tail) from None
        except ConnectionError:
            raise await self._cause("went away") from None
        finally:
            self._waiting.pop(number, None)
            self._works.pop(number, None)
        if isinstance(reply, LearnerError):
            raise reply
        if reply["type"] == "error":
            raise LearnerError(reply["message"], reply["hint"], self.child.tail, reply["code"])
        return reply

    async def _read(self, channel: frames.Channel) -> None:
        rank = None
        while (frame := await channel.receive()) is not None:
            rank = frame["rank"]
            self.pids[rank] = frame["pid"]
            asked = self._waiting.get(frame["id"])
            if asked is not None and frame.get("code") == protocol.RANK_LOST:  # that rank may still say why it ends
                asyncio.get_running_loop().call_later(CAUSE_S, asked.take, frame)
            elif asked is not None:
                asked.take(frame)
        lost = await self._cause("ended", rank)
        for asked in self._waiting.values():
            asked.end(lost)

    def gone(self) -> LearnerLost:
        """What to say of one that has ended, and was not asked to."""
        return self._lost("ended while the run was going on")

    async def _cause(self, what: str, rank: int | None = None) -> LearnerLost:
        if self.child is not None:
            await asyncio.wait([self.child.ended], timeout=END_S)
        return self._lost(what, rank)

    def _lost(self, what: str, rank: int | None = None) -> LearnerLost:
        code = self.child.ended.result() if self.child is not None and self.child.ended.done() else None
        tail, who = self.child.tail if self.child else "", f"the {self.role} process"
        log = f"logs/{self.role}-0.log"
        if isinstance(self.child, Ranks):
            if code is not None:  # the one that ended first is the cause of the others' end
                rank = self.child.first
            who = f"rank {rank} of the {self.role}'s {self.ranks}" if rank is not None else who
            log = log if rank is None else f"logs/{self.role}-{rank}.log"
        elif self.ranks > 1 and (rank is not None or code is not None):
            told = TORCHRUN.findall(tail)  # its own code says nothing; its report ends with the rank that failed first
            rank, code = (int(part) for part in told[-1]) if told else (rank, None)
            who = f"rank {rank} of the {self.role}'s {self.ranks}"
        how, hint, down = "" if code is None else f" ({how_ended(code)})", f"see {log}", f"{self.role}_down"
        if self.child is not None and self.child.lost:
            what = f"{what}: {self.child.lost}"
            return LearnerLost(f"{who} {what}", f"resume the run once its nodes are back; {hint}", code=down)
        if code == -9:
            hint = f"if nobody killed it, memory may have run out: lower training.micro_batch_tokens; {hint}"
        return LearnerLost(f"{who} {what}{how}", hint, tail, down)
