"""`python -m trainer serve-policy CONFIG`: the model of a config behind the gateway, for who tests a task app with it.

JSON lines. Out: `{type: progress, message}`, then `{type: ready, url, model}`, or `{type: error, code, message, hint}`
and exit code 2 or 3. In: `{id, op: open, cid, sampling}` gives the address of an episode, `{id, op: collect, cid}` ends
it and gives what was recorded of it; each is answered by `{type: result, id, ...}` or `{type: error, id, message,
hint}`. The process ends when stdin closes, and with it all that it started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

from trainer.config import ConfigError, Loaded, load
from trainer.devices import local_gpus
from trainer.errors import EXIT_CONFIG, EXIT_INTERRUPTED, EXIT_OK, RunError
from trainer.inference.choose import build_engines, engine_notes, one_engine
from trainer.inference.engine import Engine, EngineConfigError, EngineError
from trainer.inference.gateway import Gateway, GatewayError
from trainer.inference.ledger import CallError, CallPolicy, CallRecord
from trainer.inference.vllm.process import is_installed
from trainer.models import ModelNotFound, ResolvedModel, needs_conversion, resolve_model
from trainer.placing.local import LocalPlacing
from trainer.processes import remove_stale_socket_folders, spawn
from trainer.rollout.player import PlayRules
from trainer.rollout.trajectories import COUNTS, TokenRecordError, assemble
from trainer.rollout.types import Call
from trainer.settings import play_rules
from trainer.stdio import say, tell

Json = dict[str, Any]
Lines = asyncio.Queue[bytes]

ENGINE_PROBLEMS = ("engine", "too_few_gpus", "tool_parser")  # of a launch: those that concern the engine
MEND = "see `rltui validate` on the config"


class Refused(ValueError):
    """A request that cannot be carried out. hint: what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Desk:
    """Opens and collects episodes of a gateway."""

    def __init__(self, gateway: Gateway, rules: PlayRules) -> None:
        self._gateway, self._rules = gateway, rules
        self._opened = count()  # part of the sampling seeds: members of a group must differ

    def answer(self, request: Json) -> Json:
        """The fields of the result. Raises Refused."""
        cid = request.get("cid")
        if not isinstance(cid, str) or not cid:
            raise Refused("cid is missing", "give the correlation id of an episode")
        if request.get("op") == "open":
            return self._open(cid, request.get("sampling") or {})
        if request.get("op") == "collect":
            return self._collect(cid)
        raise Refused(f"there is no op {request.get('op')!r}", "ask for open or collect")

    def _open(self, cid: str, sampling: Any) -> Json:
        policy = call_policy(self._rules, sampling, next(self._opened))
        try:
            self._gateway.ledger.open(cid, policy)
        except ValueError as error:
            raise Refused(str(error), "give each episode an id of its own") from None
        return {"url": self._gateway.chat_url(cid)}

    def _collect(self, cid: str) -> Json:
        try:
            record = self._gateway.ledger.close(cid)
        except KeyError:
            raise Refused("no open episode has this cid", "open it first; each is collected once") from None
        return collected(record)


def call_policy(rules: PlayRules, sampling: Any, episode: int) -> CallPolicy:
    """How the calls of an episode are sampled: as a run's, but for what `sampling` gives. Raises Refused."""
    if not isinstance(sampling, dict):
        raise Refused("sampling must be an object", "give temperature, max_tokens, stop, or nothing")
    temperature = sampling.get("temperature", rules.temperature)
    max_tokens = sampling.get("max_tokens", rules.max_tokens)
    stop = sampling.get("stop", rules.stop)
    if not _is_number(temperature) or not 0 < temperature <= 100:
        raise Refused("sampling.temperature must be over 0, at most 100", "leave it out for policy.temperature")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise Refused("sampling.max_tokens must be a whole number of at least 1", "leave it out for policy.max_tokens")
    if not isinstance(stop, list | tuple) or not all(isinstance(text, str) for text in stop):
        raise Refused("sampling.stop must be a list of strings", "leave it out for policy.stop_sequences")
    return CallPolicy(
        split="train",
        temperature=temperature,
        max_tokens=max_tokens,
        stop=tuple(stop),
        seed_parts=(rules.seed, episode),
        template_kwargs=rules.template_kwargs,
    )


def collected(record: CallRecord) -> Json:
    """What is told of an episode's calls. broken: why training could not use its tokens, or null."""
    broken, counts = None, dict.fromkeys(COUNTS, 0)
    try:
        counts = assemble(record.calls).counts
    except TokenRecordError as error:
        broken = str(error)
    sampled = [call for call in record.calls if call.completion_token_ids]
    return {
        "calls": [*_calls(record)],
        **counts,
        "broken": broken,
        "sampling_forced": sorted(record.forced),
        "logprobs": bool(sampled) and all(len(c.logprobs) == len(c.completion_token_ids) for c in sampled),
    }


def _calls(record: CallRecord) -> list[Json]:
    """Those that the engine took up, in order; then those that were refused before."""
    failed = {call.call for call in record.calls if call.finish_reason == "error"}
    errors = {error.call: error for error in record.errors if error.call in failed}
    refused = [error for error in record.errors if error.call not in failed]
    return [*(_call(call, errors.get(call.call)) for call in record.calls), *map(_refused, refused)]


def _call(call: Call, error: CallError | None) -> Json:
    told = {
        "messages": call.messages,
        "tools": call.tools,
        "text": call.response.get("content") or "",
        "tool_calls": call.response.get("tool_calls") or [],
        "prompt_tokens": len(call.prompt_token_ids),
        "completion_tokens": len(call.completion_token_ids),
        "finish_reason": call.finish_reason,
        "seconds": max(0.0, call.t_end - call.t_queued),
    }
    return told if error is None else told | {"error": _error_text(error)}


def _refused(error: CallError) -> Json:
    nothing = {"messages": [], "tools": None, "text": "", "tool_calls": [], "prompt_tokens": 0, "completion_tokens": 0}
    return {**nothing, "finish_reason": "error", "seconds": 0.0, "error": _error_text(error)}


def _error_text(error: CallError) -> str:
    return f"{error.status} {error.code}: {error.message}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- the process --------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help="the run's TOML file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown config keys are warnings")


def main(arguments: argparse.Namespace) -> int:
    """Serves until stdin closes. Exit code: 0, 2 config or environment, 3 the engine failed, 130 interrupted."""
    try:
        loaded = load(arguments.config, sets=arguments.sets, allow_unknown=arguments.allow_unknown)
        if problems := [p for p in loaded.launch_problems() if p.code in ENGINE_PROBLEMS]:
            raise ConfigError(problems)
        loaded.export(os.environ)
        return asyncio.run(_serve_until_closed(loaded))
    except ConfigError as error:
        return fail(RunError("config", str(error), MEND, exit_code=EXIT_CONFIG))
    except GatewayError as error:
        return fail(RunError("gateway", str(error)))
    except RunError as error:
        return fail(error)


def fail(error: RunError, **facts: Any) -> int:
    """The end of a verb, on both streams. `facts`: what else its line tells."""
    say(f"{error.message}\n{error.hint}".rstrip())
    fields = {"code": error.code, "message": error.message, "hint": error.hint}
    return tell("error", **fields, **facts, exit_code=error.exit_code)


async def _serve_until_closed(loaded: Loaded) -> int:
    """stdin is read from the start: who asked may be gone before the model is loaded."""
    loop, lines, closed = asyncio.get_running_loop(), Lines(), asyncio.Event()
    threading.Thread(target=_read_stdin, args=(loop, lines, closed), daemon=True).start()
    work = asyncio.ensure_future(_serve(loaded, lines))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    end = asyncio.ensure_future(closed.wait())
    await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
    interrupted = work.cancelled()
    end.cancel()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    return EXIT_INTERRUPTED if interrupted else EXIT_OK


def _read_stdin(loop: asyncio.AbstractEventLoop, lines: Lines, closed: asyncio.Event) -> None:
    """In a thread: an event loop cannot watch every kind of file that stdin may be."""
    with suppress(RuntimeError):  # the loop has ended
        with open(0, "rb", closefd=False) as stdin:
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(closed.set)


async def _serve(loaded: Loaded, lines: Lines) -> None:
    """Raises RunError, ConfigError."""
    remove_stale_socket_folders()
    async with AsyncExitStack() as stack:
        policy = loaded.config.policy
        model = await resolve(policy.model_name or policy.source or "", stack)
        loaded = loaded.for_model(model.context_limit)
        tell("progress", message=f"the engine loads {model.name}")
        engine = await _start_engine(loaded, model, stack)
        # Always a free port of loopback: a run with this config may have its own gateway's.
        gateway = Gateway(engine)
        stack.push_async_callback(gateway.stop)
        await gateway.start()
        tell("ready", url=gateway.url, model=engine.model_name)
        desk = Desk(gateway, play_rules(loaded.config, "smoke", "train", loaded.blend))
        answering = asyncio.ensure_future(_answer_all(desk, lines))
        await asyncio.wait({answering, engine.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            raise RunError("engine_down", getattr(engine, "fate", "") or "the engine process ended", _tail(engine))


async def resolve(name: str, stack: AsyncExitStack) -> ResolvedModel:
    """The folder of a model. What has to be converted is converted by a child that ends with us."""
    tell("progress", message=f"looking for the model {name}")
    try:
        if needs_conversion(name):
            tell("progress", message=f"{name} is converted once, which takes half a minute")
            child = await spawn("model", [sys.executable, "-m", "trainer.models", name], sink=to_stderr)
            stack.push_async_callback(child.terminate)
            if await asyncio.shield(child.ended):
                raise ModelNotFound(f"{name} could not be converted: {child.tail.strip()}")
        return await asyncio.to_thread(resolve_model, name)
    except ModelNotFound as error:
        raise RunError("model_not_found", str(error), MEND, exit_code=EXIT_CONFIG) from None


async def _start_engine(loaded: Loaded, model: ResolvedModel, stack: AsyncExitStack) -> Engine:
    for note in engine_notes(loaded.config, installed=is_installed()):
        tell("progress", message=note)
    engine: Engine | None = None
    try:
        placing = LocalPlacing(
            local_gpus(loaded.config, os.environ)[0]
        )  # a test takes place here, whatever the run will
        await placing.start()
        engine = one_engine(build_engines(loaded.config, model, placing, lambda name: to_stderr))
        stack.push_async_callback(engine.stop)
        await engine.start()
    except EngineConfigError as error:
        raise RunError("config", str(error), MEND, exit_code=EXIT_CONFIG) from None
    except EngineError as error:
        raise RunError("engine_down", str(error), _tail(engine)) from None
    return engine


def to_stderr(line: bytes) -> None:
    say(line.decode(errors="replace").rstrip())


def _tail(engine: Engine | None) -> str:
    return (getattr(engine, "tail", "").strip().splitlines() or [""])[-1]


async def _answer_all(desk: Desk, lines: Lines) -> None:
    """Until cancelled."""
    while True:
        line, number = await lines.get(), None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise Refused("a request must be an object", "send {id, op, cid}")
            number = request.get("id")
            tell("result", id=number, **desk.answer(request))
        except Refused as error:
            tell("error", id=number, message=str(error), hint=error.hint)
        except (ValueError, RecursionError) as error:
            tell("error", id=number, message=f"the line is not JSON: {error}", hint="send one JSON object a line")
