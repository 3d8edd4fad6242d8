"""An OpenAI-compatible endpoint as the policy; its key comes from the environment and goes nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from rltui.smoke.policies.base import Call, Json, Policy, PolicyFailed, PolicyUnavailable, Reply
from rltui.smoke.policies.presets import OWN_KEY, PRESETS
from trainer.taskapp.codes import clean
from trainer.taskapp.llm import chat_url
from trainer.taskapp.reading import count, listing, mapping, text_of
from trainer.taskapp.retries import RETRYABLE_STATUS

TIMEOUT_S = 300.0
TRIES = 3
# What of the app's request goes on to the endpoint; the model is ours to say.
SENT = ("messages", "tools", "tool_choice", "functions", "function_call", "stop", "response_format", "temperature")


class EndpointPolicy(Policy):
    """`spec` is a preset or an http(s) URL. `name` is the model's, once it is known."""

    def __init__(self, spec: str, *, model: str | None, environ: Mapping[str, str], max_tokens: int) -> None:
        """Raises PolicyUnavailable: the key is not there."""
        preset = PRESETS.get(spec)
        self.url = chat_url(preset.url if preset else spec)
        host = urlsplit(self.url).hostname or ""
        known = preset or next((p for p in PRESETS.values() if urlsplit(p.url).hostname == host), None)
        key_name = known.key_name if known else OWN_KEY
        key = environ.get(key_name, "").strip()
        if known and not key:
            hint = f"Set {key_name}, or choose --policy mock, which needs no key"
            raise PolicyUnavailable(f"{spec} needs a key, and {key_name} is not set", hint)
        self.model = model or (preset.model if preset else None)
        self.name = self.model or spec
        self._key, self._key_name, self._max_tokens = key, key_name, max_tokens
        self._reasons = host == "api.openai.com"  # its newer models refuse max_tokens and a temperature
        self._http = httpx.AsyncClient(timeout=httpx.Timeout(TIMEOUT_S, connect=10.0), headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    async def start(self) -> None:
        """Without a model's name, the first that the endpoint lists is taken."""
        if self.model is not None:
            return
        listed = self.url.removesuffix("/chat/completions") + "/models"
        try:
            models = listing(mapping((await self._http.get(listed)).json()).get("data"))
        except (httpx.HTTPError, ValueError) as error:
            raise PolicyUnavailable(
                f"{self.url} does not list its models ({clean(str(error) or type(error).__name__)})",
                "Check the address, or name the model: --set smoke.model=NAME",
            ) from None
        self.model = next((name for m in models if (name := text_of(mapping(m).get("id")))), None)
        if self.model is None:
            raise PolicyUnavailable(f"{self.url} lists no model", "Name it: --set smoke.model=NAME")
        self.name = self.model

    async def close(self) -> None:
        await self._http.aclose()

    async def reply(self, call: Call) -> Reply:
        body = {name: call.body[name] for name in SENT if call.body.get(name) is not None}
        tokens = count(call.body.get("max_tokens")) or count(call.body.get("max_completion_tokens")) or self._max_tokens
        body |= {"model": self.model, "max_completion_tokens" if self._reasons else "max_tokens": tokens}
        if self._reasons:
            body.pop("temperature", None)
        return reply_of(await self._post(body))

    async def _post(self, body: Json) -> Json:
        for left in range(TRIES - 1, -1, -1):
            try:
                answer = await self._http.post(self.url, json=body)
            except httpx.HTTPError as error:
                if not left:
                    cause = clean(str(error) or type(error).__name__)
                    raise PolicyFailed(502, "policy_unreachable", f"no answer from {self.url}: {cause}") from None
            else:
                if answer.status_code < 400:
                    return _object(answer)
                if not left or answer.status_code not in RETRYABLE_STATUS:
                    raise PolicyFailed(answer.status_code, "policy_error", self._refusal(answer))
            await asyncio.sleep(0.5 * 2 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    def _refusal(self, answer: httpx.Response) -> str:
        text = answer.text.replace(self._key, "***") if self._key else answer.text
        if answer.status_code in (401, 403):
            return f"{self.url} answered {answer.status_code}: check {self._key_name}"
        return f"{self.url} answered {answer.status_code}: {clean(text)}"


def reply_of(answer: Json) -> Reply:
    """A chat completion as a reply. Raises PolicyFailed: it holds none."""
    choice = mapping(next(iter(listing(answer.get("choices"))), None))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise PolicyFailed(502, "policy_bad_answer", "the endpoint's answer holds no message")
    usage = mapping(answer.get("usage"))
    return Reply(
        text=message["content"] if isinstance(message.get("content"), str) else "",
        tool_calls=tuple(call for call in listing(message.get("tool_calls")) if isinstance(call, dict)),
        finish_reason=text_of(choice.get("finish_reason")),
        prompt_tokens=count(usage.get("prompt_tokens")),
        completion_tokens=count(usage.get("completion_tokens")),
        message=message,
    )


def _object(answer: httpx.Response) -> Json:
    try:
        return mapping(answer.json())
    except (ValueError, RecursionError):
        raise PolicyFailed(502, "policy_bad_answer", "the endpoint's answer is not JSON") from None
