"""OpenAI's request and response shapes, as far as the gateway speaks them. Pure.

Log-probabilities are those of the sampled tokens. Alternatives (`top_logprobs`) are not computed: the lists are there
and empty, and `rltui.ignored` of the answer names the parameter.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trainer.inference.engine import Reply
from trainer.inference.sampling import BadRequest
from trainer.rollout.types import Call

Json = dict[str, Any]

# Arguments of the rendering itself; a request may set the template's own variables only.
_NOT_TEMPLATE_VARIABLES = {
    "conversation", "tools", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize",
    "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
    "tokenizer_kwargs", "messages",
}  # fmt: skip


_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_body(raw: bytes) -> Json:
    """Raises BadRequest."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        body = _without_lone_surrogates(raw)
        if body is None:
            raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    n = body.get("n")
    if n is not None and (isinstance(n, bool) or n != 1):
        raise BadRequest("n must be 1: every choice would be a trajectory of its own", "n")
    if not isinstance(body.get("stream") or False, bool):
        raise BadRequest("stream must be true or false", "stream")
    for name in ("stream_options", "chat_template_kwargs"):
        if not isinstance(body.get(name) or {}, dict):
            raise BadRequest(f"{name} must be an object", name)
    if reserved := _NOT_TEMPLATE_VARIABLES & set(body.get("chat_template_kwargs") or {}):
        raise BadRequest(f"chat_template_kwargs cannot set {min(reserved)}", "chat_template_kwargs")
    return body


def _without_lone_surrogates(raw: bytes) -> Any:
    """JSON that escapes half a character, as clients that cut text in UTF-16 units send it: no text can hold that, so
    U+FFFD stands in its place. None where this is not what is wrong."""
    if not _SURROGATE_ESCAPE.search(raw):
        return None
    try:
        text = json.dumps(json.loads(raw), ensure_ascii=False)
        return msgspec.json.decode(_SURROGATE.sub("\ufffd", text))
    except (ValueError, RecursionError):  # msgspec's error is a ValueError
        return None


def parse_messages(body: Json) -> list[Json]:
    """The chat of a request, checked as far as templates rely on it. Raises BadRequest."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list of at least one message", "messages")
    for i, message in enumerate(messages):
        at = f"messages[{i}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest(f"{at} must be an object with a role", at)
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                    raise BadRequest(f"{at} has a part that is not text; this model reads text only", at)
        elif content is not None and not isinstance(content, str):
            raise BadRequest(f"{at}.content must be a string or a list of text parts", at)
        calls = message.get("tool_calls")
        if calls is not None and not (isinstance(calls, list) and all(_is_tool_call(c) for c in calls)):
            raise BadRequest(f"{at}.tool_calls must be a list of function calls", at)
    return messages


def _is_tool_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("function", {}), dict)


def parse_tools(body: Json) -> list[Json] | None:
    """Tools that the template sees: also from the legacy `functions`; none when tool_choice is none."""
    tools = body.get("tools")
    if is_legacy(body):
        functions = body["functions"]
        tools = [{"type": "function", "function": f} for f in functions] if isinstance(functions, list) else functions
    if tools is not None and not isinstance(tools, list):
        raise BadRequest("tools must be a list of objects", "tools")
    for i, tool in enumerate(tools or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"tools[{i}] must be a function with a name; other kinds of tools are not served", "tools")
        if not isinstance(function.get("parameters") or {}, dict):
            raise BadRequest(f"tools[{i}].function.parameters must be an object", "tools")
    choice = body.get("function_call") if is_legacy(body) else body.get("tool_choice")
    return None if choice == "none" else tools or None


def is_legacy(body: Json) -> bool:
    """Whether the request speaks of functions, as before there were tools; the answer then does so too."""
    return body.get("tools") is None and body.get("functions") is not None


def parse_text_prompt(body: Json) -> str:
    """The prompt of /v1/completions. Raises BadRequest."""
    for name in ("echo", "suffix"):
        if body.get(name):
            raise BadRequest(f"{name} is not served: an answer holds the sampled tokens and nothing else", name)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise BadRequest("prompt must be one text that is not empty", "prompt")
    return prompt


def wants_logprobs(body: Json) -> bool:
    """`logprobs` is true for a chat, a number of alternatives for a text."""
    value = body.get("logprobs")
    return value is not None and value is not False


def ignored(body: Json) -> list[str]:
    """What was asked for and cannot be given, without an effect on what is sampled."""
    names = ["top_logprobs"] if body.get("top_logprobs") else []
    return [*names, *(name for name in ("prompt_logprobs",) if body.get(name))]


def assistant_message(reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = reply.tool_calls
        message["content"] = reply.text or None
    return message


def usage(call: Call) -> Json:
    prompt, completion = len(call.prompt_token_ids), len(call.completion_token_ids)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class Shape:
    """How the answers to one request look: chat or text, the legacy names, logprobs."""

    def __init__(self, body: Json, model: str, *, chat: bool) -> None:
        self.chat, self.model = chat, model
        self.legacy = chat and is_legacy(body)
        self.logprobs = wants_logprobs(body)
        self.usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._ignored = ignored(body)

    def whole(self, call: Call, tokens: Sequence[str]) -> Json:
        """The answer to a request without `stream`. `tokens`: the text of each, if logprobs were asked for."""
        choice: Json = {"index": 0}
        if self.chat:
            choice["message"] = _legacy_message(call.response) if self.legacy else call.response
        else:
            choice["text"] = call.response.get("content") or ""
        choice |= {"finish_reason": self._finish(call), "stop_reason": call.stop_detail}
        choice["logprobs"] = self._logprobs(tokens, call.logprobs, 0) if self.logprobs else None
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._envelope(call, kind), "choices": [choice], "usage": usage(call)}

    def opening(self, call: Call) -> Json | None:
        """The first chunk of a streamed chat."""
        return self._chunk(call, {"role": "assistant", "content": ""}) if self.chat else None

    def delta(self, call: Call, part: str, text: str) -> Json:
        """`part` is content or reasoning_content."""
        return self._chunk(call, {part: text})

    def tool_calls(self, call: Call) -> Json | None:
        """All tool calls of the answer in one chunk."""
        calls = call.response.get("tool_calls")
        if not calls:
            return None
        if self.legacy:
            return self._chunk(call, {"function_call": calls[0]["function"]})
        return self._chunk(call, {"tool_calls": [{"index": i, **c} for i, c in enumerate(calls)]})

    def closing(self, call: Call) -> Json:
        return self._chunk(call, {}, self._finish(call))

    def usage_chunk(self, call: Call) -> Json:
        return {**self._envelope(call, self._chunk_kind), "choices": [], "usage": usage(call)}

    def add_logprobs(self, chunk: Json, tokens: Sequence[str], logprobs: Sequence[float], offset: int) -> None:
        """`offset`: characters of the answer before these tokens."""
        chunk["choices"][0]["logprobs"] = self._logprobs(tokens, logprobs, offset)

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _chunk(self, call: Call, delta: Json, finish: str | None = None) -> Json:
        choice: Json = {"index": 0, "finish_reason": finish, "logprobs": None}
        if self.chat:
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content") or ""
        return {**self._envelope(call, self._chunk_kind), "choices": [choice]}

    def _finish(self, call: Call) -> str:
        return "function_call" if self.legacy and call.finish_reason == "tool_calls" else call.finish_reason

    def _envelope(self, call: Call, kind: str) -> Json:
        extra: Json = {
            "cid": call.cid,
            "call": call.call,
            "weight_version": call.spans[-1].weight_version if call.spans else None,
        }
        if self._ignored:
            extra["ignored"] = self._ignored
        return {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{call.cid}-{call.call}",
            "object": kind,
            "created": int(call.t_start or time.time()),
            "model": self.model,
            "rltui": extra,
        }

    def _logprobs(self, tokens: Sequence[str], logprobs: Sequence[float], offset: int) -> Json:
        if self.chat:
            return {"content": [_token_logprob(t, p) for t, p in zip(tokens, logprobs, strict=True)], "refusal": None}
        return {
            "tokens": list(tokens),
            "token_logprobs": list(logprobs),
            "top_logprobs": [{} for _ in tokens],
            "text_offset": _offsets(tokens, offset),
        }


def _token_logprob(token: str, logprob: float) -> Json:
    whole = "\ufffd" not in token  # a token may be half a character: its bytes are not to be had from text
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()) if whole else None, "top_logprobs": []}


def _offsets(tokens: Iterable[str], offset: int) -> list[int]:
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return offsets


def _legacy_message(message: Json) -> Json:
    """`function_call` for `tool_calls`; there can be one only."""
    if not message.get("tool_calls"):
        return message
    kept = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**kept, "function_call": message["tool_calls"][0]["function"]}


def error_body(message: str, kind: str, param: str | None, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
