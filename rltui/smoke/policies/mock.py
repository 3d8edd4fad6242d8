"""Answers without a model: valid, and without any sense. They test the plumbing."""

from __future__ import annotations

import json
import random
import re

from rltui.smoke.policies.base import Call, Json, Policy, Reply, functions_of, tool_call
from rltui.smoke.policies.values import value_of

MOST_CHARS = 4_000  # of the messages that words are taken from


class MockPolicy(Policy):
    """Random valid arguments for the request's own tools, text if it has none; another for each member."""

    name = "mock"

    async def reply(self, call: Call) -> Reply:
        return answer(call, random.Random(f"{call.seed}:{call.member}:{call.number}"))


def answer(call: Call, rng: random.Random) -> Reply:
    """A valid answer to `call`. tool_choice is obeyed: none is text, a named function is that one."""
    choice = call.body.get("tool_choice")
    functions = functions_of(call.tools)
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name") if isinstance(choice.get("function"), dict) else None
        functions = [f for f in functions if f["name"] == wanted] or functions
    if not functions or choice == "none":
        return Reply(text=_text(call.messages, rng))
    function = rng.choice(functions)
    parameters = function.get("parameters")
    arguments = value_of(parameters if isinstance(parameters, dict) else {"type": "object"}, rng)
    text = json.dumps(arguments if isinstance(arguments, dict) else {}, ensure_ascii=False)
    return Reply(tool_calls=(tool_call(function["name"], text, call.number),))


def _text(messages: list[Json], rng: random.Random) -> str:
    """A word or a number of what was said, so that games which are played in text see some of both."""
    contents = [message.get("content") for message in messages if message.get("role") != "assistant"]
    text = " ".join(c if isinstance(c, str) else json.dumps(c) for c in contents)
    words = re.findall(r"\w+", text[:MOST_CHARS])
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 7]
    if len(numbers) >= 2 and rng.random() < 0.8:
        return str(rng.randint(min(numbers), max(numbers)))
    return rng.choice(words) if words else "yes"
