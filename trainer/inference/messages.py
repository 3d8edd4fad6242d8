"""Chat messages as clients write them, brought to one shape. Pure.

Clients send the same message in many ways: nulls added or dropped, text as parts, arguments serialised anew, the
legacy `function_call` for `tool_calls`, white space at the ends of an answer stripped.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

_ROLES = {"function": "tool", "developer": "system"}


def text_of(content: Any) -> str:
    """The text of a message's `content`: a string, a list of text parts, or null."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def normal(message: Json) -> Json:
    """What a chat template gets: known roles, content as text, `tool_calls` with arguments as objects, no nulls."""
    result = {key: value for key, value in message.items() if value is not None and key != "function_call"}
    result["role"] = _ROLES.get(message["role"], message["role"])
    result["content"] = text_of(message.get("content"))
    if "reasoning" in result:  # as some servers call it
        result.setdefault("reasoning_content", result.pop("reasoning"))
    calls = message.get("tool_calls")
    if not calls and isinstance(legacy := message.get("function_call"), dict):
        calls = [{"type": "function", "function": legacy}]
    result.pop("tool_calls", None)
    if calls:
        result["tool_calls"] = [_with_object(call) for call in calls]
    return result


def same_message(a: Json, b: Json) -> bool:
    """Equal in all that a template reads, except for the reasoning, which few clients send back."""
    return a == b or _key(a) == _key(b)


def _key(message: Json) -> tuple[Any, ...]:
    form = normal(message)
    content = form["content"].strip() if form["role"] == "assistant" else form["content"]
    calls = [
        (function.get("name"), function.get("arguments"))
        for call in form.get("tool_calls", ())
        if isinstance(function := call.get("function", call), dict)
    ]
    return form["role"], content, calls, form.get("name") if form["role"] != "tool" else None


def _with_object(call: Json) -> Json:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
