"""Chat messages to prompt ids by the model's own template, and sampled ids back to text. Imports no torch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from trainer.inference.engine import EngineConfigError, EngineError, Reply
from trainer.inference.messages import normal
from trainer.inference.tool_parsers import END_THINK, THINK, ToolParser, has_reasoning, parser_for, split_reasoning
from trainer.models import eos_token_ids, load_tokenizer

Json = dict[str, Any]

NO_PARSER = (
    "the task app offers tools, and this model's chat template has no tool calls that we can read; set "
    "vllm.tool_call_parser to hermes, llama-json or qwen, or use a model that was trained to call tools"
)


class TemplateError(EngineError):
    """The chat template refused the messages. The request is at fault, not the engine."""


class NoToolParser(TemplateError):
    """Tools were offered to a model whose tool calls nobody here could read: no such call of the run ever can."""


class Chat:
    """Tokenizer, chat template and parsers of one model folder.

    `parser` reads tool calls: the one named (the config's `vllm.tool_call_parser`), else by template."""

    CACHED = 512  # renderings kept: the members of a group ask for the same one
    CACHED_BYTES = 1 << 17  # of one request: a larger one is not kept

    def __init__(self, path: Path, tool_call_parser: str | None = None) -> None:
        self._tokenizer = load_tokenizer(path)
        if not self._tokenizer.chat_template:
            raise EngineError(f"the tokenizer in {path} has no chat template; use an instruct model")
        template = str(self._tokenizer.chat_template)  # of several named ones all are searched
        try:
            self.parser: ToolParser | None = parser_for(template, tool_call_parser)
        except ValueError as error:
            raise EngineConfigError(str(error)) from None
        self.reasoning = has_reasoning(template)
        # some models make the tags special tokens, which decoding would leave out
        kept = {THINK, END_THINK, "</tool_call>", *(self.parser.markers if self.parser else ())}
        self._hidden = {
            id for id, token in self._tokenizer.added_tokens_decoder.items() if token.special and str(token) not in kept
        }
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
        if tools and self.parser is None:
            raise NoToolParser(NO_PARSER)
        key = msgspec.json.encode([messages, tools, template_kwargs])
        if (ids := self._rendered.get(key)) is not None:
            self._rendered.move_to_end(key)
            return list(ids)
        options = {"add_generation_prompt": True, **(template_kwargs or {})}
        try:
            rendered = self._tokenizer.apply_chat_template(
                [normal(m) for m in messages],
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

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens, except for tags of tool calls and reasoning."""
        shown = [id for id in token_ids if id not in self._hidden]
        return self._tokenizer.decode(shown, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None = None) -> Reply:
        """Tool calls are read only where tools were offered: else their text is an answer like any other."""
        text = self.decode(token_ids)
        reasoning, text = split_reasoning(text) if self.reasoning else (None, text)
        text, calls = self.parser.parse(text, tools) if tools and self.parser else (text, [])
        return Reply(text, reasoning, calls)
