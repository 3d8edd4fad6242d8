"""Chats on a vLLM server: rendered and derendered by its endpoints where it has them, else by our own code."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainer.inference.chat import NO_PARSER, Chat, NoToolParser, TemplateError
from trainer.inference.engine import ContextOverflow, EngineError, Json, Reply
from trainer.inference.tool_parsers import split_reasoning
from trainer.inference.vllm.http import Refused, VllmClient
from trainer.inference.vllm.probe import Capabilities

# Our parsers by the names that vLLM has for the same formats.
VLLM_PARSERS = {"hermes": "hermes", "llama-json": "llama3_json", "qwen": "qwen3_xml"}
LONG_TEXT = 100_000  # characters from which tokenizing is a thread's work


class VllmChat:
    """Tokenizer of the model's folder beside the endpoints of a server. `parser` is vLLM's name of the tool parser."""

    def __init__(self, path: Path, tool_call_parser: str | None) -> None:
        """Raises EngineError, OSError, ValueError."""
        self._engines_own = engines_own = tool_call_parser is not None and tool_call_parser not in VLLM_PARSERS
        self.own = Chat(path, None if engines_own else tool_call_parser)
        ours = self.own.parser.name if self.own.parser else ""
        self.parser = tool_call_parser if engines_own else VLLM_PARSERS.get(ours)
        # what streaming holds back; None is everything, for a format that only vLLM knows
        self.markers = None if engines_own else self.own.parser.markers if self.own.parser else ()
        self._rendered: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()
        self._client: VllmClient | None = None
        self._can: Capabilities | None = None
        self._model, self._started_by_us = "", False

    def attach(self, client: VllmClient, can: Capabilities, model: str, *, ours: bool) -> None:
        """ours: the server was started by us, and so with `parser`."""
        self._client, self._can, self._model, self._started_by_us = client, can, model, ours

    @property
    def renders(self) -> bool:
        return self._can is not None and self._can.render

    @property
    def derenders(self) -> bool:
        """Whether vLLM reads the tool calls. On a server that is not ours only where nobody here can: it refuses to,
        unless it was started with a parser."""
        reads = self.parser is not None and (self._started_by_us or self._engines_own)
        return reads and self._can is not None and self._can.derender

    async def render(
        self, messages: Sequence[Json], tools: Sequence[Json] | None, template_kwargs: Json | None
    ) -> list[int]:
        """Prompt ids. Raises TemplateError, EngineError."""
        if tools and self.parser is None:
            raise NoToolParser(NO_PARSER)
        key = msgspec.json.encode([messages, tools, template_kwargs])
        if (ids := self._rendered.get(key)) is not None:
            self._rendered.move_to_end(key)
            return list(ids)
        ids = await self._render(messages, tools, template_kwargs, len(key))
        if len(key) <= Chat.CACHED_BYTES:
            self._rendered[key] = tuple(ids)
            if len(self._rendered) > Chat.CACHED:
                self._rendered.popitem(last=False)
        return ids

    async def _render(
        self, messages: Sequence[Json], tools: Sequence[Json] | None, template_kwargs: Json | None, size: int
    ) -> list[int]:
        if not self.renders or self._client is None:
            return await self._own_render(messages, tools, template_kwargs, size)
        kwargs = dict(template_kwargs or {})
        body: Json = {"model": self._model, "messages": list(messages), "max_tokens": 1}
        for name in ("add_generation_prompt", "continue_final_message"):
            if name in kwargs:
                body[name] = kwargs.pop(name)
        if kwargs:
            body["chat_template_kwargs"] = kwargs
        if tools:
            body |= {"tools": list(tools), "tool_choice": "auto" if self.derenders else "none"}
        try:
            answer = await self._client.call("POST", "/v1/chat/completions/render", body)
        except ContextOverflow:  # the gateway says so itself, with the number of tokens
            return await self._own_render(messages, tools, template_kwargs, size)
        except Refused as error:
            raise TemplateError(f"the chat template cannot render these messages: {error}") from None
        return [int(id) for id in answer["token_ids"]]

    async def _own_render(
        self, messages: Sequence[Json], tools: Sequence[Json] | None, template_kwargs: Json | None, size: int
    ) -> list[int]:
        if size > LONG_TEXT:
            return await asyncio.to_thread(self.own.render, messages, tools, template_kwargs)
        return self.own.render(messages, tools, template_kwargs)

    async def tokenize(self, text: str) -> list[int]:
        if len(text) > LONG_TEXT:
            return await asyncio.to_thread(self.own.tokenize, text)
        return self.own.tokenize(text)

    async def derender(self, token_ids: Sequence[int], tools: Sequence[Json] | None) -> Reply:
        """Without tools there is nothing to parse, and the tokenizer here decodes as vLLM's does: no call is made."""
        if not tools or not token_ids or not self.derenders or self._client is None:
            return self.own.derender(token_ids, tools)
        asked = {"model": self._model, "messages": [{"role": "user", "content": ""}], "tools": list(tools)}
        sampled = {"request_id": "derender", "choices": [{"index": 0, "token_ids": list(token_ids)}]}
        body = {"model": self._model, "generate_response": sampled, "chat_request": asked}
        try:
            answer = await self._client.call("POST", "/v1/chat/completions/derender", body)
            message = answer["choices"][0]["message"]
        except Refused:  # its parser gave up on this text, which then is an answer like any other
            return self.own.derender(token_ids)
        except (KeyError, IndexError, TypeError):
            raise EngineError("vLLM's derender endpoint answered without a message") from None
        text, reasoning = message.get("content") or "", message.get("reasoning")
        if reasoning is None and self.own.reasoning:
            reasoning, text = split_reasoning(text)
        calls = [{k: call[k] for k in ("id", "type", "function")} for call in message.get("tool_calls") or ()]
        return Reply(text, reasoning, calls)
