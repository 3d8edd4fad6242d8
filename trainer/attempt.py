"""The life of one attempt of a run: what is started, what goes on beside the training, and how it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from trainer import assemble, environment
from trainer.batch import in_batch_job
from trainer.config import ConfigError, Loaded
from trainer.control_room import ControlRoom
from trainer.errors import EXIT_CONFIG, EXIT_INTERRUPTED, EXIT_OK, RunError, disk_full, not_writable
from trainer.gpus import Gpus
from trainer.judge_of_run import RunJudge, judge_of_run
from trainer.models import needs_conversion
from trainer.opening import Opening, OtherRun
from trainer.pipeline import Pipeline
from trainer.recorder import Recorder
from trainer.resume import another_model, another_world, fingerprint, with_this
from trainer.rundir import DiskFull
from trainer.rundir.patient import PatientWriter
from trainer.saving import CheckpointSaver, estimate
from trainer.services import Services
from trainer.settings import learner_settings
from trainer.start_from import CannotStart, Start, start_of
from trainer.stdio import say, tell
from trainer.supervisor import Supervisor
from trainer.weights.choose import choose
from trainer.weights.verified import VerifiedSync


class Attempt:
    """The life of one attempt: start, pipeline and supervision, and a terminal status whatever happens."""

    def __init__(self, opening: Opening, recorder: Recorder, writer: PatientWriter) -> None:
        self._opening, self._recorder, self._writer = opening, recorder, writer
        self._restored = opening.restored
        self._room = ControlRoom(opening.loaded, recorder, writer, self._changed, self.ask)
        self._saver: CheckpointSaver | None = None
        self._stopping = asyncio.Event()
        self._work: asyncio.Task[str] | None = None
        self._killed = self._preempted = False
        self._asked_by: dict[str, Any] | None = None
        self._pipeline: Pipeline | None = None
        self._supervisor: Supervisor | None = None
        self._sync: VerifiedSync | None = None
        self._judge: RunJudge | None = None
        self._app_facts: dict[str, str | None] = {}
        self._begin = Start(opening.loaded.config.policy.model_name or "")

    @property
    def _loaded(self) -> Loaded:
        return self._opening.loaded

    def _changed(self, values: Mapping[str, Any]) -> Loaded:
        """The config with other values of live keys."""
        return self._opening.source.load(values)

    def ask(self, verb: str, by: dict[str, Any] | None = None) -> None:
        """stop: to the next clean place. kill, or a second stop: at once. `by` is who asked; None: a signal."""
        self._asked_by = by
        if verb == "stop" and not self._stopping.is_set():
            self._stopping.set()
            self._room.ending()
            with suppress(RunError):
                self._recorder.status(state="stopping", phase="stopping")
            if self._pipeline is None and self._work is not None:
                self._work.cancel()  # nothing has begun that a clean end could save
            return
        self._killed = True
        if self._work is not None:
            self._work.cancel()

    def _signalled(self, number: int) -> None:
        if number == signal.SIGTERM and in_batch_job():
            if self._stopping.is_set():
                return  # it repeats itself; what it sends to kill is SIGKILL
            with suppress(OSError):
                self._room.look()  # who asked for the end by a request, which a cancelled job follows at once
            if self._killed:
                return
            self._preempted = True
        self.ask("stop")

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
                continue
            loop.add_signal_handler(number, self._signalled, number)
        recorder, derived, config = self._recorder, self._loaded.derived, self._loaded.config
        tell("ready", run_dir=str(self._writer.paths.root), job_id=self._writer.job_id, pid=os.getpid())
        try:
            recorder.status(
                state="starting",
                phase="starting",
                totals={
                    "steps": derived["steps"],
                    "iterations": derived["iterations"],
                    "epochs": config.training.num_epochs,
                    "episodes": derived["E"] * derived["iterations"],
                },
            )
            if not self._writer.last_seq:  # no server or batch system made the job before
                told = {"label": config.policy.label, "config_hash": self._loaded.config_hash}
                recorder.event("rl.job.created", f"{config.policy.label} is made", **told)
            recorder.event("rl.job.started", "the run starts", phase="starting", label=config.policy.label)
            for warning in (item for item in self._loaded.warnings if item.level != "note"):
                recorder.warn(warning.code, f"{warning.key}: {warning.why}")
            self._work = asyncio.create_task(self._with_services())
            reason = await self._work
        except asyncio.CancelledError as error:
            if not self._killed and not self._stopping.is_set():  # nobody asked: a fault of ours
                return self._end("failed", "error", self._internal(error))
            return self._end("cancelled", "killed" if self._killed else self._stopped(), None)
        except RunError as error:
            return self._end("failed", "error", error)
        except DiskFull as error:
            return self._end("failed", "error", disk_full(self._writer.paths.root, error))
        except OSError as error:
            return self._end("failed", "error", not_writable(self._writer.paths.root, error) or self._internal(error))
        except Exception as error:  # a fault of ours: the run must still end with its cause on record
            return self._end("failed", "error", self._internal(error))
        if reason == "stopped":
            return self._end("cancelled", self._stopped(), None)
        return self._end("succeeded", reason, None)

    def _stopped(self) -> str:
        return "preempted" if self._preempted else "stopped"

    async def _with_services(self) -> str:
        recorder = self._recorder
        empty(self._writer.paths.weights)  # of an attempt that was killed
        async with Services(self._loaded.config, self._writer) as services:
            gpus = Gpus(self._loaded.config, os.environ)
            supervisor = Supervisor(recorder, services.children, services.present, self._room, gpus)
            self._supervisor = supervisor
            beside = [asyncio.ensure_future(supervisor.run())]
            try:
                await _first(asyncio.ensure_future(self._start(services)), *beside)
                self._pipeline = self._build(services)
                beside += [asyncio.ensure_future(work) for work in (services.watch(), self._room.run())]
                training = asyncio.ensure_future(self._pipeline.run())
                return await _first(training, *beside)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                if self._sync is not None:
                    self._sync.close()
                if self._judge is not None:
                    await self._judge.judge.close()

    async def _start(self, services: Services) -> None:
        """Task app, judge, model first: each can be wrong in a second, and the loads that follow take many."""
        self._recorder.phase("starting", waiting=_waiting("task_app", "the task app's health"))
        await services.start_task_app()
        config_file = Path(self._opening.config_name)
        self._app_facts = await environment.of_task_app(services.client)
        self._judge = await judge_of_run(self._loaded, self._recorder, services.client, config_file)
        try:
            start = self._begin = await asyncio.to_thread(start_of, self._loaded.config)
        except CannotStart as error:
            raise RunError("source_not_found", str(error), error.hint, exit_code=EXIT_CONFIG) from None
        name = start.model
        once = ", which is converted once (half a minute)" if needs_conversion(name) else ""
        self._recorder.phase("starting", waiting=_waiting("engine", f"the model {name}{once}"))
        model = await services.resolve_model(name)
        try:
            self._opening = self._opening.with_model(model.context_limit)
        except ConfigError as error:
            raise RunError("config", str(error), "mend the config", exit_code=EXIT_CONFIG) from None
        except OtherRun as error:
            raise RunError("other_run", str(error), error.hint, exit_code=EXIT_CONFIG) from None
        self._writer.resolved(self._loaded.resolved())
        self._model = {
            "name": model.name,
            "revision": model.revision,
            "sha256": await asyncio.to_thread(fingerprint, model.path),
        }
        if self._opening.base_model and (found := another_model(self._opening.base_model, self._model)):
            hint = "resume it with the model that it began with, or start a new run"
            raise RunError("other_run", found, hint, exit_code=EXIT_CONFIG)
        if start.adapter is not None and (found := another_model(start.base, self._model)):
            raise RunError("other_model", f"{found}: {start.adapter} is an adapter for it", exit_code=EXIT_CONFIG)
        if (launcher := self._loaded.config.compute.launcher) != "local":
            nodes = self._loaded.config.compute.nodes
            wanted = f"{nodes} node{'s' * (nodes != 1)} of {launcher.capitalize()}"
            self._recorder.phase("starting", waiting=_waiting("engine", wanted))
        await services.start_nodes()
        self._recorder.phase("starting", waiting=_waiting("engine", "engine and learner load the weights"))
        settings = learner_settings(self._loaded, model.path, start)
        if self._restored is not None:
            settings.resume_from = str(self._restored.checkpoint)
        await services.start_engine_and_learner(
            self._loaded.config,
            settings,
            lambda words: self._recorder.phase("starting", waiting=_waiting("engine", words)),
        )
        self._recorder.status(waiting=None)

    def _build(self, services: Services) -> Pipeline:
        config, recorder, earlier = self._loaded.config, self._recorder, self._opening.earlier
        self._writer.environment(
            surroundings(self._opening, self._writer.paths.root)
            | {
                "engine": services.engine.describe(),
                "model": {**self._model, "parameters": services.learner_info.parameters},
                "task_app": {"url": services.task_app_url, **self._app_facts},
                **({} if services.rehearsal is None else {"rehearsal": msgspec.structs.asdict(services.rehearsal)}),
                **({} if self._judge is None else {"judge": self._judge.facts}),
            }
        )
        recorder.status(
            state="running",
            **services.present(),
            task_app={"url": services.task_app_url, "state": "up"},
        )
        recorder.event(
            "rl.train.started",
            f"training {config.policy.source or services.model.name}",
            model=services.model.name,
            epochs=config.training.num_epochs,
            iters_per_epoch=config.training.iterations_per_epoch,
            batch_size=config.training.batch_size,
            group_size=config.training.group_size,
        )
        for code, note in services.new_notes():
            recorder.warn(code, note)
        if self._restored and (found := another_world(self._restored.checkpoint, services.learner.ranks)):
            recorder.warn("world_size", found)
        self._room.begin(self._loaded, services.learner)
        self._saver = CheckpointSaver(
            recorder,
            self._writer,
            self._room,
            services.learner,
            self._model,
            estimate(services.learner_info, config),
            restored=self._restored,
            resumes=with_this(earlier, self._restored) if earlier else [],
        )
        self._saver.warn_of_room()
        sync = self._sync = choose(
            config,
            services.learner,
            services.engine,
            self._writer.paths.weights,
            recorder.log,
            engine_starts_behind=self._begin.adapter is not None,
            placing=services.placing,
        )
        return assemble.build(
            loaded=self._loaded,
            services=services,
            recorder=recorder,
            sync=sync,
            room=self._room,
            saver=self._saver,
            restored=self._restored,
            stopping=self._stopping,
            judge=self._judge,
        )

    # --- the end --------------------------------------------------------------------------------------------

    def _end(self, state: str, reason: str, error: RunError | None) -> int:
        """Writes the terminal event, then the terminal status, and says the result on stdout."""
        recorder = self._recorder
        code = EXIT_OK if state == "succeeded" else EXIT_INTERRUPTED if error is None else error.exit_code
        results = self._results(state)
        with suppress(RunError, OSError):
            recorder.close_trackers()
        with suppress(RunError, OSError):
            self._room.close()
            if self._writer.waiting and not self._writer.recover():
                text = f"{self._writer.waiting} records could not be written: the disk is full"
                recorder.warn("records_lost", text)
        with suppress(RunError, OSError):
            if error is not None:
                recorder.event("rl.train.failed", error.message, level="error", code=error.code, hint=error.hint)
                recorder.event("rl.job.failed", error.message, level="error", code=error.code, hint=error.hint)
            elif state == "cancelled":
                verb = "kill" if reason == "killed" else "stop"
                recorder.event("rl.job.cancelled", f"the run was {reason}", verb=verb, by=self._asked_by)
            else:
                result = {"final_reward": results["final_reward"], "model_id": results["model_id"]}
                result["fine_tuned_model"] = results["model_id"]
                recorder.event("rl.train.completed", "training is complete", **result)
                recorder.event("rl.job.completed", "the run succeeded", **result)
        with suppress(RunError, OSError):
            recorder.status(
                state=state,
                phase="done",
                waiting=None,
                paused=None,
                end_reason=reason,
                children=[],
                episodes={**recorder.counts(), "running": 0},
                engines=[{**engine, "state": "gone"} for engine in recorder.writer.document.engines],
                error=None if error is None else error.record(),
                results=results,
            )
        if error is not None:
            say(f"{error.message}\n{error.hint}".rstrip())
            return tell("error", exit_code=code, **error.record())
        return tell("result", exit_code=code, state=state, end_reason=reason, results=results)

    def _results(self, state: str) -> dict[str, Any]:
        recorder, pipeline, saver = self._recorder, self._pipeline, self._saver
        means = pipeline.evaluations.results() if pipeline else {"first": None, "last": None, "best": None}
        clock = pipeline.clock if pipeline else None
        return {
            "status": state,
            "final_reward": pipeline.final_reward if pipeline else None,
            "best_reward": means["best"],
            "best_step": saver.best["step"] if saver and saver.best else None,
            "model_id": f"rl:{self._begin.model}:{recorder.writer.job_id}",
            "checkpoints": saver.checkpoints if saver else [],
            "evaluation": means,
            "episodes": recorder.accepted,
            "iterations": recorder.iteration,
            "excluded": recorder.excluded,
            "wall_s": recorder.wall_s,
            "tokens": recorder.sampled_tokens,
            "samples_per_sec": clock.episodes / clock.total if clock and clock.total else None,
            "gen_tokens_per_sec": clock.sampled_tokens / clock.collecting if clock and clock.collecting else None,
            "peak_rss_mb": round(self._supervisor.peak_rss_bytes / 2**20) if self._supervisor else None,
        }

    def _internal(self, error: BaseException) -> RunError:
        import traceback

        text = traceback.format_exc()
        with suppress(OSError):
            self._recorder.log(text)
        return RunError(
            "internal",
            f"an error of ours ended the run: {type(error).__name__}: {error}",
            "logs/coordinator.log has the details; please report them",
            text[-2000:],
        )


def surroundings(opening: Opening, run_dir: Path) -> dict[str, Any]:
    return {**environment.describe(sys.argv, run_dir), "config": opening.config_name}


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path, ignore_errors=True)


def _waiting(for_: str, on: str) -> dict[str, Any]:
    return {"for": for_, "on": on, "since": time.time()}


async def _first(work: asyncio.Future[Any], *beside: asyncio.Future[Any]) -> Any:
    """The result of `work`; what runs beside it never returns, so its first error is the end of all."""
    try:
        await asyncio.wait({work, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in beside:
            if task.done() and not task.cancelled():
                task.result()
        return work.result()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)  # its own error too, where it has one, is taken note of
