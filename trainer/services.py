"""The processes of a run: task app, gateway, engine and learner, started together and always ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from trainer.config import RunConfig
from trainer.devices import learner_places, reference_places
from trainer.engine_model import model_of_engine
from trainer.errors import EXIT_CONFIG, RunError
from trainer.failures import way_on
from trainer.inference.choose import build_engines, engine_notes, one_engine
from trainer.inference.engine import Engine, EngineConfigError, EngineError
from trainer.inference.gateway import LOGGER as gateway_log
from trainer.inference.gateway import GatewayError
from trainer.inference.vllm.http import without_user
from trainer.inference.vllm.process import is_installed
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.learner.protocol import NO_MEMORY, LearnerInfo, LearnerSettings, RehearsalResult
from trainer.learner.reference_client import ReferencePool, ReferenceProcess
from trainer.models import ModelNotFound, ResolvedModel, needs_conversion, resolve_model
from trainer.placing import choose as nodes
from trainer.placing.base import Placed, Placing, PlacingError
from trainer.processes import Child, how_ended, remove_stale_socket_folders, spawn
from trainer.rundir import RunWriter
from trainer.rundir.logs import LogFile, known_secrets
from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import TaskAppError
from trainer.tunnel import Tunnel, TunnelError
from trainer.way_back import ReachableGateway, check_way_back, own_url

KEY = "ENVIRONMENT_API_KEY"
TASK_APP_START_S = 60.0
END_S = 2.0  # between what a process says last and its end
# A GPU has memory of its own, whose end is an error that can be told; the machine's ends in a kill by the kernel. On a
# CPU it would cost each start of the demo two minutes and 8 GB, which its short episodes never need.
REHEARSE_ON = ("cuda",)


class Services:
    """What a run talks to. Leaving it ends every process, in whatever state the start was left."""

    engine: Engine
    gateway: ReachableGateway
    client: TaskAppClient
    learner: LearnerProcess
    learner_info: LearnerInfo
    rehearsal: RehearsalResult | None  # of the longest micro-batch, where there was one
    reference: ReferencePool | None  # a dedicated one, where there is a KL penalty to it
    model: ResolvedModel
    placing: Placing
    task_app_url: str
    seed_count: int | None  # what the task app says of its training split

    def __init__(self, config: RunConfig, writer: RunWriter) -> None:
        self._config, self._paths, self._attempt = config, writer.paths, writer.attempt
        self._stack = AsyncExitStack()
        self._pids: list[tuple[str, Callable[[], int | None], str]] = []  # role, pid, node
        self._replicas: list[Engine] = []
        self._engine_notes = engine_notes(config, installed=is_installed())
        self.task_app: Child | None = None
        self.reference = self.rehearsal = None

    async def __aenter__(self) -> Services:
        remove_stale_socket_folders()
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def resolve_model(self, name: str) -> ResolvedModel:
        """The folder of the model `name`. A model of ours is converted by a child, which a stop can end."""
        try:
            if needs_conversion(name):
                child = await spawn("model", [sys.executable, "-m", "trainer.models", name], sink=self.log("model"))
                self._stack.push_async_callback(child.terminate)
                self._pids.append(("model", lambda: None if child.ended.done() else child.pid, ""))
                if await asyncio.shield(child.ended):
                    raise ModelNotFound(f"{name} could not be converted: {child.tail.strip()}")
            self.model = await asyncio.to_thread(resolve_model, name)
        except ModelNotFound as error:
            raise RunError("model_not_found", str(error), exit_code=EXIT_CONFIG) from None
        return self.model

    async def start_nodes(self) -> None:
        """Returns once the machines are there that the launcher gives, and all of them see the run's files."""
        config, paths = self._config, self._paths
        read = [self.model.path / "config.json"]
        try:
            self.placing = nodes.placing_of(config, self.log("launcher") if config.compute.launcher != "local" else _no)
            self._stack.push_async_callback(self.placing.stop)
            await nodes.start(self.placing, config)
            await nodes.check_shared(self.placing, [paths.weights, paths.checkpoints], read)
        except PlacingError as error:
            raise RunError("no_nodes", str(error), error.hint, error.evidence, exit_code=EXIT_CONFIG) from None

    async def start_engine_and_learner(
        self, config: RunConfig, settings: LearnerSettings, tell: Callable[[str], object] = lambda words: None
    ) -> None:
        """All loads side by side; on one GPU the engine comes after the learner's rehearsal, in which it would be
        asleep. `config` is the config as the model's limits have completed it. `tell` hears what is waited for."""
        self._engine_model = await model_of_engine(
            config, self.model, self.placing, self._paths.weights, self.log, self._note_model
        )
        learner = asyncio.ensure_future(self._start_learner(settings, tell))
        engine = self._start_engine(config, after=learner if settings.shares_gpu else None)
        starts = [learner, *map(asyncio.ensure_future, (engine, self._start_reference(settings)))]
        try:
            await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.wait(starts)

    def _note_model(self, child: Placed) -> None:
        self._stack.push_async_callback(child.terminate)
        self._pids.append(("model", lambda: None if child.ended.done() else child.pid, child.node))

    @property
    def _gpus(self) -> list[tuple[str, ...]]:
        return [node.gpus for node in self.placing.nodes]

    def _node(self, number: int) -> str:
        """Its name; empty for this machine."""
        return self.placing.nodes[number].name if self.placing.address is not None else ""

    def children(self) -> list[tuple[str, int, str]]:
        """Role, pid and node of each process that was started; an empty node is this machine."""
        return [(role, pid, node) for role, get, node in self._pids if (pid := get()) is not None]

    def present(self) -> dict[str, Any]:
        """What status.json says of gateway and engines, as it is now."""
        if not hasattr(self, "gateway"):
            return {}
        gateway = {"url": self.gateway.url, "public_url": self.gateway.public_url}
        return {"gateway": gateway, "engines": [replica.present() for replica in self._replicas]}

    def new_notes(self) -> list[tuple[str, str]]:
        """(code, text) of what is to be warned of since the last call."""
        told = [("task_app", note) for note in self.client.new_notes()]
        return told + [("engine", note) for note in self.new_engine_notes()]

    def new_engine_notes(self) -> list[str]:
        """What is to be said of the engine since the last call: how it was chosen, restarts."""
        notes, self._engine_notes = self._engine_notes, []
        return notes + (self.engine.take_notes() if hasattr(self, "engine") else [])

    def log(self, name: str) -> Callable[[bytes], object]:
        """Where a child's output goes: masked, rotated, closed with the services."""
        return self._open_log(name).write

    def _open_log(self, name: str) -> LogFile:
        log = LogFile(self._paths.log(name), attempt=self._attempt, secrets=known_secrets(os.environ))
        self._stack.callback(log.close)
        return log

    def _log_gateway(self) -> None:
        """The gateway has no process of its own."""
        logger, handler = logging.getLogger(gateway_log), self._open_log("gateway").handler()
        logger.addHandler(handler)
        self._stack.callback(logger.removeHandler, handler)

    async def start_task_app(self) -> None:
        """Serves the task app where it is ours, and passes the health gate. Raises RunError."""
        config = self._config
        url = config.services.task_url
        if url.startswith(("http://", "https://")):
            check_way_back(config)
            key = os.environ.get(KEY) or None
        else:
            key = secrets.token_urlsafe(32)
            url = await self._serve_task_app(url, key)
        self.task_app_url = url
        aliases = tuple(a for a in os.environ.get(f"{KEY}_ALIASES", "").split(",") if a)
        try:
            self.client = TaskAppClient(
                url,
                api_key=key,
                aliases=aliases,
                timeout_s=config.rollout.timeout_s,
                max_connections=config.rollout.max_concurrent_rollouts,
            )
        except TaskAppError as error:
            raise RunError("config", error.message, error.hint, exit_code=EXIT_CONFIG) from None
        self._stack.push_async_callback(self.client.close)
        try:
            taskset = await self.client.health_gate()
        except TaskAppError as error:
            raise RunError("task_app_down", error.message, error.hint) from None
        sizes = taskset.sizes or {}
        self.seed_count = sizes.get(config.data.split or taskset.default_split or "train")

    async def _serve_task_app(self, spec: str, key: str) -> str:
        child = await spawn(
            "taskapp",
            [sys.executable, "-m", "trainer.taskapp", "serve", spec, "--host", "127.0.0.1", "--port", "0"],
            sink=self.log("taskapp"),
            env={KEY: key},
            keep_stdout=True,
            own_group=True,  # an app may start processes, and wants to end them
        )
        self._stack.push_async_callback(child.terminate)
        self.task_app = child
        self._pids.append(("taskapp", lambda: child.pid, ""))
        try:
            line = await child.first_line(TASK_APP_START_S)
            ready = json.loads(line)
        except TimeoutError:
            raise RunError(
                "task_app_down",
                f"the task app {spec} did not start within {TASK_APP_START_S:g} s",
                "see logs/taskapp.log",
                child.tail,
            ) from None
        except ValueError:
            await asyncio.wait([child.ended], timeout=END_S)
            raise _task_app_ended(child, f"the task app {spec} ended while starting") from None
        if ready.get("type") != "ready":
            raise RunError(
                "task_app_down",
                ready.get("message", f"the task app {spec} did not start"),
                ready.get("hint", "see logs/taskapp.log"),
                exit_code=EXIT_CONFIG,
            )
        return ready["url"]

    async def _start_engine(self, config: RunConfig, after: asyncio.Future[None] | None = None) -> None:
        try:
            self._replicas = build_engines(config, self._engine_model, self.placing, self.log)
        except EngineError as error:
            raise RunError("config", str(error), exit_code=EXIT_CONFIG) from None
        engine = self.engine = one_engine(self._replicas)
        self._stack.push_async_callback(engine.stop)
        for replica in self._replicas:
            where = self._node(getattr(replica, "node", 0)) if config.inference.url is None else ""
            self._pids.append(("inference", lambda r=replica: getattr(r, "pid", None), where))
        self.gateway = ReachableGateway(
            engine,
            config.inference.gateway_host,
            config.inference.gateway_port,
            public_url=config.inference.public_url,
        )
        self._log_gateway()
        self._stack.push_async_callback(self.gateway.stop)
        try:
            await self.gateway.start()  # first, so that a taken port is known before any model is loaded
            await self._open_way_back(config)
            if after is not None:
                await asyncio.shield(after)
            await engine.start()
        except GatewayError as error:
            raise RunError("gateway_port", str(error), exit_code=EXIT_CONFIG) from None
        except EngineConfigError as error:
            raise RunError("config", str(error), "mend the config", exit_code=EXIT_CONFIG) from None
        except EngineError as error:
            raise RunError("engine_down", str(error), self._engine_log()) from None

    def _engine_log(self) -> str:
        """Where to read more. Of a server that runs already we have no log."""
        if self._config.inference.url is not None:
            return f"see the log of the vLLM server at {without_user(self._config.inference.url)}"
        last = len(self._replicas) - 1
        return "see logs/inference-0.log" + (f" to logs/inference-{last}.log" if last > 0 else "")

    async def _open_way_back(self, config: RunConfig) -> None:
        """Where task apps reach the gateway: inference.public_url, else a tunnel, else its own address."""
        gateway = self.gateway
        if config.inference.public_url is not None:
            return
        gateway.advertised = own_url(gateway.url, self.task_app_url)
        if config.inference.tunnel == "none":
            return

        def moved(url: str) -> None:
            gateway.advertised = url
            self.client.notes.append(f"the tunnel broke and was opened again: new episodes call {url}")

        target = own_url(gateway.url, "http://127.0.0.1") or gateway.url
        tunnel = Tunnel(target, on_change=moved, sink=self.log("tunnel"))
        self._stack.push_async_callback(tunnel.stop)
        self._pids.append(("tunnel", lambda: tunnel.pid, ""))
        try:
            gateway.advertised = await tunnel.start()
        except TunnelError as error:
            hint = f"{error.hint} (inference.public_url)"
            raise RunError("tunnel_down", error.message, hint, error.evidence, exit_code=EXIT_CONFIG) from None

    async def _start_learner(self, settings: LearnerSettings, tell: Callable[[str], object]) -> None:
        places = learner_places(self._config, self._gpus)
        learner = LearnerProcess(
            settings,
            threads=self.placing.nodes[places[0].node].cores,
            sink=(log := self.log("learner-0")),
            places=places,
            placing=self.placing,
            sink_of=lambda rank: self.log(f"learner-{rank}") if rank else log,
        )
        self._stack.push_async_callback(learner.stop)
        self.learner = learner
        if learner.ranks == 1 or self.placing.address is None:
            role = "learner" if learner.ranks == 1 else "torchrun"
            where = self._node(places[0].node)
            self._pids.append((role, lambda: learner.child.pid if learner.child else None, where))
        if learner.ranks > 1:
            owners = [place.node for place in places for _ in place.devices or ("cpu",)]
            self._pids += [
                ("learner", lambda rank=rank: learner.pids.get(rank), self._node(node))
                for rank, node in enumerate(owners)
            ]
        limit = self._config.inference.startup_timeout_s
        try:
            self.learner_info = await learner.start(limit)
            if self.learner_info.device.partition(":")[0] in REHEARSE_ON:
                tell("the learner rehearses the longest micro-batch")
                self.rehearsal = await learner.rehearse(limit)
                tell("the engine loads the weights")
        except LearnerError as error:
            code = error.code if error.code == NO_MEMORY else "learner_down"
            raise RunError(code, str(error), error.hint, error.evidence) from None

    async def _start_reference(self, settings: LearnerSettings) -> None:
        """Beside the learner, whose arithmetic it shares; it keeps nothing that a resume would have to restore."""
        if settings.reference != "dedicated":
            return
        places = reference_places(self._config, self._gpus)
        pool = ReferencePool([
            ReferenceProcess(
                settings,
                threads=self.placing.nodes[place.node].cores,
                sink=self.log(f"reference-{i}"),
                places=[place],
                placing=self.placing,
            )
            for i, place in enumerate(places)
        ])  # fmt: skip
        for process, place in zip(pool.processes, places, strict=True):
            self._stack.push_async_callback(process.stop)
            where = self._node(place.node)
            self._pids.append(("reference", lambda p=process: p.child.pid if p.child else None, where))
        try:
            await asyncio.gather(*(p.start(self._config.inference.startup_timeout_s) for p in pool.processes))
        except LearnerError as error:
            raise RunError("reference_down", str(error), error.hint, error.evidence) from None
        self.reference = pool

    async def watch(self) -> None:
        """Returns never; raises RunError when a process of the run ends."""
        assert self.learner.child is not None
        ends: dict[asyncio.Future[object], str] = {
            asyncio.ensure_future(asyncio.shield(self.learner.child.ended)): "learner",
            asyncio.ensure_future(asyncio.shield(self.engine.ended)): "engine",
        }
        references = [p.child for p in self.reference.processes if p.child is not None] if self.reference else []
        ends |= {asyncio.ensure_future(asyncio.shield(child.ended)): "reference" for child in references}
        if self.task_app is not None:
            ends[asyncio.ensure_future(asyncio.shield(self.task_app.ended))] = "task app"
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        raise self._end_of(ends[done.pop()])

    def _end_of(self, name: str) -> RunError:
        """Of a process that has ended while the run was going on."""
        then = way_on(self._paths.root)
        if name == "task app":
            assert self.task_app is not None
            return _task_app_ended(self.task_app, "the task app process ended while the run was going on", f"; {then}")
        if name == "engine":
            what = getattr(self.engine, "fate", "") or "the engine process ended while the run was going on"
            return RunError("engine_down", what, f"{self._engine_log()}; {then}", getattr(self.engine, "tail", ""))
        processes = [self.learner, *(self.reference.processes if self.reference else ())]
        lost = next(p for p in processes if p.role == name and p.child is not None and p.child.ended.done()).gone()
        return RunError(lost.code, str(lost), f"{lost.hint}; {then}", lost.evidence)


def _task_app_ended(child: Child, what: str, then: str = "") -> RunError:
    """`then` ends the hint."""
    code = child.ended.result() if child.ended.done() else None
    memory = "if nobody killed it, memory may have run out; " if code == -9 else ""
    how = "" if code is None else f" ({how_ended(code)})"
    return RunError("task_app_down", f"{what}{how}", f"{memory}see logs/taskapp.log{then}", child.tail)


def _no(line: bytes) -> None:
    """A launcher that has no program of its own prints nothing."""
