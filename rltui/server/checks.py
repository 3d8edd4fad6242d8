"""What a config may not do because it comes from a client: run code of its own, or lead the server astray."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rltui.server.urls import why_not
from trainer.config import Loaded, Place, Problem
from trainer.config.errors import shown
from trainer.taskapp.registry import BUILTIN, SPELLINGS

TASK_URL = "services.task_url"
URLS = (TASK_URL, "services.judge_url", "judge.options.base_url", "inference.url")
# Options by which vLLM is told to load a program.
_VLLM_CODE = re.compile(r"plugin|middleware|trust_remote_code|_cls\Z|executor_backend|\Aadditional_config\Z")
# Options of a cluster that only say where a run has its place, and when; so does any number.
_CLUSTER_OPTIONS = frozenset(
    "account address begin clusters comment constraint deadline exclude gpus gpus-per-node gres licenses mem "
    "mem-per-cpu mem-per-gpu nice nodelist partition priority qos reservation time".split()
)
# The judge's key goes to an address that the client names: no other secret of this machine may be called its key.
_KEY_NAME = re.compile(r"\w*API_KEY\w*")
SAFE_APPS = tuple(f'"builtin:{name}"' for name in BUILTIN)


def client_problems(loaded: Loaded, *, allow_code: bool) -> list[Problem]:
    """Why a valid config of a client is not run, as errors. Looks host names up."""
    found = [*_urls(loaded), *_task_app(loaded)]
    return found if allow_code else [*found, *_code(loaded)]


def _urls(loaded: Loaded) -> Iterator[Problem]:
    for key in URLS:
        value = _value(loaded, key)
        if isinstance(value, str) and "://" in value and (why := why_not(value)) is not None:
            fix = "give the address of a host that serves it"
            yield _problem(loaded, key, why, allowed="an http(s) address", fix=fix, code="url_not_allowed")


def _task_app(loaded: Loaded) -> Iterator[Problem]:
    """That there is no such built-in app. Of a .py file and of a package the run itself sees whether it is there."""
    app = loaded.config.services.task_url
    name = app.removeprefix("builtin:")
    if app.startswith("builtin:") and "." not in name and ":" not in name and name not in BUILTIN:
        known = ", ".join([*SAFE_APPS, *SPELLINGS])
        yield _problem(loaded, TASK_URL, "no built-in task app is called so", allowed=known, code="no_task_app")


def _code(loaded: Loaded) -> Iterator[Problem]:
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
        if _VLLM_CODE.search(name.replace("-", "_")) and value not in (None, False):
            yield problem(f"vllm.{name}", "this option makes vLLM load code", "delete it", value)
    for name, value in loaded.config.compute.launcher_options.items():
        if isinstance(value, str) and name.replace("_", "-") not in _CLUSTER_OPTIONS:
            key = f"compute.launcher_options.{name}"
            yield problem(key, "this option may make the cluster run a program", "delete it", value)
    name = loaded.config.judge.options.api_key_env
    if name is not None and not _KEY_NAME.fullmatch(name):
        why = "a client may name only variables called …API_KEY: their value is sent to an address that it chooses"
        yield _problem(
            loaded, "judge.options.api_key_env", why, fix='api_key_env = "OPENAI_API_KEY"', code="env_not_allowed"
        )


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
    """The server's environment without the values of a config that stand in it: the client's config says it all."""
    return {name: value for name, value in environ.items() if not name.startswith("RLTUI__") and name != "TASK_APP_URL"}


def own_environment() -> dict[str, str]:
    return job_environment(os.environ)
