"""The [vllm] table, and what the gateway needs, as vLLM's command line (CONFIG, section [vllm]). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainer.config.engine_options import why_refused

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM allows as its maximum
EXTENSION = "trainer.inference.vllm.worker.WorkerExtension"
GUARD = "trainer.inference.vllm.guarded.Guarded"
BACKEND = "rltui_files"  # as worker.py registers it
TRANSFER_FLAGS = f'--worker-extension-cls {EXTENSION} --weight-transfer-config \'{{"backend": "{BACKEND}"}}\''
Sync = Literal["full", "lora", "none"]
STREAM_INTERVAL = 8
CANARY_LOGPROBS = 20

CPU_BATCHED_TOKENS = 4096
# "CPU Generator does not use offset": seen in 0.32.0, when more prompts arrive at once than one step takes
WHOLE_PROMPTS = "vLLM ends when the prompt of a call with a seed is split over two steps"


class OptionRefused(ValueError):
    """A key of [vllm] that the gateway depends on; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """One replica. What is None is left to vLLM."""

    model: Path
    name: str  # what the user calls the model
    dtype: str
    seed: int
    max_model_len: int
    sync: Sync
    cuda_devices: tuple[str, ...] = ()  # empty: on the CPU
    shares_gpus: bool = False  # with the learner: it sleeps during updates
    takes_handles: bool = False  # weights over CUDA IPC, told to it as pickled handles
    cores: tuple[int, ...] = ()  # CPU: the cores it may use
    lora_r: int = 16
    four_bit: bool = False  # quantises the model as it loads it
    versioned: bool = False  # adapters: a name for each version, instead of one that is updated in place
    pins: bool = False  # adapters: room for one more, which an evaluation plays with
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    images_per_prompt: int | None = None
    tool_call_parser: str | None = None  # one of vLLM's
    extra: Mapping[str, Any] = field(default_factory=dict)  # vllm.<other>

    @property
    def max_loras(self) -> int:
        """Adapters that may be live at once."""
        return (2 if self.versioned else 1) + self.pins

    @property
    def on_cpu(self) -> bool:
        return not self.cuda_devices


def lora_rank(r: int) -> int:
    """The smallest maximum that vLLM allows and that holds adapters of rank `r`. Raises OptionRefused."""
    for allowed in LORA_RANKS:
        if allowed >= r:
            return allowed
    raise OptionRefused(f"training.lora.r = {r}: vLLM serves adapters up to rank {LORA_RANKS[-1]}")


def arguments(settings: VllmSettings, served_name: str, at: str | tuple[str, int]) -> list[str]:
    """What follows the server's module. Raises OptionRefused.

    Args:
        at: the path of a socket; or host and port, where every call needs the run token (guarded.py).
    """
    for key in settings.extra:
        if (why := why_refused(key)) is not None:
            raise OptionRefused(f"vllm.{key} cannot be set: {why}; delete it")
    where = {"uds": at} if isinstance(at, str) else {"host": at[0], "port": at[1], "middleware": GUARD}
    own: dict[str, Any] = {
        **where,
        "served_model_name": served_name,
        "dtype": settings.dtype,
        "seed": settings.seed,
        "max_model_len": settings.max_model_len,
        "enable_scale_out": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": CANARY_LOGPROBS,
        "stream_interval": STREAM_INTERVAL,
        "disable_uvicorn_access_log": True,
        "max_num_seqs": settings.max_num_seqs,
        "tensor_parallel_size": max(1, len(settings.cuda_devices)),
        # torch.compile takes minutes on a CPU, and there are no CUDA graphs to win
        "enforce_eager": settings.enforce_eager or settings.on_cpu,
    }
    if settings.images_per_prompt is not None:
        own["limit_mm_per_prompt"] = {"image": settings.images_per_prompt}
    if settings.tool_call_parser is not None:
        own |= {"enable_auto_tool_choice": True, "tool_call_parser": settings.tool_call_parser}
    if settings.sync != "none":
        own["worker_extension_cls"] = EXTENSION
    if settings.sync == "full":
        own["weight_transfer_config"] = {"backend": BACKEND}
    if settings.sync == "lora":
        rank = lora_rank(settings.lora_r)
        own |= {"enable_lora": True, "max_lora_rank": rank, "max_loras": settings.max_loras}
    if settings.shares_gpus and not settings.on_cpu:
        own["enable_sleep_mode"] = True
    if settings.four_bit:
        own |= {"quantization": "bitsandbytes", "load_format": "bitsandbytes"}
    extra = {key.replace("-", "_"): value for key, value in settings.extra.items()}
    if settings.on_cpu:
        if extra.get("enable_chunked_prefill"):
            raise OptionRefused(f"vllm.enable_chunked_prefill cannot be set on a CPU: {WHOLE_PROMPTS}; delete it")
        own["enable_chunked_prefill"] = False
        own["max_num_batched_tokens"] = max(CPU_BATCHED_TOKENS, settings.max_model_len)
        if not extra.keys() & {"kv_cache_memory_bytes", "gpu_memory_utilization"}:
            own["kv_cache_memory_bytes"] = cpu_cache_bytes(settings)
    elif "kv_cache_memory_bytes" not in extra:
        own["gpu_memory_utilization"] = settings.gpu_memory_utilization
    return [f"--model={settings.model}", *flags({**own, **extra})]


def flags(options: Mapping[str, Any]) -> list[str]:
    """`a_b = 1` is --a-b=1, true --a-b, false --no-a-b; a table is JSON, a list several words, None nothing.

    Raises OptionRefused: a word of a list would be read as an option.
    """
    words: list[str] = []
    for key, value in options.items():
        flag = key.replace("_", "-")
        if value is None or (key == "enforce_eager" and value is False):
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, Mapping):
            words.append(f"--{flag}={json.dumps(value)}")
        elif isinstance(value, list | tuple):
            if any(isinstance(item, str) and item.startswith("-") for item in value):
                raise OptionRefused(f"vllm.{key} = {value}: no word of a list begins with a dash; change it")
            words += [f"--{flag}", *map(str, value)]
        else:
            words.append(f"--{flag}={value}")
    return words


DEFAULT_CPU_SEQS = 128
MAX_CPU_CACHE = 8 << 30


def cpu_cache_bytes(settings: VllmSettings) -> int:
    """Room for every sequence at full length, at most 8 GiB. vLLM itself would take nine tenths of the memory, of
    which learner and coordinator need their part."""
    config = json.loads((settings.model / "config.json").read_text())
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    width = 4 if settings.dtype == "float32" else 2
    token = 2 * config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * head * width
    blocks = -(-settings.max_model_len // 128) * 128  # in whole blocks
    return min(MAX_CPU_CACHE, max(256 << 20, token * blocks * (settings.max_num_seqs or DEFAULT_CPU_SEQS)))
