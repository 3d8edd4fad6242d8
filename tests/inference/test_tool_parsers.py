"""The expected calls were checked against vLLM's own parsers (hermes, llama3_json, qwen3_coder of 0.32; of the last the
texts, before they are typed by the schema); where ours is meant to differ, the sample says so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.inference.tool_parsers import Hermes, LlamaJson, Qwen, has_reasoning, parser_for, split_reasoning

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "i": {"type": "integer"},
                    "x": {"type": "number"},
                    "b": {"type": "boolean"},
                    "o": {"type": "object"},
                    "l": {"type": ["array", "null"]},
                    "e": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
            },
        },
    },
]


def block(name: str = "f", **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def calls(parser, text: str) -> tuple[str, list[tuple[str, object]]]:
    content, found = parser.parse(text, TOOLS)
    assert all(c["type"] == "function" and c["id"].startswith("call_") for c in found)
    assert len({c["id"] for c in found}) == len(found)
    return content, [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in found]


@pytest.mark.parametrize(
    ("text", "content", "found"),
    [
        ("no call", "no call", []),
        (block(s="a"), "", [("f", {"s": "a"})]),
        ("Let me see.\n" + block(s="a"), "Let me see.\n", [("f", {"s": "a"})]),
        (block(i=1) + "\n" + block("g"), "", [("f", {"i": 1}), ("g", {})]),
        ('<tool_call>{"name": "f", "arguments": {"s": "é \\u00e9"}}', "", [("f", {"s": "é é"})]),  # no closing tag
        ('<tool_call>{"name": "f", "arguments": {"s": "a', '<tool_call>{"name": "f", "arguments": {"s": "a', []),
        ('<tool_call>{"arguments": {}}</tool_call>', '<tool_call>{"arguments": {}}</tool_call>', []),
        ("<tool_call>[1]</tool_call>", "<tool_call>[1]</tool_call>", []),
        ("<tool_call>" + "[" * 100_000, "<tool_call>" + "[" * 100_000, []),
        # ours: the whole call before a cut one is carried out, a line break inside a string is read
        (block(i=1) + '<tool_call>{"name": "f", "argu', "", [("f", {"i": 1})]),
        ('<tool_call>{"name": "f", "arguments": {"s": "a\nb"}}</tool_call>', "", [("f", {"s": "a\nb"})]),
        ('<tool_call>{"name": "f", "arguments": "{\\"i\\": 2}"}</tool_call>', "", [("f", {"i": 2})]),
    ],
)
def test_hermes(text, content, found):
    assert calls(Hermes(), text) == (content, found)


@pytest.mark.parametrize(
    ("text", "content", "found"),
    [
        ("no call", "no call", []),
        ('{"name": "f", "parameters": {"i": 1}}', "", [("f", {"i": 1})]),
        ('<|python_tag|>{"name": "f", "arguments": {"o": {"a": {}}}}', "", [("f", {"o": {"a": {}}})]),
        (
            '{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"s": "}"}}',
            "",
            [("f", {}), ("g", {"s": "}"})],
        ),
        ('{"a": 1}', '{"a": 1}', []),
        ("a set {1, 2}", "a set {1, 2}", []),
        ('{"name": "f", "parameters": {"i"', '{"name": "f", "parameters": {"i"', []),
        ("{" * 10_000, "{" * 10_000, []),
        # ours: vLLM drops what stands before the call
        ('I will: {"name": "f", "parameters": {}} now', "I will: ", [("f", {})]),
    ],
)
def test_llama_json(text, content, found):
    assert calls(LlamaJson(), text) == (content, found)


def xml(name: str, **parameters: str) -> str:
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "content", "found"),
    [
        ("no call", "no call", []),
        (xml("f"), "", [("f", {})]),
        (
            "So:\n" + xml("f", s="1", i="1", x="1.5", b="True"),
            "So:\n",
            [("f", {"s": "1", "i": 1, "x": 1.5, "b": True})],
        ),
        (xml("f", o='{"a": [1]}', l="[1, 2]", e="null"), "", [("f", {"o": {"a": [1]}, "l": [1, 2], "e": None})]),
        (xml("f", s="  two\nlines "), "", [("f", {"s": "  two\nlines "})]),
        (xml("f", i="seven"), "", [("f", {"i": "seven"})]),
        (xml("g", any="5"), "", [("g", {"any": "5"})]),
        (xml("f", i="1") + "\n" + xml("f", i="2"), "", [("f", {"i": 1}), ("f", {"i": 2})]),
        ("<function=f>\n<parameter=i>\n3\n</parameter>\n</function>", "", [("f", {"i": 3})]),
        ('{"name": "f", "arguments": {}}', '{"name": "f", "arguments": {}}', []),
        # ours: JSON in the block is read, what is cut off in its middle is not carried out
        (block(s="a"), "", [("f", {"s": "a"})]),
        (xml("f", s="rm -rf /tmp/x")[:50], xml("f", s="rm -rf /tmp/x")[:50], []),
    ],
)
def test_qwen(text, content, found):
    assert calls(Qwen(), text) == (content, found)


@given(st.sampled_from([Hermes(), LlamaJson(), Qwen()]), st.data())
def test_whatever_the_model_writes_is_parsed_or_stays_text(parser, data):
    pieces = ["<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=s>", "</parameter>", "{", "}",
              '{"name": "f", "arguments": {}}', "<|python_tag|>", "a", "\n", '"', ":", "é", ";"]  # fmt: skip
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))
    content, found = parser.parse(text, TOOLS)
    assert text.startswith(content) and (found or content == text)
    for call in found:
        assert isinstance(json.loads(call["function"]["arguments"]), dict)


@given(st.dictionaries(st.text("abc", min_size=1), st.text(max_size=20) | st.integers() | st.none(), max_size=4))
def test_hermes_reads_back_any_arguments(arguments):
    assert calls(Hermes(), block(**{"name": "f"} | {}) if not arguments else block("f", **arguments))[1]


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '<tool_call>' }}{{ '<function=' + name }}", "qwen"),
        ('<tool_call>\\n{"name": ...', "hermes"),
        ("{{ '<|python_tag|>' }}", "llama-json"),
        ('Respond in the format {"name": function name, "parameters": ...}', "llama-json"),
        ("{{ messages }}", None),
    ],
)
def test_the_template_gives_the_parser_away(template, name):
    parser = parser_for(template)
    assert (parser and parser.name) == name
    assert parser_for(template, "llama-json").name == "llama-json"


def test_an_unknown_parser_names_the_key():
    with pytest.raises(ValueError, match=r"tool_call_parser = 'mistral' is not known here; set it to one of hermes"):
        parser_for("", "mistral")


def test_templates_of_known_models_are_recognised():
    from importlib.resources import files

    folder = files("trl") / "chat_templates"
    expected = {
        "qwen2_5": "hermes",
        "qwen3": "hermes",
        "qwen3_5_think": "qwen",
        "llama3_1": "llama-json",
        "llama3_2": "llama-json",
        "llama3": None,
        "gemma": None,
    }
    for file, name in expected.items():
        parser = parser_for((folder / f"{file}.jinja").read_text())
        assert (parser and parser.name) == name, file
    assert has_reasoning((folder / "qwen3.jinja").read_text()) and not has_reasoning("<think>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("answer", (None, "answer")),
        ("<think>\nhm\n</think>\n\nanswer", ("\nhm\n", "\n\nanswer")),
        ("hm</think>answer", ("hm", "answer")),  # the prompt had opened it
        ("<think>hm", ("hm", "")),  # cut off
        ("<think></think>a </think> b", ("", "a </think> b")),
    ],
)
def test_reasoning_is_split_off(text, expected):
    assert split_reasoning(text) == expected
