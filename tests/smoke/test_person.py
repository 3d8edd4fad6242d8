"""What a person types, and an episode played by one."""

import json

import pytest

from rltui.smoke.policies.person import BadAction, PersonPolicy, read_line
from tests.smoke.conftest import smoke, stage
from tests.smoke.tool_app import TOOL

APP = "tests/smoke/tool_app.py"


def arguments(line: str):
    (call,) = read_line(line, [TOOL]).tool_calls
    return call["function"]["name"], json.loads(call["function"]["arguments"])


@pytest.mark.parametrize(
    "line",
    ['press {"colour": "red", "times": 2}', 'press(colour="red", times=2)', "press(red, 2)", ' press("red", times=2) '],
)
def test_the_spellings_of_an_action(line: str) -> None:
    assert arguments(line) == ("press", {"colour": "red", "times": 2})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("press", "also needs colour, times"),
        ("press(red, 2, 3)", "at most 2 arguments"),
        ("press {1}", "not JSON"),
        ("press [1]", None),
        ("press(red", "write arguments as"),
        ("push(red)", "no such tool; offered: press"),
        ("press(f(1), 2)", "a number, a text in quotes"),
        ("press(*red)", "a number, a text in quotes"),
    ],
)
def test_what_cannot_be_read_is_said(line: str, words: str | None) -> None:
    if words is None:  # not of an action's form
        assert read_line(line, [TOOL]).text == line
        return
    with pytest.raises(BadAction, match=words.replace("(", r"\(")):
        read_line(line, [TOOL])


def test_all_else_is_text() -> None:
    assert read_line("I press(red)", [TOOL]).text == "I press(red)"
    assert read_line("press {", []).text == "press {"


async def test_an_episode_is_played_scored_and_asked_again_after_a_mistake() -> None:
    typed = iter(["press(red)", "press(red, 1)"])
    seen: list[tuple[str, str | None]] = []

    async def ask(call, problem):
        seen.append((call.messages[-1]["content"], problem))
        return next(typed)

    report, _ = await smoke(APP, PersonPolicy(ask), {"S01", "S02", "S07", "S08"})
    assert stage(report, "S08").message == "1 call, 1 action"
    assert stage(report, "S07").message.startswith("R 1 from metrics.outcome_reward")
    assert seen == [
        ("Seed 0: press the right button.", None),
        ("Seed 0: press the right button.", "press also needs times"),
    ]


async def test_giving_up_is_no_fault_of_the_app() -> None:
    async def ask(call, problem):
        return "!give up"

    report, _ = await smoke(APP, PersonPolicy(ask), {"S01", "S02", "S07"})
    assert stage(report, "S07").verdict == "skipped"  # no fault of the app
    assert report.verdict_text == "not ready: the episode was given up by hand, which says nothing of the app"
