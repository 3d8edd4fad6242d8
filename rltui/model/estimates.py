"""What a config amounts to: episodes, tokens, memory, disk, time. Pure; each number with the sum that it comes from.

Memory (b: bytes of a parameter in training.dtype, P: parameters, A: those of the adapter):
  full   P x 16 to 18 bytes over the learner's GPUs: weights and gradients in b, fp32 master and two moments (ZeRO,
         arXiv 1910.02054, section 3.1: 2 + 2 + 12); 18 with gradients in fp32. In float32 there is no master: 16.
  lora   P x b + A x 16: fp32 adapter, gradient and two moments.
  qlora  the linear layers at 4 bits + 0.127 for the constants (QLoRA, arXiv 2305.14314, section 3), the embedding in b,
         + A x 16.
  pass   34 bytes x hidden x tokens a layer at b = 2 (arXiv 2205.05198, section 4.1, without the attention matrix, which
         is not kept); with gradient_checkpointing b x hidden x tokens a layer, and one layer whole.
  engine weights in b (dequantised ones for qlora) + the cache, 2 x layers x width of the keys x b a token.
Disk: the trainer's own sum, trainer.rundir.need. Time: a past run of the same model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rltui.model.model_shape import DEFAULT_CONTEXT, Shape
from rltui.words import amount, duration, size
from trainer.config import Loaded, RunConfig
from trainer.config.gpus import on_gpu
from trainer.rundir.need import BYTES, Need, checkpoint_need

NF4 = (4 + 0.127) / 8  # bytes of a parameter
ADAPTER = 16  # bytes of one: weight, gradient, two moments, fp32
KEPT = 34  # bytes a token and unit of width that a layer keeps for its backward pass, at 2 bytes a number
MICRO_BATCH_TOKENS = 4096  # of the learner where training.micro_batch_tokens is not given
LOCAL_SEQUENCES = 64  # that are decoded at once where nothing says how many


class Line(NamedTuple):
    """One number: what it is of, as it is shown, and how it comes about."""

    label: str
    text: str
    sum: str


@dataclass(frozen=True, slots=True)
class Past:
    """A run of the same model on the same kind of device: what one of its iterations took."""

    name: str
    iterations: int
    episodes: int  # of one iteration
    seconds: float  # of one iteration
    trainer_mode: str
    tokens: float | None = None  # sampled in an episode, mean


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beside the config; None: not known. memory, disk: bytes that are free; gpu: bytes of one GPU."""

    shape: Shape | None = None
    past: Past | None = None
    memory: int | None = None
    disk: int | None = None
    gpu: int | None = None


NOTHING = Facts()


def of(loaded: Loaded, facts: Facts = NOTHING) -> list[Line]:
    """The numbers of a valid config, in the order of a run. One that cannot be told says why."""
    lines = [*_amounts(loaded), _tokens(loaded, facts)]
    lines += [_learner(loaded.config, facts), _engine(loaded.config, facts), _disk(loaded.config, facts)]
    return lines + _time(loaded, facts)


def _amounts(loaded: Loaded) -> list[Line]:
    config, n = loaded.config, loaded.derived
    rollout, training = config.rollout, config.training
    episodes = f"episodes_per_batch {rollout.episodes_per_batch} x batches_per_step {rollout.batches_per_step}"
    return [
        Line("episodes", f"{n['E']} an iteration", f"{episodes} = {n['E']}"),
        Line("groups", f"{n['groups']} of {training.group_size}", f"{n['E']} / group_size {training.group_size}"),
        Line(
            "steps",
            f"{n['steps']} in {n['iterations']} iterations",
            f"{n['E']} / {n['U']} episodes an update = {n['m']} an iteration x {n['iterations']}",
        ),
    ]


def _tokens(loaded: Loaded, facts: Facts) -> Line:
    episodes, config = loaded.derived["E"], loaded.config
    turns, most = config.rollout.max_turns, config.policy.max_tokens
    limit = episodes * turns * most
    total = f"{episodes} episodes x max_turns {turns} x max_tokens {most} = {amount(limit)}"
    if facts.past is not None and facts.past.tokens:
        usual = episodes * facts.past.tokens
        told = f"{episodes} x {facts.past.tokens:.0f} tokens an episode in {facts.past.name}; at most {total}"
        return Line("tokens", f"{amount(usual)} an iteration", told)
    return Line("tokens", f"at most {amount(limit)} an iteration", total)


# Memory


@dataclass(frozen=True, slots=True)
class Bytes:
    """From `low` to `high` bytes, and the sum in words."""

    low: float
    high: float
    sum: str

    @property
    def text(self) -> str:
        low, high = size(self.low), size(self.high)
        if low == high:
            return high
        number, unit = low.split(" ")
        return f"{number}-{high}" if high.endswith(unit) else f"{low} - {high}"


def learner_bytes(config: RunConfig, shape: Shape) -> Bytes:
    """Of each of the learner's GPUs, or of memory on a CPU; `high` holds the largest pass."""
    b, mode, ranks = BYTES[_dtype(config)], config.policy.trainer_mode, learner_gpus(config)
    everything = amount(shape.parameters)
    if mode == "full":
        low, high = (16, 18) if b == 2 else (16, 16)
        shared = f" / {ranks} GPUs" if ranks > 1 else ""
        each = f"{low}-{high}" if low != high else f"{low}"
        held, most = shape.parameters * low / ranks, shape.parameters * high / ranks
        words = f"{everything} parameters x {each} bytes{shared}"
    else:
        adapter = shape.adapter(config.training.lora.r, config.training.lora.target_modules)
        if mode == "qlora":
            base = (shape.parameters - shape.embedding) * NF4 + shape.embedding * b
            words = f"{amount(shape.parameters - shape.embedding)} x {NF4:.3f} + {amount(shape.embedding)} x {b} bytes"
        else:
            base = shape.parameters * b
            words = f"{everything} parameters x {b} bytes"
        held = most = base + adapter * ADAPTER
        words += f" + adapter {amount(adapter)} x {ADAPTER}"
    pass_, passing = _pass(config, shape, b)
    return Bytes(held, most + pass_, f"{words} = {size(held)}; a pass up to {size(pass_)} ({passing})")


def _pass(config: RunConfig, shape: Shape, b: int) -> tuple[float, str]:
    """What the largest forward pass keeps for its backward one."""
    training = config.training
    tokens = training.micro_batch_tokens or max(MICRO_BATCH_TOKENS, training.max_seq_len or context(config, shape))
    whole = KEPT * b / 2 * shape.hidden * tokens
    if training.gradient_checkpointing:
        return shape.layers * b * shape.hidden * tokens + whole, f"{tokens} tokens, recomputed by layer"
    return shape.layers * whole, f"{tokens} tokens x {shape.layers} layers x {shape.hidden} x {KEPT * b // 2} bytes"


def _learner(config: RunConfig, facts: Facts) -> Line:
    if facts.shape is None:
        return Line("learner", "not known", _no_shape(config))
    found = learner_bytes(config, facts.shape)
    where = "a GPU" if on_gpu(config) else "of memory"
    return Line("learner", f"about {found.text} {where}", found.sum + _guess(facts.shape))


def engine_bytes(config: RunConfig, shape: Shape) -> tuple[float, int]:
    """(weights of one engine on each of its GPUs, bytes of the cache a token)."""
    b, size = BYTES[_dtype(config)], config.compute.topology.tensor_parallel or 1
    return shape.parameters * b / size, round(shape.cache_bytes(b) / size)


def _engine(config: RunConfig, facts: Facts) -> Line:
    if config.inference.url is not None:
        return Line("engine", "none here", "inference.url names a server that runs already")
    if facts.shape is None:
        return Line("engine", "not known", _no_shape(config))
    weights, token = engine_bytes(config, facts.shape)
    b = BYTES[_dtype(config)]
    words = f"weights {amount(facts.shape.parameters)} x {b} bytes = {size(weights)}; cache {size(token)} a token"
    if on_gpu(config) and facts.gpu is not None:
        part = config.vllm.gpu_memory_utilization or 0.9
        room = part * facts.gpu - weights
        holds = f"cache {size(room)} = {amount(room / token)} tokens" if room > 0 else "no room for a cache"
        return Line(
            "engine",
            f"{size(part * facts.gpu)} a GPU",
            f"gpu_memory_utilization {part:g} x {size(facts.gpu)}; {words}; {holds}{_guess(facts.shape)}",
        )
    if on_gpu(config):
        return Line("engine", f"{size(weights)} and a cache, a GPU", words + _guess(facts.shape))
    at_once, length = sequences(config), context(config, facts.shape)
    most = weights + at_once * length * token
    words += f" x {at_once} at once x max_model_len {length}"
    text = Bytes(weights, most, "").text
    return Line("engine", f"{text} of memory", words + _guess(facts.shape))


def sequences(config: RunConfig) -> int:
    """How many the engine decodes at once, at most."""
    most = config.vllm.max_num_seqs or LOCAL_SEQUENCES
    return min(config.rollout.max_concurrent_rollouts or most, most)


def context(config: RunConfig, shape: Shape) -> int:
    """Tokens of the longest episode: vllm.max_model_len, else what the model was made for."""
    return config.vllm.max_model_len or shape.limit or DEFAULT_CONTEXT


def learner_gpus(config: RunConfig) -> int:
    """GPUs that the learner is spread over; 1 on a CPU."""
    return (config.compute.topology.gpus_for_training or 1) if on_gpu(config) else 1


def _dtype(config: RunConfig) -> str:
    dtype = config.training.dtype
    assert dtype is not None  # of a config that was loaded
    return dtype


def _no_shape(config: RunConfig) -> str:
    name = config.policy.model_name or config.policy.source or "the model"
    return f"{name} is not on this machine, and its name has no size in it"


def _guess(shape: Shape) -> str:
    return f". A guess by {shape.source}" if shape.guessed else ""


# Disk and time


def checkpoint_bytes(config: RunConfig, shape: Shape) -> Need:
    """Of one checkpoint, as the trainer estimates it."""
    mode = config.policy.trainer_mode
    adapter = shape.adapter(config.training.lora.r, config.training.lora.target_modules)
    return checkpoint_need(mode, _dtype(config), shape.parameters, shape.parameters if mode == "full" else adapter)


def disk_bytes(config: RunConfig, shape: Shape) -> Bytes:
    """Of the checkpoints that are kept; episodes and logs come on top."""
    need, kept = checkpoint_bytes(config, shape), config.checkpoint
    number = kept.keep_last + kept.keep_best
    words = f"{number} kept x {size(need.weights)} + 2 newest x {size(need.newest)}, optimizer included"
    return Bytes(need.kept(number), need.kept(number), words)


def _disk(config: RunConfig, facts: Facts) -> Line:
    if facts.shape is None:
        return Line("disk", "not known", _no_shape(config))
    need = disk_bytes(config, facts.shape)
    free = f" of {size(facts.disk)} free" if facts.disk is not None else ""
    return Line("disk", f"about {need.text}{free}", need.sum + _guess(facts.shape))


def _time(loaded: Loaded, facts: Facts) -> list[Line]:
    past, n, config = facts.past, loaded.derived, loaded.config
    name = config.policy.model_name or config.policy.source
    if past is None:
        return [Line("time", "not known", f"no past run of {name} on such a device in {config.logging.runs_dir}")]
    each = past.seconds / past.episodes
    seconds = n["iterations"] * n["E"] * each
    mode = "" if past.trainer_mode == config.policy.trainer_mode else f", with {past.trainer_mode}"
    words = (
        f"{n['iterations']} iterations x {n['E']} episodes x {each:.3g} s; {past.name} took {past.seconds:.3g} s for "
        f"{past.episodes} episodes{mode}"
    )
    lines = [Line("time", f"about {duration(seconds)}", words)]
    gpus = config.compute.gpu_count or 0
    if on_gpu(config) and gpus:
        hours = seconds / 3600
        lines.append(Line("GPU-hours", f"about {hours * gpus:.3g}", f"{hours:.3g} h x {gpus} GPUs"))
    return lines
