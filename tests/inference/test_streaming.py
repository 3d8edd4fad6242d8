from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.inference.engine import Reply
from trainer.inference.stopping import cut_at_stop
from trainer.inference.streaming import Detokenizer, ReplyStream
from trainer.inference.tool_parsers import Hermes, LlamaJson, Qwen, split_reasoning


def decode(ids) -> str:
    """A token is a byte."""
    return bytes(ids).decode(errors="replace")


def pieces(ids: list[int], sizes: list[int]):
    at = 0
    for size in sizes:
        yield ids[at : at + size]
        at += size
    yield ids[at:]


SIZES = st.lists(st.integers(1, 5), max_size=30)


@given(st.text("aé漢🎈\n", max_size=40), SIZES)
def test_text_comes_whole_and_never_half_a_character(text, sizes):
    detokenizer = Detokenizer(decode)
    shown = ""
    for piece in pieces(list(text.encode()), sizes):
        new = detokenizer.push(piece)
        assert "\ufffd" not in new
        shown += new
    assert shown == text


def test_a_decoder_that_strips_the_first_space_keeps_the_others():
    """SentencePiece: every token brings its space along, the first of a text loses it."""
    words = [" a", " b", "c", " d"]
    detokenizer = Detokenizer(lambda ids: "".join(words[i] for i in ids).removeprefix(" "))
    assert [detokenizer.push([i]) for i in range(4)] == ["a", " b", "c", " d"]


def test_bytes_that_are_no_text_do_not_pile_up():
    lengths = []

    def counted(ids):
        lengths.append(len(ids))
        return decode(ids)

    detokenizer = Detokenizer(counted)
    for _ in range(2000):
        detokenizer.push([0xFF])
    assert max(lengths) <= 66


def test_time_is_linear_in_the_answer():
    decoded = 0

    def counted(ids):
        nonlocal decoded
        decoded += len(ids)
        return decode(ids)

    stream = ReplyStream(counted, stops=["END"], markers=Hermes.markers)
    for _ in range(5000):
        stream.push([97])
    assert decoded < 5 * 5000


def streamed(stream: ReplyStream, ids: list[int], sizes: list[int], reply: Reply) -> tuple[str, str]:
    parts = {"reasoning_content": "", "content": ""}
    for piece in pieces(ids, sizes):
        for part, text in stream.push(piece):
            parts[part] += text
    held = dict(parts)
    for part, text in stream.finish(reply):
        parts[part] += text
    final = {"reasoning_content": reply.reasoning or "", "content": reply.text}
    assert all(final[part].startswith(held[part]) for part in parts), (held, final)
    return parts["reasoning_content"], parts["content"]


@pytest.mark.parametrize("parser", [Hermes(), LlamaJson(), Qwen()], ids=lambda p: p.name)
@given(data=st.data())
def test_what_is_streamed_is_the_beginning_of_the_answer(parser, data):
    """Whatever comes: no tag, no part of a tool call, no stop string is shown, and the end completes it."""
    words = ["hello", " ", "<", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool", "é", "EN", "END",
             '{"name": "f", "arguments": {}}', "{", "<function=f>", "</function>", "\n"]  # fmt: skip
    thinking = data.draw(st.booleans())
    text = "".join(data.draw(st.lists(st.sampled_from(words), max_size=10)))
    if not thinking and "</think>" in text and not text.lstrip().startswith("<think>"):
        text = "<think>" + text  # a model closes what it or its prompt opened
    stops = data.draw(st.sampled_from([[], ["END"]]))
    stop = next((s for s in stops if s in text), None)
    if stop:
        text = text[: text.index(stop) + len(stop)]  # the engine ends there
    reasoning, rest = split_reasoning(text)
    if thinking and reasoning is None:
        reasoning, rest = text, ""
    rest, calls = parser.parse(rest, [])
    reply = Reply(cut_at_stop(rest, stop), reasoning and cut_at_stop(reasoning, stop), calls)
    stream = ReplyStream(decode, stops=stops, markers=parser.markers, reasoning=True, thinking=thinking)
    assert streamed(stream, list(text.encode()), data.draw(SIZES), reply) == (reply.reasoning or "", reply.text)


def test_an_unknown_format_waits_for_the_end():
    stream = ReplyStream(decode, markers=None)
    assert stream.push(list(b"text")) == [] and stream.finish(Reply("text")) == [("content", "text")]


def test_text_flows_up_to_the_call():
    stream = ReplyStream(decode, markers=Hermes.markers)
    shown = [stream.push([b]) for b in b"Let <b> me<tool_call>" + json.dumps({"name": "f"}).encode()]
    assert "".join(text for deltas in shown for _, text in deltas) == "Let <b> me"
