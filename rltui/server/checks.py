"""What a config may not do because it comes from a client: run code of its own, or lead the server astray."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rltui.server.keys import JUDGE_BASE, JUDGE_KEY, JUDGE_URL, TASK_URL, URLS, to_trust, untrusted
from rltui.server.urls import bare, origin_of, why_not
from rltui.smoke.net import is_loopback
from trainer.config import Loaded, Place, Problem
from trainer.config.derive import JUDGE_KEYS, OWN_JUDGE_KEY
from trainer.config.errors import shown
from trainer.taskapp.registry import BUILTIN, SPELLINGS

# What a client may tell vLLM, by exact names: what it holds in memory, and how it plans its work. Others, and the
# abbreviations that its command line takes, may lead to code of the client's.
VLLM_OPTIONS = frozenset(
    "tensor_parallel_size max_model_len gpu_memory_utilization max_num_seqs enforce_eager max_parallel_generations "
    "limit_mm_per_prompt tool_call_parser async_scheduling attention_backend block_size cpu_offload_gb "
    "disable_cascade_attn disable_chunked_mm_input disable_custom_all_reduce disable_hybrid_kv_cache_manager "
    "disable_log_stats disable_sliding_window enable_chunked_prefill enable_expert_parallel enable_log_requests "
    "enable_prefix_caching kv_cache_dtype kv_cache_memory_bytes language_model_only long_prefill_token_threshold "
    "mamba_cache_dtype max_cudagraph_capture_size max_num_batched_tokens max_parallel_loading_workers "
    "mm_processor_cache_gb num_gpu_blocks_override optimization_level quantization scheduling_policy "
    "skip_mm_profiling".split()
)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# Options of a cluster that only say where a run has its place, and when.
CLUSTER_OPTIONS = frozenset(
    "account begin clusters comment constraint cpus-per-node cpus-per-task deadline exclude gpus gpus-per-node gres "
    "licenses mem mem-per-cpu mem-per-gpu nice nodelist partition priority qos reservation time".split()
)
_CLUSTER_VALUE = re.compile(r"(?!-)[!-~][ -~]{0,199}")
# Texts that come with every answer about a job, and what is too long for a name or an address.
_SHOWN_KEYS = ("policy.label", "policy.model_name", "policy.source", TASK_URL)
MOST_CHARS = 1_000
SAFE_APPS = tuple(f'"builtin:{name}"' for name in BUILTIN)


def client_problems(loaded: Loaded, *, allow_code: bool, trusted: Collection[str] = ()) -> list[Problem]:
    """Why a valid config of a client is not run, as errors. Looks host names up.

    Args:
        trusted: origins to which keys of this machine may go.
    """
    found = [*_urls(loaded), *_task_app(loaded), *_places(loaded)]
    more = [*_keys(loaded, trusted), *(() if allow_code else code_problems(loaded))]
    return found + [problem for problem in more if problem.key not in {other.key for other in found}]


def _urls(loaded: Loaded) -> Iterator[Problem]:
    for key in URLS:
        value = _value(loaded, key)
        if isinstance(value, str) and "://" in value and (why := why_not(value)) is not None:
            fix = "give the address of a host that serves it"
            yield _problem(loaded, key, why, bare(value), allowed="an http(s) address", fix=fix, code="url_not_allowed")


def _task_app(loaded: Loaded) -> Iterator[Problem]:
    """That there is no such built-in app. Of a .py file and of a package the run itself sees whether it is there."""
    app = loaded.config.services.task_url
    name = app.removeprefix("builtin:")
    if app.startswith("builtin:") and "." not in name and ":" not in name and name not in BUILTIN:
        known = ", ".join([*SAFE_APPS, *SPELLINGS])
        yield _problem(loaded, TASK_URL, "no built-in task app is called so", allowed=known, code="no_task_app")


def _places(loaded: Loaded) -> Iterator[Problem]:
    """What a client may not write to, nor fill answers with."""
    if loaded.config.checkpoint.dir is not None:
        why = "a client does not choose folders of this machine: checkpoints are kept in the run's own"
        yield _problem(loaded, "checkpoint.dir", why, fix="delete this line", code="path_not_allowed")
    for key in _SHOWN_KEYS:
        value = _value(loaded, key)
        if isinstance(value, str) and len(value) > MOST_CHARS:
            why, allowed = f"{len(value):,} characters", f"{MOST_CHARS:,} characters at most"
            yield _problem(loaded, key, why, value[:60], allowed=allowed, code="too_long")


def _keys(loaded: Loaded, trusted: Collection[str]) -> Iterator[Problem]:
    """The judge's key goes to an address that the client names: no other secret may be called its key."""
    judge = loaded.config.judge
    name, base = judge.options.api_key_env, judge.options.base_url
    usual = [OWN_JUDGE_KEY] if base is not None else []
    usual += [JUDGE_KEYS[judge.options.provider]] if judge.options.provider in JUDGE_KEYS else []
    usual += ["GOOGLE_API_KEY"] if judge.options.provider == "gemini" else []
    if name is not None and name not in usual:
        why, allowed = "a client may name only the provider's usual variable", " or ".join(usual) or "none"
        yield _problem(loaded, JUDGE_KEY, why, allowed=allowed, fix="delete this line", code="env_not_allowed")
    service = loaded.config.services.judge_url
    key, url = (JUDGE_BASE, base) if service is None else (JUDGE_URL, service)
    if judge.enabled and judge.type == "llm" and url and not is_loopback(url) and origin_of(url) not in trusted:
        yield _problem(loaded, key, untrusted(key, url, "key"), bare(url), fix=to_trust(url), code="url_not_trusted")


def code_problems(loaded: Loaded) -> Iterator[Problem]:
    """What in it is code of the client's. Looks nothing up."""

    def problem(key: str, what: str, fix: str, value: Any = None) -> Problem:
        why = f"{what}, and this server runs no code of its clients"
        fix += ", or start the server with --allow-code"
        return _problem(loaded, key, why, value, fix=fix, code="code_not_allowed")

    app = loaded.config.services.task_url
    if "://" not in app and app.removeprefix("builtin:") not in BUILTIN:
        yield problem(TASK_URL, "this task app is code", "serve it yourself and give its http(s) address")
    for path, rule in _rules(loaded.config.judge.options.rubric_overrides):
        if rule.get("kind") == "python":
            yield problem("judge.options.rubric_overrides", f"the rule at {path} runs code", "use another kind", rule)
    for name, value in loaded.values.get("vllm", {}).items():
        if name.replace("-", "_") not in VLLM_OPTIONS:
            yield problem(f"vllm.{name}", "this option may make vLLM load code", "delete it", value)
        elif not (_is_plain(value) or name == "limit_mm_per_prompt"):  # its schema takes amounts alone
            yield problem(f"vllm.{name}", "its value is no number, boolean or short word", "give one", value)
    on_ray = loaded.config.compute.launcher == "ray"  # on which a number is an amount, whatever its name
    for name, value in loaded.config.compute.launcher_options.items():
        key, number = f"compute.launcher_options.{name}", isinstance(value, int | float)
        if name.replace("_", "-") not in CLUSTER_OPTIONS and not (on_ray and number):
            yield problem(key, "this option may make the cluster run a program", "delete it", value)
        elif not number and not _CLUSTER_VALUE.fullmatch(str(value)):
            yield problem(key, "its value is no number, boolean or short text", "give one", value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and bool(_WORD.fullmatch(value)))


def _rules(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table called `rule`, wherever it stands."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "rule" and isinstance(item, Mapping):
                yield path or "the top", item
            yield from _rules(item, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _rules(item, f"{path}[{i}]")


def _value(loaded: Loaded, key: str) -> Any:
    node: Any = loaded.values
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _problem(loaded: Loaded, key: str, why: str, value: Any = None, **parts: Any) -> Problem:
    given = _value(loaded, key) if value is None else value
    at = loaded.origins[key].at if key in loaded.origins else None
    return Problem(Place(at or "config"), key, why, None if given is None else shown(given), **parts)


def job_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The server's environment without its own token, and without the values of a config that stand in it: the
    client's config says it all."""
    own = ("TASK_APP_URL", "RLTUI_API_KEY")
    return {name: value for name, value in environ.items() if not name.startswith("RLTUI__") and name not in own}
