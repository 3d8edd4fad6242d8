"""Which keys of the server's environment a job gets.

A client names the task app, the judge and the engine of its run, and to each of them a key is sent. So a key of this
machine goes to nobody but the provider whose it is, and to the origins that the operator named: `rltui serve --trust`,
and TASK_APP_URL. The task app's key that came with a job goes to that job's task app.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rltui.server.urls import origin_of
from trainer.config.derive import OWN_JUDGE_KEY
from trainer.taskapp.auth import ALIASES_NAME, KEY_NAMES

TASK_URL, JUDGE_URL = "services.task_url", "services.judge_url"
JUDGE_BASE, JUDGE_KEY, ENGINE_URL = "judge.options.base_url", "judge.options.api_key_env", "inference.url"
SERVICE_KEY, ENGINE_KEY = "SYNTH_API_KEY", "VLLM_API_KEY"
APP_KEYS = (*KEY_NAMES, ALIASES_NAME)
URLS = (TASK_URL, JUDGE_URL, JUDGE_BASE, ENGINE_URL)
UNREADABLE = dict.fromkeys(URLS, "?://?")  # values of a run whose record is damaged: no address of it is trusted


def trusted_origins(given: Collection[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Raises ValueError: one of those given is no http(s) address."""
    for url in given:
        if origin_of(url) is None:
            raise ValueError(f"--trust takes an http(s) address such as http://10.0.0.7:8001, not {url[:200]!a}")
    return frozenset(filter(None, map(origin_of, (*given, environ.get("TASK_APP_URL", "")))))


def keys_for(
    environ: Mapping[str, str], values: Mapping[str, Any], key: str | None, trusted: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """
    Args:
        values: of the run's config, by dotted key.
        key: the task app's, as it came with the job.

    Returns:
        The job's environment, and for each key that was held back a sentence with what to do.
    """
    mine, told = dict(environ), []

    def hold_back(url_key: str, *names: str, fix: str = "") -> None:
        url = values.get(url_key)
        if not isinstance(url, str) or "://" not in url or origin_of(url) in trusted:
            return
        if held := [name for name in names if mine.pop(name, "").strip()]:
            told.append(f"{untrusted(url_key, url, held[0])}; {fix}{to_trust(url)}")

    if key is not None:
        for name in APP_KEYS:
            mine.pop(name, None)
        mine[KEY_NAMES[0]] = key
    else:
        hold_back(TASK_URL, *APP_KEYS, fix="send the app's key with the job (header X-Environment-API-Key), or ")
    hold_back(JUDGE_URL, SERVICE_KEY)
    hold_back(JUDGE_BASE, str(values.get(JUDGE_KEY) or OWN_JUDGE_KEY))
    hold_back(ENGINE_URL, ENGINE_KEY)
    return mine, told


def untrusted(key: str, url: str, name: str) -> str:
    return f"{key} {origin_of(url) or 'of this run'} was not named by the server's operator and is not sent its {name}"


def to_trust(url: str) -> str:
    """What the operator has to do."""
    return f"start the server with --trust {origin_of(url) or 'URL'}"
