"""Chat messages to prompt ids by the model's own template, and sampled ids back to text. Imports no torch."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from trainer.inference.engine import EngineError, Reply
from trainer.models import eos_token_ids, load_tokenizer

Json = dict[str, Any]


class TemplateError(EngineError):
    """The chat template refused the messages. The request is at fault, not the engine."""


class Chat:
    """Tokenizer and chat template of one model folder."""

    CACHED = 512  # renderings kept: the members of a group ask for the same one
    CACHED_BYTES = 1 << 20  # of one request: a larger one is not kept

    def __init__(self, path: Path) -> None:
        self._tokenizer = load_tokenizer(path)
        if not self._tokenizer.chat_template:
            raise EngineError(f"the tokenizer in {path} has no chat template; use an instruct model")
        own = self._tokenizer.eos_token_id
        self.eos_token_ids = frozenset([*eos_token_ids(path), *([] if own is None else [own])])
        self._rendered: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()

    def render(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] | None = None,
        template_kwargs: Json | None = None,
    ) -> list[int]:
        """Prompt ids, generation prompt included unless `template_kwargs` says otherwise. Raises TemplateError."""
        key = msgspec.json.encode([messages, tools, template_kwargs])
        if (ids := self._rendered.get(key)) is not None:
            self._rendered.move_to_end(key)
            return list(ids)
        options = {"add_generation_prompt": True, **(template_kwargs or {})}
        try:
            rendered = self._tokenizer.apply_chat_template(
                [_for_template(m) for m in messages],
                tools=list(tools) if tools else None,
                return_dict=False,
                **options,
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            cause = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise TemplateError(f"the chat template cannot render these messages: {cause}") from None
        if len(key) <= self.CACHED_BYTES:
            self._rendered[key] = tuple(rendered)
            if len(self._rendered) > self.CACHED:
                self._rendered.popitem(last=False)
        return list(rendered)

    def tokenize(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def decode(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        return self._tokenizer.decode(
            list(token_ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )

    def derender(self, token_ids: Sequence[int]) -> Reply:
        return Reply(self.decode(token_ids))


def _for_template(message: Json) -> Json:
    """OpenAI's shapes to those that templates read: text parts joined, no null content, arguments as objects."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    result = {**message, "content": "" if content is None else content}
    if message.get("tool_calls"):
        result["tool_calls"] = [_parsed_arguments(call) for call in message["tool_calls"]]
    return result


def _parsed_arguments(call: Json) -> Json:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}
