from __future__ import annotations

import json
import shutil

import pytest
from transformers import AddedToken, PreTrainedTokenizerFast

from trainer.inference.chat import Chat, TemplateError
from trainer.inference.engine import EngineError
from trainer.inference.messages import normal

TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
USER = {"role": "user", "content": "q"}


def with_template(tiny, folder, template: str, specials=()):
    shutil.copytree(tiny.path, folder, dirs_exist_ok=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    tokenizer.add_tokens([AddedToken(s, special=True) for s in specials])
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def test_a_template_without_tools_refuses_them_and_names_the_key(tiny, tmp_path):
    folder = with_template(tiny, tmp_path, "{{ messages[0].content }}")
    chat = Chat(folder)
    assert chat.parser is None and chat.render([USER])
    with pytest.raises(TemplateError, match=r"set vllm\.tool_call_parser to hermes, llama-json or qwen"):
        chat.render([USER], [TOOL])
    named = Chat(folder, "llama-json")
    assert named.render([USER], [TOOL])
    with pytest.raises(EngineError, match=r"vllm\.tool_call_parser = 'mistral'"):
        Chat(folder, "mistral")


def test_tags_are_read_where_they_are_special_tokens(tiny, tmp_path):
    """Decoding leaves special tokens out; the tags of calls and thinking must not be among them."""
    tags = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    chat = Chat(with_template(tiny, tmp_path, "{{ messages[0].content }}<tool_call></think>", tags))
    text = '<think>hm</think>So <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    ids = [*chat.tokenize(text), *chat.eos_token_ids]
    assert len(ids) == len(text) - sum(map(len, tags)) + len(tags) + 1
    reply = chat.derender(ids, [TOOL])
    assert (reply.reasoning, reply.text, len(reply.tool_calls)) == ("hm", "So ", 1)
    assert chat.derender(ids).tool_calls == []
    assert chat.decode(ids) == text


def test_what_a_template_gets():
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [
        {"id": "i", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": 1})}}]}  # fmt: skip
    assert normal(message) == {"role": "assistant", "content": "", "tool_calls": [
        {"id": "i", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}  # fmt: skip
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert normal({"role": "developer", "content": parts}) == {"role": "system", "content": "ab"}
    legacy = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{"}}
    assert normal(legacy)["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": "{"}}]
    assert normal({"role": "assistant", "content": "a", "reasoning": "r"})["reasoning_content"] == "r"
    assert normal({"role": "assistant", "content": "a", "tool_calls": []}) == {"role": "assistant", "content": "a"}
