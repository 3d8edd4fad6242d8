"""The wire formats of model providers: OpenAI's, which most servers speak, and Anthropic's. Pure.

OpenAI: POST {base}/chat/completions, `response_format`. Anthropic: POST {base}/messages, `output_config.format`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trainer.judge.answer import plain
from trainer.judge.errors import JudgeMisconfigured
from trainer.judge.http import is_loopback, shown
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import count, finite, listing, mapping, text_of

Json = dict[str, Any]

OWN_KEY_NAME = "JUDGE_API_KEY"  # of a server at judge.options.base_url
MAX_TOKENS = 4_096  # of an answer, the thinking of a model that thinks included


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge answered, and what it took."""

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None  # where the endpoint tells it
    problem: tuple[str, str] | None = None  # (code, text) of an answer that cannot hold scores


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire format.

    Attributes:
        path: below the base URL.
        headers: of a key; None: there is none.
        body: (model, system, user, schema) -> the request, with all that is wanted.
        weaker: ways to ask for less, tried in this order where a server refuses a field: (words of the field, the
            change of a request). What is refused once is left out from then on.
        read: the answer of a 200.
    """

    path: str
    headers: Callable[[str | None], Json]
    body: Callable[[str, str, str, Json], Json]
    weaker: tuple[tuple[tuple[str, ...], Callable[[Json], Json]], ...]
    read: Callable[[Json], Said]


@dataclass(frozen=True, slots=True)
class Provider:
    """Who is asked."""

    name: str
    wire: Wire
    base_url: str
    model: str
    key_name: str  # of the environment variable
    key: str | None
    own_server: bool  # judge.options.base_url

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/") + self.wire.path


def _openai_headers(key: str | None) -> Json:
    return {"authorization": f"Bearer {key}"} if key else {}


def _openai_body(model: str, system: str, user: str, schema: Json) -> Json:
    return {
        "model": model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "temperature": 0,
        "max_completion_tokens": MAX_TOKENS,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "scores", "strict": True, "schema": schema},
        },
    }


def _openai_read(body: Json) -> Said:
    choices = listing(body.get("choices"))
    choice = mapping(choices[0]) if choices else {}
    message, usage = mapping(choice.get("message")), mapping(body.get("usage"))
    text, refusal, finish = _content(message.get("content")), message.get("refusal"), choice.get("finish_reason")
    tokens = count(usage.get("completion_tokens"))
    refused = bool(refusal) or finish == "content_filter"
    return Said(
        text=text,
        tokens_in=count(usage.get("prompt_tokens")),
        tokens_out=tokens,
        cost_usd=finite(usage.get("cost")),
        problem=_problem(refused, str(refusal or text), finish == "length", tokens),
    )


def _anthropic_headers(key: str | None) -> Json:
    return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})


def _anthropic_body(model: str, system: str, user: str, schema: Json) -> Json:
    return {
        "model": model,
        "system": system,
        "messages": [{"role": "user", "content": user}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }


def _anthropic_read(body: Json) -> Said:
    usage = mapping(body.get("usage"))
    read = [count(usage.get(f"{part}input_tokens")) for part in ("", "cache_creation_", "cache_read_")]
    text, tokens, stop = _content(body.get("content")), count(usage.get("output_tokens")), body.get("stop_reason")
    cut = stop in ("max_tokens", "model_context_window_exceeded")
    return Said(
        text=text,
        tokens_in=None if read[0] is None else sum(part or 0 for part in read),
        tokens_out=tokens,
        problem=_problem(stop == "refusal", text, cut, tokens),
    )


def _content(value: Any) -> str:
    """A text, or the text blocks of a list."""
    if isinstance(value, list):
        return plain("".join(text for block in value if (text := text_of(mapping(block).get("text")))))
    return plain(value) if isinstance(value, str) else ""


def _problem(refused: bool, why: str, cut: bool, tokens: int | None) -> tuple[str, str] | None:
    if refused:
        return "judge_refused", f"the model refused: {clean(why, 120) or 'no reason given'}"
    if cut:
        return "judge_unparsable", f"the answer was cut off after {'?' if tokens is None else tokens} tokens"
    return None


def _without(*names: str) -> Callable[[Json], Json]:
    return lambda body: {key: value for key, value in body.items() if key not in names}


def _older_limit(body: Json) -> Json:
    limit = body.get("max_completion_tokens")
    return _without("max_completion_tokens")(body) | ({} if limit is None else {"max_tokens": limit})


def _plain_json(body: Json) -> Json:
    return body | {"response_format": {"type": "json_object"}}


_FORMAT = ("response_format", "response format", "json_schema", "json_object", "json mode", "structured", "schema")

OPENAI = Wire(
    "/chat/completions",
    _openai_headers,
    _openai_body,
    (
        (("temperature",), _without("temperature")),
        (("max_completion_tokens",), _older_limit),
        (("max_tokens", "max_completion_tokens", "context length"), _without("max_tokens", "max_completion_tokens")),
        (_FORMAT, _plain_json),
        (_FORMAT, _without("response_format")),
    ),
    _openai_read,
)
ANTHROPIC = Wire(
    "/messages",
    _anthropic_headers,
    _anthropic_body,
    (
        (("temperature",), _without("temperature")),
        (("output_config", "output_format", "structured", "schema"), _without("output_config")),
    ),
    _anthropic_read,
)

# provider: (wire format, base URL, default model)
PROVIDERS: dict[str, tuple[Wire, str, str]] = {
    "openai": (OPENAI, "https://api.openai.com/v1", "gpt-5-nano"),
    "anthropic": (ANTHROPIC, "https://api.anthropic.com/v1", "claude-haiku-4-5"),
    "groq": (OPENAI, "https://api.groq.com/openai/v1", "openai/gpt-oss-20b"),
    "gemini": (OPENAI, "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash"),
}


def choose_provider(
    name: str, model: str | None, base_url: str | None, key_name: str, environ: Mapping[str, str]
) -> Provider:
    """The provider of [judge.options]. With a base URL the server there speaks OpenAI's format.

    Raises:
        JudgeMisconfigured: no such provider, no model, or the variable of its key is not set.
    """
    key = environ.get(key_name, "").strip() or None
    if base_url is not None:
        if urlsplit(base_url).query or urlsplit(base_url).fragment:
            hint = f"A key goes into the variable {key_name}, not into the address"
            raise JudgeMisconfigured("judge_route", "judge.options.base_url has a part behind ? or #", hint)
        wire, default = OPENAI, None
    elif name in PROVIDERS:
        wire, base_url, default = PROVIDERS[name]
    else:
        hint = f"judge.options.provider is one of {', '.join(PROVIDERS)}, or set judge.options.base_url"
        raise JudgeMisconfigured("judge_route", f"there is no provider {clean(name, 60)}", hint)
    model = model or default
    if model is None:
        hint = "Set judge.options.model to a name that it serves"
        raise JudgeMisconfigured("judge_route", f"the server at {shown(base_url)} has no default model", hint)
    own = base_url not in {url for _, url, _ in PROVIDERS.values()}
    if key is None and not is_loopback(base_url):
        what = f"the judge's key is read from the variable {key_name}, which is not set"
        raise JudgeMisconfigured("judge_key", what, f"Export {key_name}")
    return Provider(name, wire, base_url, model, key_name, key, own)
