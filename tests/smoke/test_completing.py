"""Tab while a person types an action: what `complete` gives is what `read_line` reads."""

import pytest

from rltui.smoke.completing import Completion, complete
from rltui.smoke.policies.person import read_line
from tests.smoke.tool_app import TOOL


def tool(name: str, properties: dict | None = None, required: list[str] | None = None) -> dict:
    schema = {"type": "object", "properties": properties or {}, "required": required or []}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


SEVERAL = [tool("look"), tool("look_up", {"word": {"type": "string"}}), tool("wait", {"loud": {"type": "boolean"}})]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", "press(colour="),
        ("pr", "press(colour="),
        ("press(", "press("),
        ("press(c", "press(colour="),
        ("press(colour=gr", "press(colour=green"),
        ("press(colour=green", "press(colour=green, times="),
        ("press(green", "press(green, times="),
        ("press(colour=green, ti", "press(colour=green, times="),
        ("press(colour=green, times=2", "press(colour=green, times=2)"),
        ("press(colour=green, times=2)", "press(colour=green, times=2)"),
        ("push", "push"),
        ("I press", "I press"),
        ("push(", "push("),
    ],
)
def test_one_tool(line: str, wanted: str) -> None:
    assert complete(line, [TOOL]).line == wanted


def test_what_is_not_settled_is_offered() -> None:
    assert complete("", SEVERAL) == Completion("", ("look", "look_up", "wait"))
    assert complete("lo", SEVERAL) == Completion("look", ("look", "look_up"))
    assert complete("press(colour=", [TOOL]) == Completion("press(colour=", ("red", "green", "blue"))
    assert complete("wait(loud=", SEVERAL).options == ("true", "false")
    assert complete("press(", [TOOL]).options == ("colour=", "times=")


def test_a_line_made_by_tab_alone_can_be_read() -> None:
    line = "press(colour=red, times=3"
    for _ in range(3):
        line = complete(line, [TOOL]).line
    assert line == "press(colour=red, times=3)"
    assert read_line(line, [TOOL]).tool_calls
    assert complete("wa", SEVERAL).line == "wait(loud="


def test_schemas_that_are_none_and_words_that_need_quotes() -> None:
    odd = [{"function": {"name": "a", "parameters": [1]}}, {"function": {"name": 3}}, 7, {}]
    assert complete("", odd).line == "a()"  # type: ignore[list-item]
    quoted = [tool("say", {"word": {"enum": ["two words", "true", 3]}}, ["word"])]
    assert complete("say(word=", quoted).options == ('"two words"', '"true"', "3")
    assert complete('say(word="tw', quoted).line == 'say(word="two words"'
    assert complete('say(word="a, b"', [tool("say", {"word": {}}, ["word"])]).line == 'say(word="a, b")'
