"""OpenAI's request and response shapes, as far as the gateway speaks them. Pure."""

from __future__ import annotations

import time
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


def parse_body(raw: bytes) -> Json:
    """Raises BadRequest."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
        if calls is not None and not (isinstance(calls, list) and all(isinstance(c, dict) for c in calls)):
            raise BadRequest(f"{at}.tool_calls must be a list of objects", at)
    return messages


def parse_tools(body: Json) -> list[Json] | None:
    """Tools that the template sees: also from the legacy `functions`; none when tool_choice is none."""
    tools = body.get("tools")
    if tools is None and body.get("functions") is not None:
        functions = body["functions"]
        tools = [{"type": "function", "function": f} for f in functions] if isinstance(functions, list) else functions
    if tools is not None and not (isinstance(tools, list) and all(isinstance(t, dict) for t in tools)):
        raise BadRequest("tools must be a list of objects", "tools")
    return None if body.get("tool_choice") == "none" else tools or None


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


def envelope(call: Call, model: str, kind: str) -> Json:
    """What every response object and chunk carries. `kind` is OpenAI's `object`."""
    version = call.spans[-1].weight_version if call.spans else None
    return {
        "id": f"{'cmpl' if kind == 'text_completion' else 'chatcmpl'}-{call.cid}-{call.call}",
        "object": kind,
        "created": int(call.t_start or time.time()),
        "model": model,
        "rltui": {"cid": call.cid, "call": call.call, "weight_version": version},
    }


def chat_response(call: Call, model: str, logprobs: Json | None) -> Json:
    choice = {
        "index": 0,
        "message": call.response,
        "finish_reason": call.finish_reason,
        "stop_reason": call.stop_detail,
        "logprobs": logprobs,
    }
    return {**envelope(call, model, "chat.completion"), "choices": [choice], "usage": usage(call)}


def completion_response(call: Call, model: str) -> Json:
    choice = {
        "index": 0,
        "text": call.response.get("content") or "",
        "finish_reason": call.finish_reason,
        "stop_reason": call.stop_detail,
        "logprobs": None,
    }
    return {**envelope(call, model, "text_completion"), "choices": [choice], "usage": usage(call)}


def stream_chunk(call: Call, model: str, delta: Json, finish: str | None, *, chat: bool) -> Json:
    if chat:
        choice: Json = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    else:
        choice = {"index": 0, "text": delta.get("content") or "", "finish_reason": finish, "logprobs": None}
    return {
        **envelope(call, model, "chat.completion.chunk" if chat else "text_completion"),
        "choices": [choice],
    }


def error_body(message: str, kind: str, param: str | None, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
