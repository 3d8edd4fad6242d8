"""The `engine` entry of environment.json for a vLLM engine. Pure."""

from __future__ import annotations

from trainer.inference.engine import Json
from trainer.inference.vllm.calls import Endpoint
from trainer.inference.vllm.chats import VllmChat
from trainer.inference.vllm.options import VllmSettings
from trainer.inference.vllm.probe import Capabilities
from trainer.models import ResolvedModel


def record(
    model: ResolvedModel,
    settings: VllmSettings,
    options: list[str],
    versioned: bool,
    can: Capabilities | None,
    chat: VllmChat | None,
    endpoint: Endpoint | None,
) -> Json:
    """`options`: of a server of ours. `versioned`: a name for each adapter version. `can`, `chat` and `endpoint` are
    None before the start."""
    return {
        "kind": "vllm",
        "version": can.version if can else None,
        "options": options,
        "render": "endpoint" if chat and chat.renders else "template",
        "generate": endpoint.path if endpoint else None,
        "derender": "endpoint" if chat and chat.derenders else "tokenizer",
        "parser": chat.parser if chat else None,
        "capabilities": can.record() if can else None,
        "model": model.name,
        "revision": model.revision,
        "dtype": settings.dtype,
        "max_model_len": settings.max_model_len,
        "adapters": None if settings.sync != "lora" else "versioned" if versioned else "in place",
    }
