"""What a vLLM server can do, asked of the server itself and never assumed from a version (WIRE 2.2)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from trainer.inference.engine import EngineConfigError, EngineError, Json
from trainer.inference.vllm.http import CONNECT_S, Refused, VllmClient
from trainer.inference.vllm.options import BACKEND, EXTENSION, TRANSFER_FLAGS, Sync

ROUTES = {
    "generate": ("/inference/v1/generate",),
    "completions": ("/v1/completions",),
    "render": ("/v1/chat/completions/render",),
    "derender": ("/v1/chat/completions/derender",),
    "pause": ("/pause", "/resume", "/is_paused"),
    "transfer": ("/init_weight_transfer_engine", "/start_weight_update", "/update_weights", "/finish_weight_update"),
    "adapters": ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
    "reload_adapter": ("/collective_rpc",),
    "weight_version": ("/update_weight_version", "/weight_info"),
    "info": ("/server_info",),
}
SOME_PROMPT = "a"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server answers to, read from its own list of routes."""

    version: str
    generate: bool  # token ids in, token ids out
    completions: bool  # the same by OpenAI's text endpoint
    render: bool
    derender: bool
    pause: bool
    transfer: bool  # the weight update calls
    adapters: bool
    reload_adapter: bool  # worker extension calls, for an update in place
    weight_version: bool  # spans by weight version, kept by the engine itself
    info: bool  # the options that it was started with

    def record(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Started:
    """Options of a server that is not ours, as far as a run depends on them; it shows them in development mode only."""

    backend: str | None  # of weight transfers
    extension: str | None  # class mixed into its workers
    splits_prompts_on_cpu: bool


async def served_model(client: VllmClient, shown_url: str, context: int) -> str:
    """What a server that is not ours calls its model. Raises EngineError where nobody answers, or where the server has
    less context than the run needs, in tokens."""
    at = f"inference.url = {shown_url}"
    begun = time.monotonic()
    if not await client.healthy():
        waited = time.monotonic() - begun
        late = f" ({waited:.0f} s were waited for /health)" if waited > CONNECT_S / 2 else ""
        raise EngineError(f"no vLLM server answers at {at}{late}; start it, or delete the key")
    try:
        models = (await client.call("GET", "/v1/models")).get("data")
    except Refused as error:
        raise EngineError(f"what answers at {at} does not look like a vLLM server: {error}") from None
    if not isinstance(models, list) or not models or not isinstance(models[0], dict) or "id" not in models[0]:
        raise EngineError(f"what answers at {at} does not look like a vLLM server: /v1/models lists no model")
    limit = models[0].get("max_model_len")
    if isinstance(limit, int) and limit < context:
        raise EngineConfigError(
            f"the server at {shown_url} was started with a context of {limit} tokens, the run needs "
            f"vllm.max_model_len = {context}"
        )
    return str(models[0]["id"])


async def probe(client: VllmClient) -> Capabilities:
    """Raises EngineError."""
    paths = (await client.call("GET", "/openapi.json")).get("paths")
    if not isinstance(paths, dict):
        raise EngineError("the engine's server does not look like vLLM: /openapi.json lists no paths")
    version = (await client.call("GET", "/version")).get("version", "unknown")
    found = {name: all(route in paths for route in routes) for name, routes in ROUTES.items()}
    return Capabilities(version=str(version), **found)


async def started_with(client: VllmClient, can: Capabilities) -> Started | None:
    """None where the server does not say. Raises EngineError."""
    if not can.info:
        return None
    config = (await client.call("GET", "/server_info", config_format="json")).get("vllm_config") or {}

    def of(section: str, name: str) -> str | None:
        return (config.get(section) or {}).get(name) or None

    return Started(
        backend=of("weight_transfer_config", "backend"),
        extension=of("parallel_config", "worker_extension_cls"),
        splits_prompts_on_cpu=of("device_config", "device") == "cpu"
        and bool(of("scheduler_config", "enable_chunked_prefill")),
    )


def updates_in_place(can: Capabilities, *, ours: bool) -> bool:
    """Whether an adapter can be replaced under its name: by the number that it has in the workers, which is known on a
    server of ours alone."""
    return can.reload_adapter and can.pause and ours


def lacking(can: Capabilities, sync: Sync, started: Started | None = None) -> list[str]:
    """What a run needs and the server has not, each with the setting that brings it. `started`: of a server that is
    not ours."""
    missing = []
    if not (can.generate or can.completions):
        missing.append("token generation (/inference/v1/generate, or /v1/completions)")
    if sync == "full":
        if not (can.transfer and can.pause):
            missing.append("weight updates (VLLM_SERVER_DEV_MODE=1, from 0.32)")
        elif started is not None and (started.backend, started.extension) != (BACKEND, EXTENSION):
            missing.append(f"our way to load weights ({TRANSFER_FLAGS})")
    if sync == "lora" and not can.adapters:
        missing.append("adapter loading (VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, --enable-lora)")
    if started is not None and started.splits_prompts_on_cpu:
        missing.append("whole prompts, without which it ends on a CPU (--no-enable-chunked-prefill)")
    return missing


def check_logprobs(logprob: float) -> None:
    """`logprob`: of a token sampled with top_k = 1. Nothing else could be drawn, so its probability was 1, unless the
    server reports the ones before temperature and truncation. Raises EngineError."""
    if abs(logprob) > 1e-3:
        raise EngineError(
            "the server at inference.url reports log-probabilities that are not those it samples from; start it with "
            "--logprobs-mode processed_logprobs"
        )
