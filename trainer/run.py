"""`python -m trainer run`: one attempt of a run from its config to its terminal status."""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer import environment
from trainer.config import ConfigError, Loaded, load
from trainer.errors import EXIT_CONFIG, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, RunError, disk_full
from trainer.models import needs_conversion
from trainer.pipeline import Pipeline
from trainer.recorder import Recorder
from trainer.rollout.player import FirstTries, Player, PlayRules
from trainer.rollout.seeds import SeedCursor
from trainer.rundir import DiskFull, RunLock, RunLocked, RunWriter
from trainer.rundir.disk import replace_file
from trainer.rundir.layout import new_job_id
from trainer.services import Services
from trainer.settings import learner_settings, play_rules
from trainer.supervisor import Supervisor
from trainer.weights.base import WeightSync
from trainer.weights.choose import choose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help="the run's TOML file")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of this run; made if it is not there")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    parser.add_argument("--job-id", default=None, help="default: a new one")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown config keys are warnings")
    parser.add_argument("--take-over", action="store_true", help="replace the lock of a silent run of another host")


def main(arguments: argparse.Namespace) -> int:
    """Runs to the end. Exit code: 0 succeeded, 2 config or environment, 3 failed, 130 stopped."""
    os.umask(0o077)  # what we and our children write is for this user alone
    try:
        loaded = load(arguments.config, sets=arguments.sets, allow_unknown=arguments.allow_unknown)
        if problems := loaded.launch_problems():
            raise ConfigError(problems)
    except ConfigError as error:
        say(error)
        return tell("error", code="config", message=str(error), hint="mend the config", exit_code=EXIT_CONFIG)
    loaded.export(os.environ)  # what env_file_path holds, for this process and all that it starts
    try:
        with RunLock(arguments.run_dir, take_over=arguments.take_over):
            return _locked(arguments, loaded)
    except RunLocked as error:
        say(error)
        return tell("error", code="run_locked", message=str(error), hint="", exit_code=EXIT_CONFIG)
    except (DiskFull, OSError) as error:
        return _no_folder(arguments.run_dir, error)


def _locked(arguments: argparse.Namespace, loaded: Loaded) -> int:
    run_dir: Path = arguments.run_dir
    if (run_dir / "events.jsonl").exists():
        message = f"{run_dir} already holds a run; choose another --run-dir"
        say(message)
        return tell("error", code="run_exists", message=message, hint="", exit_code=EXIT_CONFIG)
    job_id = arguments.job_id or new_job_id()
    with RunWriter(
        run_dir, job_id=job_id, label=loaded.config.policy.label, checkpoint_dir=loaded.config.checkpoint.dir
    ) as writer:
        replace_file(writer.paths, "config.toml", arguments.config.read_bytes())
        writer.resolved(loaded.resolved())
        writer.environment(environment.describe(sys.argv, run_dir))
        recorder = Recorder(writer, loaded.derived, loaded.config)
        return asyncio.run(Attempt(loaded, recorder).run())


class Attempt:
    """The life of one attempt: start, pipeline and supervision, and a terminal status whatever happens."""

    def __init__(self, loaded: Loaded, recorder: Recorder) -> None:
        self._loaded, self._config, self._recorder = loaded, loaded.config, recorder
        self._stopping = asyncio.Event()
        self._work: asyncio.Task[str] | None = None
        self._killed = False
        self._asked_by: dict[str, Any] | None = None
        self._pipeline: Pipeline | None = None
        self._supervisor: Supervisor | None = None
        self._sync: WeightSync | None = None

    def ask(self, verb: str, by: dict[str, Any] | None = None) -> None:
        """stop: to the next clean place. kill, or a second stop: at once. `by` is who asked; None: a signal."""
        self._asked_by = by
        if verb == "stop" and not self._stopping.is_set():
            self._stopping.set()
            with suppress(RunError):
                self._recorder.status(state="stopping", phase="stopping")
            if self._pipeline is None and self._work is not None:
                self._work.cancel()  # nothing has begun that a clean end could save
            return
        self._killed = True
        if self._work is not None:
            self._work.cancel()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
                continue
            loop.add_signal_handler(number, self.ask, "stop")
        recorder, derived = self._recorder, self._loaded.derived
        tell("ready", run_dir=str(recorder.writer.paths.root), job_id=recorder.writer.job_id, pid=os.getpid())
        try:
            recorder.status(
                state="starting",
                phase="starting",
                totals={
                    "steps": derived["steps"],
                    "iterations": derived["iterations"],
                    "epochs": self._config.training.num_epochs,
                    "episodes": derived["E"] * derived["iterations"],
                },
            )
            recorder.event("rl.job.started", "the run starts", phase="starting", label=self._config.policy.label)
            for warning in (item for item in self._loaded.warnings if item.level != "note"):
                recorder.warn(warning.code, f"{warning.key}: {warning.why}")
            self._work = asyncio.create_task(self._with_services())
            reason = await self._work
        except asyncio.CancelledError as error:
            if not self._killed and not self._stopping.is_set():  # nobody asked: a fault of ours
                return self._end("failed", "error", self._internal(error))
            return self._end("cancelled", "killed" if self._killed else "stopped", None)
        except RunError as error:
            return self._end("failed", "error", error)
        except DiskFull as error:
            return self._end("failed", "error", disk_full(recorder.writer.paths.root, error))
        except Exception as error:  # a fault of ours: the run must still end with its cause on record
            return self._end("failed", "error", self._internal(error))
        return self._end("cancelled" if reason == "stopped" else "succeeded", reason, None)

    async def _with_services(self) -> str:
        recorder = self._recorder
        async with Services(self._config, recorder.writer) as services:
            supervisor = Supervisor(recorder, services.children, services.present, self.ask)
            self._supervisor = supervisor
            beside = [asyncio.ensure_future(supervisor.run())]
            try:
                await _first(asyncio.ensure_future(self._start(services)), *beside)
                self._pipeline = self._build(services)
                beside.append(asyncio.ensure_future(services.watch()))
                training = asyncio.ensure_future(self._pipeline.run())
                return await _first(training, *beside)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                if self._sync is not None:
                    self._sync.close()

    async def _start(self, services: Services) -> None:
        """Task app and model first: each can be wrong in a second, and the loads that follow take many."""
        self._recorder.phase("starting", waiting=_waiting("task_app", "the task app's health"))
        await services.start_task_app()
        name = self._config.policy.model_name or ""
        once = ", which is converted once (half a minute)" if needs_conversion(name) else ""
        self._recorder.phase("starting", waiting=_waiting("engine", f"the model {name}{once}"))
        model = await services.resolve_model()
        try:
            self._loaded = self._loaded.for_model(model.context_limit)
        except ConfigError as error:
            raise RunError("config", str(error), "mend the config", exit_code=EXIT_CONFIG) from None
        self._config = self._loaded.config
        self._recorder.writer.resolved(self._loaded.resolved())
        self._recorder.phase("starting", waiting=_waiting("engine", "engine and learner load the weights"))
        await services.start_engine_and_learner(self._config, learner_settings(self._loaded, model.path))
        self._recorder.status(waiting=None)

    def _build(self, services: Services) -> Pipeline:
        config, recorder = self._config, self._recorder
        recorder.writer.environment(
            environment.describe(sys.argv, recorder.writer.paths.root)
            | {
                "engine": services.engine.describe(),
                "model": {
                    "name": services.model.name,
                    "revision": services.model.revision,
                    "parameters": services.learner_info.parameters,
                },
                "task_app": {"url": services.task_app_url},
            }
        )
        recorder.status(
            state="running",
            **services.present(),
            task_app={"url": services.task_app_url, "state": "up"},
        )
        recorder.event(
            "rl.train.started",
            f"training {config.policy.model_name}",
            model=config.policy.model_name,
            epochs=config.training.num_epochs,
            iters_per_epoch=config.training.iterations_per_epoch,
            batch_size=config.training.batch_size,
            group_size=config.training.group_size,
        )
        for note in services.client.new_notes():
            recorder.warn("task_app", note)
        for note in services.new_engine_notes():
            recorder.warn("engine", note)
        evaluation, job_id = config.evaluation, recorder.writer.job_id
        limit, first_tries = asyncio.Semaphore(config.rollout.max_concurrent_rollouts), FirstTries()

        def player(rules: PlayRules) -> Player:
            return Player(
                rules,
                services.gateway,
                services.client,
                limit,
                first_tries,
                lambda episode: recorder.episode(episode, rules),
            )

        try:
            cursor = SeedCursor(
                config.data.seed_start,
                config.data.seed_count or services.seed_count,
                evaluation.seeds if evaluation else [],
            )
        except ValueError as error:
            hint = "change data.seed_start, data.seed_count or evaluation.seeds"
            raise RunError("config", str(error), hint, exit_code=EXIT_CONFIG) from None
        sync = self._sync = choose(config, services.learner, services.engine, recorder.writer.paths.weights)
        return Pipeline(
            self._loaded,
            services,
            recorder,
            sync,
            player(play_rules(config, job_id, "train")),
            player(play_rules(config, job_id, "eval")),
            cursor,
            self._stopping,
        )

    # --- the end --------------------------------------------------------------------------------------------

    def _end(self, state: str, reason: str, error: RunError | None) -> int:
        """Writes the terminal event, then the terminal status, and says the result on stdout."""
        recorder = self._recorder
        code = EXIT_OK if state == "succeeded" else EXIT_INTERRUPTED if error is None else error.exit_code
        results = self._results(state)
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
                end_reason=reason,
                children=[],
                engines=[{**engine, "state": "gone"} for engine in recorder.writer.document.engines],
                error=None if error is None else error.record(),
                results=results,
            )
        if error is not None:
            say(f"{error.message}\n{error.hint}".rstrip())
            return tell("error", exit_code=code, **error.record())
        return tell("result", exit_code=code, state=state, end_reason=reason, results=results)

    def _results(self, state: str) -> dict[str, Any]:
        recorder, pipeline = self._recorder, self._pipeline
        means = pipeline.evaluations.results() if pipeline else {"first": None, "last": None, "best": None}
        clock = pipeline.clock if pipeline else None
        return {
            "status": state,
            "final_reward": pipeline.final_reward if pipeline else None,
            "best_reward": means["best"],
            "best_step": recorder.best["step"] if recorder.best else None,
            "model_id": f"rl:{self._config.policy.model_name}:{recorder.writer.job_id}",
            "checkpoints": recorder.checkpoints,
            "evaluation": means,
            "episodes": recorder.accepted,
            "iterations": recorder.iteration,
            "excluded": recorder.excluded,
            "wall_s": time.time() - recorder.started,
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


def say(text: object) -> None:
    """Words on stderr. It may be a log on a disk that is full."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def tell(type_: str, *, exit_code: int = EXIT_OK, **fields: Any) -> int:
    """One JSON line for whoever started us; a reader that went away is no reason to stop. Gives `exit_code` back."""
    with suppress(OSError, ValueError):
        print(json.dumps({"type": type_, **fields}), flush=True)
    return exit_code


def _no_folder(run_dir: Path, error: OSError) -> int:
    full = isinstance(error, DiskFull) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = "disk_full" if full else "run_dir"
    message = f"the run folder {run_dir} cannot be written: {error.strerror or error}"
    hint = "free some space" if full else "choose another folder with --run-dir"
    say(f"{message}; {hint}")
    return tell("error", code=code, message=message, hint=hint, exit_code=EXIT_FAILED if full else EXIT_CONFIG)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer", description="The training engine of rltui.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    add_arguments(verbs.add_parser("run", help="run a config to its end"))
    return parser.parse_args(argv)
