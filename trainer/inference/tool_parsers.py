"""Sampled text to tool calls and reasoning, by the formats that chat templates teach. Pure.

Each format is a class with the text where a call may begin (`markers`, what streaming holds back) and `parse`. What
is no whole call stays text: a call cut off by the token limit is never guessed to its end and carried out.
"""

from __future__ import annotations

import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

THINK, END_THINK = "<think>", "</think>"


class ToolParser(ABC):
    """One format of tool calls."""

    name: str
    markers: tuple[str, ...]

    def parse(self, text: str, tools: Sequence[Json] | None = None) -> tuple[str, list[Json]]:
        """Content and the tool calls in OpenAI's shape; content is what stands before the first of them. Without a
        call that can be parsed the whole text is content."""
        start, functions = self._calls(text, tools or ())
        if not functions:
            return text, []
        return text[:start], [
            {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": {"name": name, "arguments": args}}
            for name, args in functions
        ]

    @abstractmethod
    def _calls(self, text: str, tools: Sequence[Json]) -> tuple[int, list[tuple[str, str]]]:
        """Where the first call begins, and (name, arguments as JSON) of each."""


class Hermes(ToolParser):
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one block a call (Hermes 2 Pro, Qwen 2.5 and 3)."""

    name = "hermes"
    markers = ("<tool_call>",)

    def _calls(self, text: str, tools: Sequence[Json]) -> tuple[int, list[tuple[str, str]]]:
        found = [call for block in _blocks(text) if (call := _json_call(block)) is not None]
        return text.find("<tool_call>"), found


class LlamaJson(ToolParser):
    """`{"name": ..., "parameters": {...}}`, several after each other, perhaps after `<|python_tag|>` (Llama 3)."""

    name = "llama-json"
    markers = ("<|python_tag|>", "{")

    def _calls(self, text: str, tools: Sequence[Json]) -> tuple[int, list[tuple[str, str]]]:
        decoder, at, start = json.JSONDecoder(strict=False), 0, -1
        found: list[tuple[str, str]] = []
        while (brace := text.find("{", at)) >= 0:
            try:
                value, at = decoder.raw_decode(text, brace)
            except (ValueError, RecursionError):
                break
            call = _named_call(value)
            if call is None:
                break
            start = brace if start < 0 else start
            found.append(call)
        tag = text.find("<|python_tag|>")
        return (tag if 0 <= tag < start else start), found


class Qwen(ToolParser):
    """`<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>` (Qwen 3 Coder and later);
    a block that holds JSON is read as Hermes. Values are text: the tool's schema says what they stand for."""

    name = "qwen"
    markers = ("<tool_call>", "<function=")

    def _calls(self, text: str, tools: Sequence[Json]) -> tuple[int, list[tuple[str, str]]]:
        schemas = {t["function"]["name"]: t["function"].get("parameters") for t in tools if "function" in t}
        blocks = _blocks(text) if "<tool_call>" in text else [text] if "<function=" in text else []
        found: list[tuple[str, str]] = []
        for block in blocks:
            if "<function=" not in block:
                if (call := _json_call(block)) is not None:
                    found.append(call)
                continue
            for part in block.split("<function=")[1:]:
                if (call := _xml_call(part, schemas)) is not None:
                    found.append(call)
        starts = [at for marker in self.markers if (at := text.find(marker)) >= 0]
        return min(starts, default=-1), found


_PARSERS: dict[str, ToolParser] = {parser.name: parser for parser in (Hermes(), LlamaJson(), Qwen())}


def parser_for(template: str, name: str | None = None) -> ToolParser | None:
    """The parser of `vllm.tool_call_parser`, else the one whose format the chat template writes; None if none fits.

    Raises:
        ValueError: no parser has that name.
    """
    if name is not None:
        if name not in _PARSERS:
            known = ", ".join(_PARSERS)
            raise ValueError(f"vllm.tool_call_parser = {name!r} is not known here; set it to one of {known}")
        return _PARSERS[name]
    if "<function=" in template:
        return _PARSERS["qwen"]
    if "<tool_call>" in template:
        return _PARSERS["hermes"]
    if "<|python_tag|>" in template or '{"name": function name, "parameters"' in template:
        return _PARSERS["llama-json"]
    return None


def has_reasoning(template: str) -> bool:
    """Whether the model was taught to think between tags."""
    return END_THINK in template


def split_reasoning(text: str) -> tuple[str | None, str]:
    """Reasoning and the rest. Generation may start inside the block (the opening tag was part of the prompt), and may
    end there (cut off: all of it is reasoning)."""
    head, closed, rest = text.partition(END_THINK)
    opening = head.lstrip()
    if not closed and not opening.startswith(THINK):
        return None, text
    return opening.removeprefix(THINK) if opening.startswith(THINK) else head, rest


def _blocks(text: str) -> Iterator[str]:
    """What stands in each <tool_call>; the last one may lack its end."""
    for part in text.split("<tool_call>")[1:]:
        yield part.partition("</tool_call>")[0]


def _json_call(block: str) -> tuple[str, str] | None:
    try:
        return _named_call(json.loads(block, strict=False))
    except (ValueError, RecursionError):
        return None


def _named_call(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or not name:
        return None
    if "arguments" not in value and "parameters" not in value:
        return None
    arguments = value["arguments"] if "arguments" in value else value["parameters"]
    if isinstance(arguments, str):  # some models write the JSON as a string, as OpenAI's own shape has it
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return None
    if arguments is not None and not isinstance(arguments, dict):
        return None
    return name, json.dumps(arguments or {}, ensure_ascii=False)


_PARAMETER = re.compile(r"<parameter=([^>\n]+)>(.*?)(?=</parameter>)", re.DOTALL)


def _xml_call(part: str, schemas: dict[str, Any]) -> tuple[str, str] | None:
    """`part` follows `<function=`. Without its closing tag the call was cut off."""
    body, closed, _ = part.partition("</function>")
    name, opened, body = body.partition(">")
    name = name.strip()
    if not closed or not opened or not name or body.count("<parameter=") > body.count("</parameter>"):
        return None
    schema = schemas.get(name)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    arguments = {
        key.strip(): _typed(_unwrapped(value), (properties or {}).get(key.strip()))
        for key, value in _PARAMETER.findall(body)
    }
    return name, json.dumps(arguments, ensure_ascii=False)


def _unwrapped(value: str) -> str:
    """Without the one line break that the format puts at each end."""
    return value.removeprefix("\n").removesuffix("\n")


def _typed(value: str, schema: Any) -> Any:
    types = schema.get("type") if isinstance(schema, dict) else None
    types = set(types) if isinstance(types, list) else {types}
    if isinstance(schema, dict):
        for option in schema.get("anyOf") or schema.get("oneOf") or ():
            types.add(option.get("type") if isinstance(option, dict) else None)
    types.discard(None)
    if value.strip().lower() == "null" and types != {"string"}:
        return None
    if not types or "string" in types:
        return value
    text = value.strip()
    if "boolean" in types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
