"""The machine: packages, GPUs, memory, disk, the run's folder, ports."""

from __future__ import annotations

import errno
import os
import socket
from importlib.util import find_spec
from pathlib import Path

from rltui.model.estimates import Facts, checkpoint_bytes, disk_bytes, engine_bytes, learner_bytes, sequences
from rltui.model.estimates import context as longest
from rltui.model.known import known
from rltui.preflight.base import Context, Found, Verdict, ok, skipped
from rltui.preflight.gpus import Gpu, chosen, gpus
from rltui.words import shortened, size
from trainer.config.gpus import on_gpu

PACKAGES = ("torch", "transformers", "peft", "safetensors", "jinja2")
GUESS = 1.5  # what is beyond by this much is refused where a model's size is only guessed by its name
IN_USE = 1 << 30  # bytes of a GPU that somebody else holds, from which it counts as in use


def packages(context: Context) -> Found:
    """What the trainer imports; that it can be found, not that it works."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return Found("fail", f"not installed here: {', '.join(missing)}", "pip install 'rltui[train]'")
    return ok(f"{', '.join(PACKAGES)} are installed")


def facts_of(context: Context) -> Facts:
    """What this machine says, read once."""
    if context.facts is None:
        assert context.loaded is not None
        context.facts = known(context.loaded)
    return context.facts


def devices(context: Context) -> Found:
    """GPUs that are asked for are there, and nobody uses them."""
    config = context.cfg
    if not on_gpu(config):
        assert context.loaded is not None
        if lacking := next((item for item in context.loaded.warnings if item.code == "gpus_found"), None):
            fix = "start it where there is one, as --target ssh://user@host, or take a config for a CPU"
            return Found("warn", lacking.why, fix, lacking.key)
        return skipped("the run takes place on the CPU")
    wanted, found = config.compute.gpu_count or 0, gpus()
    if found is None:
        return Found("warn", f"{wanted} GPUs are asked for, and nvidia-smi gives no answer here", tried="nvidia-smi")
    ours = context.gpus = chosen(found, context.environ.get("CUDA_VISIBLE_DEVICES"), wanted)
    if len(ours) < wanted:
        why = f"{wanted} GPUs are asked for, {len(ours)} are visible"
        return Found("fail", why, "compute.gpu_count, or CUDA_VISIBLE_DEVICES", "compute.gpu_count", "nvidia-smi")
    if busy := [gpu for gpu in ours if gpu.users or gpu.used > IN_USE]:
        told = "; ".join(_busy(gpu) for gpu in busy)
        free = [gpu.index for gpu in found if gpu not in busy]
        fix = f"CUDA_VISIBLE_DEVICES={','.join(free[:wanted])}" if len(free) >= wanted else "wait, or end who uses them"
        return Found("warn", f"in use: {told}", fix, "compute.gpu_count", "nvidia-smi")
    return ok(f"{wanted} x {ours[0].name}, {size(ours[0].total)} each, free", tried="nvidia-smi")


def _busy(gpu: Gpu) -> str:
    who = f" by {', '.join(gpu.users)}" if gpu.users else ""
    return f"GPU {gpu.index}, {size(gpu.used)} of {size(gpu.total)}{who}"


def memory(context: Context) -> Found:
    """Learner and engine, by estimate, against what is free: in memory on a CPU, on a GPU of its size."""
    config, facts = context.cfg, facts_of(context)
    if facts.shape is None:
        return skipped("the size of the model is not known")
    learner, (weights, token) = learner_bytes(config, facts.shape), engine_bytes(config, facts.shape)
    if not on_gpu(config):
        if facts.memory is None:
            return skipped("how much memory is free is not known")
        at_once = sequences(config) * longest(config, facts.shape)
        low, high = learner.low + weights, learner.high + weights + at_once * token
        told = f"learner {learner.text}, engine {size(weights)} and a cache of up to {size(at_once * token)}"
        fix = "policy.trainer_mode = lora, or " * (config.policy.trainer_mode == "full") + "a smaller policy.model_name"
        lower = "training.micro_batch_tokens, or vllm.max_model_len and rollout.max_concurrent_rollouts"
        return _fits(low, high, facts.memory, "free memory", told, facts, fix, lower)
    if not context.gpus:
        return skipped("how much memory a GPU has is not known")
    gpu = min(device.total for device in context.gpus)
    part = config.vllm.gpu_memory_utilization or 0.9
    shared = config.compute.topology.type == "single_node_colocate"
    if config.inference.url is None and weights > part * gpu:
        why = f"the engine's part, {part:g} x {size(gpu)}, is less than the weights, {size(weights)}"
        fix = "raise compute.topology.tensor_parallel, or take a smaller policy.model_name"
        return Found(_refusal(weights, part * gpu, facts), why, fix, "vllm.gpu_memory_utilization")
    room = (1 - part) * gpu if shared else gpu
    told = f"learner {learner.text} a GPU: {learner.sum}"
    smaller = {"full": "policy.trainer_mode = lora or qlora", "lora": "policy.trainer_mode = qlora"}
    fix = ", or ".join(
        [f"vllm.gpu_memory_utilization below {part:g}"] * shared
        + [smaller[mode] for mode in (config.policy.trainer_mode,) if mode in smaller]
        + ["a smaller policy.model_name"]
    )
    lower = "training.micro_batch_tokens"
    return _fits(learner.low, learner.high, room, "left for it on a GPU", told, facts, fix, lower)


def _fits(low: float, high: float, room: float, what: str, told: str, facts: Facts, fix: str, lower: str) -> Found:
    """fix: of what does not fit at all; lower: keys that hold down what the longest episodes take."""
    guessed = facts.shape is not None and facts.shape.guessed
    notes = (f"the size of the model is a guess by {facts.shape.source}",) if guessed and facts.shape else ()
    sum_ = f"{size(low)} to {size(high)} needed, {size(room)} {what}"
    if low > room:
        return Found(_refusal(low, room, facts), sum_, fix, "policy.trainer_mode", told, notes)
    if high > room:
        return Found("warn", f"{sum_}, at the longest episodes", f"lower {lower}", lower.partition(",")[0], told, notes)
    return Found("ok", sum_, tried=told, notes=notes)


def _refusal(need: float, room: float, facts: Facts) -> Verdict:
    """Of what does not fit: a guess that may be off by as much as is lacking is a warning."""
    guessed = facts.shape is not None and facts.shape.guessed
    return "warn" if guessed and need <= GUESS * room else "fail"


def disk(context: Context) -> Found:
    """Room for the checkpoints, as the trainer will estimate it."""
    config, facts = context.cfg, facts_of(context)
    if facts.disk is None:
        return skipped("how much disk is free is not known")
    if facts.shape is None:
        return ok(f"{size(facts.disk)} free; the size of the model is not known")
    need = disk_bytes(config, facts.shape)
    one = checkpoint_bytes(config, facts.shape).newest
    told = f"{size(need.high)} needed for checkpoints, {size(facts.disk)} free"
    fix = "lower checkpoint.keep_last, or set checkpoint.dir to a larger disk"
    if one > facts.disk:
        return Found(_refusal(one, facts.disk, facts), f"{told}: not even one fits", fix, "checkpoint.dir", need.sum)
    if need.high > facts.disk:
        return Found("warn", f"{told}: the run will pause", fix, "checkpoint.keep_last", need.sum)
    return ok(told, tried=need.sum)


def folder(context: Context) -> Found:
    """The run's folder is new, and can be made."""
    config = context.cfg
    place = (context.run_dir or Path(config.logging.runs_dir)).expanduser().absolute()
    key = "" if context.run_dir else "logging.runs_dir"
    if context.run_dir is not None and (place / "events.jsonl").exists():
        return Found("fail", f"{place} already holds a run", "give another folder")
    above = next(path for path in (place, *place.parents) if path.exists())
    if not above.is_dir():
        return Found("fail", f"{above} is not a folder", "give another folder", key)
    if not os.access(above, os.W_OK | os.X_OK):
        return Found("fail", f"{above} cannot be written to", "give another folder", key)
    return ok(f"new, {'' if context.run_dir else 'in '}{shortened(place)}")


def ports(context: Context) -> Found:
    """The gateway's port can be had."""
    host, port = context.cfg.inference.gateway_host, context.cfg.inference.gateway_port
    if not port:
        return ok("any free one", tried="inference.gateway_port = 0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Found("fail", _why_not(host, port, error), "0 takes any free one", "inference.gateway_port")
    return ok(f"{port} is free", tried=f"a socket on {host}:{port}")


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"{host}:{port} cannot be listened on: {error.strerror or error}"
    from rltui.smoke.target import holder_of

    holder = holder_of(port)
    return f"port {port} is in use" + (f" by process {holder.pid} ({holder.name()})" if holder is not None else "")
