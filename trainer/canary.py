"""`python -m trainer canary RUN`: does the engine run the weights of a checkpoint? For who doubts it, without a run.

Learner and engine begin with the model that the run began with, which gives the noise between them. Then the learner
takes the checkpoint's weights and sends them as a run does, and the change must be the same on both sides
(weights/canary.py). JSON lines: `progress`, `ready` once both are up, then `result {verified, slope, residual, noise}`,
and exit code 0 where they are verified, 1 where that cannot be told; or `error {code, message, hint}` and exit code 2
or 3. Weights that are refused: weight_sync_mismatch, with the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from trainer.config import ConfigError, Loaded, RunConfig, load, load_text
from trainer.devices import learner_places
from trainer.engine_model import model_of_engine
from trainer.errors import EXIT_CONFIG, EXIT_INTERRUPTED, EXIT_OK, RunError
from trainer.inference.choose import build_engines, one_engine
from trainer.inference.engine import Engine, EngineConfigError, EngineError
from trainer.inference.vllm.engine import VllmEngine
from trainer.inference.vllm.http import without_user
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.learner.protocol import LearnerSettings
from trainer.models import ResolvedModel
from trainer.opening import as_sets, go_to
from trainer.placing import choose as nodes
from trainer.placing.base import Placed, Placing, PlacingError, Sink
from trainer.processes import own_prefix, remove_stale_socket_folders
from trainer.rundir.attempts import NoEarlierAttempt, read_earlier
from trainer.rundir.checkpoints import read_checkpoint
from trainer.serve_policy import ENGINE_PROBLEMS, MEND, fail, resolve, to_stderr
from trainer.server_in_use import runs_in, used_by
from trainer.settings import learner_settings
from trainer.start_from import CannotStart, Start, start_of
from trainer.stdio import say, tell
from trainer.waiting import together
from trainer.weights.base import TIMEOUT_S, WeightSyncError, WeightSyncMismatch, bounded
from trainer.weights.canary import Measured, in_words, most_noise
from trainer.weights.choose import choose
from trainer.weights.readings import unpack_reading
from trainer.weights.served import ServedAdapter, judge_served
from trainer.weights.verified import VerifiedSync

PROBLEMS = (*ENGINE_PROBLEMS, "qlora", "launcher")  # of a launch: those that concern engine and learner
SEND_OTHERWISE = "try another training.weight_sync.mode, or training.weight_sync.direct = false"
SEND = "start the server anew with them, or leave --served-as out and have them sent"
LOOK = "what the processes printed stands above"
EXIT_UNDECIDED = 1  # nothing speaks against the weights, and nothing for them


class OtherModel(WeightSyncError):
    """Engine and learner differ before the weights are sent."""

    code = WeightSyncMismatch.code

    def __init__(self, noise: float, most: float) -> None:
        super().__init__(f"they differ by {noise:.2g} nats, of which at most {most:.2g} can be noise")
        self.noise = noise


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is told. `verified`: as of a sync (WIRE 3.5)."""

    verified: bool | str | None
    figures: Measured
    resent: bool = False  # a first sending did not arrive, the second did


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Whether the engine runs the weights of a checkpoint.\n"
        "Exit status: 0 it does, 1 the change is too small to tell, 2 config or environment,\n"
        "3 it does not, or the check failed, 130 interrupted."
    )
    parser.add_argument("run", type=Path, help="a run's folder; or a config, with --checkpoint")
    parser.add_argument("--checkpoint", metavar="SOURCE", help="as in policy.source (default: the newest of the run)")
    parser.add_argument(
        "--served-as",
        metavar="NAME",
        help="the server at inference.url has these weights already, as the model or adapter NAME: nothing is sent",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown config keys are warnings")


def main(arguments: argparse.Namespace) -> int:
    """Exit code: 0 verified, 1 the change is too small to tell, 2 config or environment, 3 refused or failed, 130."""
    try:
        loaded, source = _opened(arguments)
        if problems := [p for p in loaded.launch_problems() if p.code in PROBLEMS]:
            raise ConfigError(problems)
        if arguments.served_as is None:
            _refuse_in_use(loaded.config, arguments.run.absolute())
        loaded.export(os.environ)
        return asyncio.run(_until_stopped(Check(loaded, source, arguments.served_as)))
    except ConfigError as error:
        return fail(RunError("config", str(error), MEND, exit_code=EXIT_CONFIG))
    except NoEarlierAttempt as error:
        hint = "give the folder of a run (`rltui runs` lists them), or a config and --checkpoint"
        return fail(RunError("config", str(error), hint, exit_code=EXIT_CONFIG))
    except CannotStart as error:
        message = str(error).removeprefix("policy.source: ")
        return fail(RunError("source_not_found", message, error.hint, exit_code=EXIT_CONFIG))
    except RunError as error:
        return fail(error)
    except OSError as error:
        message = f"{error.filename or arguments.run}: {error.strerror or error}"
        return fail(RunError("config", message, "it has to be readable, and TMPDIR writable", exit_code=EXIT_CONFIG))


def _opened(arguments: argparse.Namespace) -> tuple[Loaded, str]:
    """The config, and the checkpoint as policy.source names it. Raises ConfigError, NoEarlierAttempt, RunError."""
    run, source, options = arguments.run.absolute(), arguments.checkpoint, {"allow_unknown": arguments.allow_unknown}
    if source is not None and Path(source).exists():
        source = str(Path(source).absolute())
    if run.is_dir():
        earlier = read_earlier(run)
        options["allow_unknown"] |= earlier.allow_unknown
        go_to(earlier.cwd)
        sets = [*as_sets(earlier.sets), *arguments.sets]
        return load_text(earlier.config_text, earlier.config_name, sets=sets, **options), source or str(run)
    if source is None:
        why = f"{arguments.run} is no folder of a run, so nothing says which checkpoint is meant"
        raise RunError("config", why, "give --checkpoint, or a run's folder", exit_code=EXIT_CONFIG)
    return load(run, sets=arguments.sets, **options), source


def _refuse_in_use(config: RunConfig, run: Path) -> None:
    """Raises RunError where weights would be sent to the server of a live run."""
    url = config.inference.url
    if url is None:
        return
    user = used_by(url, [run, *runs_in(Path(config.logging.runs_dir).expanduser())])
    if user is not None:
        why = f"the run in {user} lives and samples from the server at {without_user(url)}: weights that are sent there"
        hint = "stop that run first, or give --served-as NAME where the server has the weights: then nothing is sent"
        raise RunError("config", f"{why} would be in its rollouts", hint, exit_code=EXIT_CONFIG)


async def _until_stopped(check: Check) -> int:
    work = asyncio.ensure_future(check.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        return EXIT_INTERRUPTED


class Check:
    """One checkpoint against one engine."""

    def __init__(self, loaded: Loaded, source: str, served_as: str | None) -> None:
        """Raises CannotStart, RunError."""
        config = loaded.config
        if served_as is not None and config.inference.url is None:
            why = f"--served-as {served_as} names what a running server serves, and the config has no inference.url"
            raise RunError("config", why, "--set inference.url=URL", exit_code=EXIT_CONFIG)
        policy = config.policy.model_copy(update={"source": source, "model_name": None})
        self._end = start_of(config.model_copy(update={"policy": policy}))
        if self._end.adapter is None and config.policy.trainer_mode != "full":
            why = f"{self._end.model} holds full weights, and policy.trainer_mode is {config.policy.trainer_mode}"
            how = "--set policy.trainer_mode=full"
            raise RunError("config", f"{why}: an adapter cannot bring them to the engine", how, exit_code=EXIT_CONFIG)
        self._begin = self._end.model if self._end.adapter is not None else start_of(config).model
        self._checkpoint = self._end.adapter or Path(self._end.model)
        self._loaded, self._served_as = loaded, served_as

    async def run(self) -> int:
        """Raises RunError, ConfigError."""
        remove_stale_socket_folders()
        try:
            async with AsyncExitStack() as stack:
                verdict = await self._verdict(stack)
        except ConfigError:
            raise
        except EngineConfigError as error:  # such as a context too short for the prefixes
            raise RunError("config", str(error), MEND, exit_code=EXIT_CONFIG) from None
        except OtherModel as error:
            return self._other_model(error)
        except WeightSyncMismatch as error:
            assert error.report.canary is not None
            return self._told(Verdict(False, error.report.canary))
        except EngineError as error:
            raise RunError("engine_failed", str(error), LOOK) from None
        except LearnerError as error:
            raise RunError(error.code, str(error), LOOK if "logs/" in error.hint else error.hint) from None
        except WeightSyncError as error:
            raise RunError(error.code, str(error), LOOK) from None
        except PlacingError as error:
            raise RunError("no_nodes", str(error), error.hint, error.evidence, exit_code=EXIT_CONFIG) from None
        return self._told(verdict)

    async def _verdict(self, stack: AsyncExitStack) -> Verdict:
        model = await resolve(self._begin, stack)
        loaded = self._loaded.for_model(model.context_limit)
        end = model if self._end.adapter is not None else await resolve(self._end.model, stack)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix=f"{own_prefix()}canary_")))
        placing = nodes.placing_of(loaded.config, to_stderr)
        stack.push_async_callback(placing.stop)
        await nodes.start(placing, loaded.config)
        await nodes.check_shared(placing, [folder], [model.path / "config.json"])
        tell("progress", message=f"engine and learner load {model.name}")
        engine = await self._engine(loaded.config, model, placing, folder, stack)
        learner = self._learner(loaded, model.path, Start(self._begin), placing)
        stack.push_async_callback(learner.stop)
        limit = loaded.config.inference.startup_timeout_s
        await together(engine.start(), learner.start(limit))
        tell("ready", checkpoint=str(self._checkpoint), engine=engine.present())

        async def load_checkpoint() -> None:
            tell("progress", message=f"the learner loads {self._checkpoint}")
            await learner.greet(_settings(loaded, end.path, self._end), limit)
            learner.steps = self._step  # whatever they are: other weights than those before

        if isinstance(engine, VllmEngine) and self._served_as == engine.own_name:
            judging = judge_served(engine, learner, load_checkpoint, self._noise())
            finding = await bounded(judging, TIMEOUT_S, "engine and learner did not answer the canary")
            verified = {"verified": True, "failed": False}.get(finding.verdict, finding.verdict)
            return Verdict(verified, finding)
        sync = self._sync(loaded.config, learner, engine, folder, placing)
        stack.callback(sync.close)
        return await _of_sync(sync, load_checkpoint, most_noise(self._measured(), loaded.config.training.dtype))

    async def _engine(
        self, config: RunConfig, model: ResolvedModel, placing: Placing, folder: Path, stack: AsyncExitStack
    ) -> Engine:
        """Not started."""
        if self._served_as is not None:  # a server that gets nothing needs no way for it
            off = config.training.weight_sync.model_copy(update={"enable": False})
            config = config.model_copy(update={"training": config.training.model_copy(update={"weight_sync": off})})

        def log(name: str) -> Sink:
            return to_stderr

        def started(child: Placed) -> None:
            stack.push_async_callback(child.terminate)

        model = await model_of_engine(config, model, placing, folder, log, started)
        engine = one_engine(build_engines(config, model, placing, log))
        stack.push_async_callback(engine.stop)
        return engine

    def _learner(self, loaded: Loaded, model: Path, start: Start, placing: Placing) -> LearnerProcess:
        places = learner_places(loaded.config, [node.gpus for node in placing.nodes])
        threads = placing.nodes[places[0].node].cores
        settings = _settings(loaded, model, start)
        return LearnerProcess(settings, threads=threads, sink=to_stderr, places=places, placing=placing)

    def _sync(
        self, config: RunConfig, learner: LearnerProcess, engine: Engine, folder: Path, placing: Placing
    ) -> VerifiedSync:
        if self._served_as is not None:
            assert isinstance(engine, VllmEngine)
            return VerifiedSync(ServedAdapter(engine, self._served_as), engine, learner, 1)
        sync = choose(config, learner, engine, folder, say, placing=placing)
        if sync is None:
            why = "training.weight_sync is off, so the weights have no way to the engine"
            hint = "--set training.weight_sync.enable=true, or --served-as where a server has them already"
            raise RunError("config", why, hint, exit_code=EXIT_CONFIG)
        sync.verify_every_k = 1
        return sync

    @property
    def _step(self) -> int:
        found = read_checkpoint(self._checkpoint)
        return found.step if found is not None and found.step else 1

    def _measured(self) -> float | None:
        """Noise between engine and learner in nats, as the run of the checkpoint measured it, if it did."""
        try:
            state = json.loads((self._checkpoint / "state.json").read_text())
            found = [max(float(one["noise"]), unpack_reading(one).noise) for one in state["canary"]["replicas"]]
            return _finite(max(found))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _noise(self) -> float:
        """Raises RunError where the checkpoint does not say."""
        if (measured := self._measured()) is not None:
            return measured
        raise RunError(
            "config",
            f"{self._checkpoint} does not say how much noise its run measured, and {self._served_as} is the "
            "server's own model, which leaves nothing to measure it by",
            "serve the adapter beside its base and give its name, or leave --served-as out",
            exit_code=EXIT_CONFIG,
        )

    def _other_model(self, error: OtherModel) -> int:
        dtype = self._loaded.config.training.dtype
        message = f"the engine does not run {self._begin} in {dtype}, which {self._checkpoint} began with: {error}"
        facts = {"slope": None, "residual": None, "noise": _finite(error.noise), "checkpoint": str(self._checkpoint)}
        hint = f"serve {self._begin} in {dtype}; log-probabilities have to be those of the prompt that was asked"
        return fail(RunError(error.code, message, hint), verified=False, **facts)

    def _told(self, verdict: Verdict) -> int:
        figures = {name: _finite(getattr(verdict.figures, name)) for name in ("slope", "residual", "noise")}
        facts: dict[str, Any] = {"verified": verdict.verified, **figures, "checkpoint": str(self._checkpoint)}
        if verdict.verified is False:
            message = (
                f"the engine does not run the weights of {self._checkpoint}: its log-probabilities did not change as "
                f"the learner's did ({in_words(verdict.figures)})"
            )
            hint = SEND_OTHERWISE if self._served_as is None else SEND
            return fail(RunError(WeightSyncMismatch.code, message, hint), **facts)
        verified = verdict.verified is True
        known = "the engine runs" if verified else "NOT VERIFIED: the change is too small to tell if the engine runs"
        say(f"{known} the weights of {self._checkpoint}: {in_words(verdict.figures)}")
        if verdict.resent:
            say("they arrived with the second sending alone")
        return tell("result", exit_code=EXIT_OK if verified else EXIT_UNDECIDED, **facts, resent=verdict.resent)


async def _of_sync(sync: VerifiedSync, load: Callable[[], Awaitable[object]], most: float) -> Verdict:
    """Raises OtherModel where the noise is more than `most` nats, WeightSyncMismatch, and as a sync does."""
    await sync.start(0)
    if not sync.noise <= most:
        raise OtherModel(sync.noise, most)
    await load()
    report = await sync.sync(1)
    assert report.canary is not None
    return Verdict(report.verified, report.canary, report.resent)


def _settings(loaded: Loaded, model: Path, start: Start) -> LearnerSettings:
    """Of a learner that learns nothing."""
    return msgspec.structs.replace(learner_settings(loaded, model, start), reference="none", kl_coef=0.0)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
