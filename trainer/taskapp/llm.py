"""Chat completions for built-in task apps, over pooled connections: the hot path of an episode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from trainer.taskapp.codes import clean
from trainer.taskapp.pool import ClientPool
from trainer.taskapp.reading import Json, listing, mapping

SAMPLING_FIELDS = ("model", "temperature", "top_p", "max_tokens", "stop")
_PATH = "/v1/chat/completions"


class ModelCallError(RuntimeError):
    """The inference server gave no completion. status: its HTTP status, 0 if none; code: its error code."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the policy. finish_reason: stop, length, tool_calls, abort, ..."""

    text: str
    tool_calls: list[Json]
    finish_reason: str
    message: Json  # as received, to be appended to the history unchanged


def chat_url(url: str) -> str:
    """The URL to post to: the path is completed where it is missing, the query is kept as it stands."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if path.endswith("/chat/completions"):
        return url
    path = path + (_PATH.removeprefix("/v1") if path.endswith("/v1") else _PATH)
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, parts.fragment))


class ChatClient:
    """Posts to `policy.config.inference_url`. Share one per app and close it with the app."""

    def __init__(self) -> None:
        verify = httpx.create_ssl_context()
        timeout = httpx.Timeout(None, connect=10.0)
        # trust_env off: the URL is the caller's own, a proxy of the environment has no part in it.
        self._pool = ClientPool(
            lambda limits: httpx.AsyncClient(limits=limits, timeout=timeout, verify=verify, trust_env=False)
        )

    async def close(self) -> None:
        await self._pool.close()

    async def complete(
        self, policy: Json, messages: Sequence[Json], tools: Sequence[Json] | None = None, *, mode: str = "rl"
    ) -> Completion:
        """One completion. policy: the request's `policy.config` (URL and sampling fields). mode: the request's;
        with "eval" the URL is used as it stands, else its path is completed.

        Raises `ModelCallError` on any failure. There is no time limit here: the caller of the app has one.
        """
        url = policy.get("inference_url")
        if not isinstance(url, str):
            raise ModelCallError(0, "no_inference_url", "policy.config.inference_url is missing")
        body: Json = {name: policy[name] for name in SAMPLING_FIELDS if policy.get(name) is not None}
        body["messages"] = list(messages)
        if tools:
            body["tools"] = list(tools)
        try:
            async with self._pool.client() as http:
                response = await http.post(url if mode == "eval" else chat_url(url), json=body)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ModelCallError(0, None, f"no answer from the inference server: {clean(str(error))}") from None
        try:
            answer = response.json()
        except (ValueError, RecursionError):
            answer = None
        if response.status_code != 200:
            raise _refused(response.status_code, answer)
        return _completion(answer)


def _refused(status: int, answer: Any) -> ModelCallError:
    top = mapping(answer)
    error = mapping(top.get("error")) or mapping(mapping(top.get("detail")).get("error"))
    code = error.get("code")
    message = clean(str(error.get("message") or json.dumps(answer)[:200]))
    text = f"the inference server answered {status}: {message}"
    return ModelCallError(status, code if isinstance(code, str) else None, text)


def _completion(answer: Any) -> Completion:
    choices = listing(mapping(answer).get("choices"))
    choice = mapping(choices[0]) if choices else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ModelCallError(200, "bad_answer", "the inference server's answer holds no message")
    text = message.get("content")
    return Completion(
        text=text if isinstance(text, str) else "",
        tool_calls=listing(message.get("tool_calls")),
        finish_reason=str(choice.get("finish_reason") or "stop"),
        message=message,
    )
