"""A person as the policy: each call waits until someone has typed text or an action."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Awaitable, Callable

from rltui.smoke.policies.base import Call, GaveUp, Json, Policy, Reply, functions_of, tool_call

GIVE_UP = "!give up"
FORM = 'write arguments as NAME(a=1, b="text") or NAME {"a": 1}'
# Shows the call (and what was wrong with the line before), and gives the line that was typed.
Ask = Callable[[Call, str | None], Awaitable[str]]

_ACTION = re.compile(r"\s*([\w.:-]+)\s*(?:\((.*)\)|(\{.*\}))?\s*$", re.DOTALL)


class BadAction(ValueError):
    """A line that names a tool and cannot be read. The text says what is wrong."""


class PersonPolicy(Policy):
    """Asks through a callback, one call at a time."""

    name = "human"
    plays_by_hand = True

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._one = asyncio.Lock()

    async def reply(self, call: Call) -> Reply:
        async with self._one:
            problem: str | None = None
            while True:
                line = await self._ask(call, problem)
                if line.strip() == GIVE_UP:
                    raise GaveUp
                try:
                    return read_line(line, call.tools, call.number)
                except BadAction as error:
                    problem = str(error)


def read_line(line: str, tools: list[Json], number: int = 0) -> Reply:
    """`NAME {"a": 1}`, `NAME(a=1)`, `NAME(1)` or `NAME` is an action where a tool has that name; all else is text.

    Raises BadAction.
    """
    functions = {function["name"]: function for function in functions_of(tools)}
    match = _ACTION.match(line)
    if match is None or match[1] not in functions:
        begun = re.match(r"\s*([\w.:-]+)\s*[({]", line)
        if functions and begun:
            unknown = f"there is no such tool; offered: {', '.join(functions)}"
            raise BadAction(FORM if begun[1] in functions else unknown)
        return Reply(text=line)
    name = match[1]
    schema = functions[name].get("parameters")
    schema = schema if isinstance(schema, dict) else {}
    properties = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
    arguments = _object(match[3]) if match[3] is not None else _keywords(match[2] or "", list(properties or {}))
    required = schema.get("required") if isinstance(schema.get("required"), list) else []
    if missing := [str(key) for key in required or [] if key not in arguments]:
        raise BadAction(f"{name} also needs {', '.join(missing)}")
    return Reply(text="", tool_calls=(tool_call(name, json.dumps(arguments, ensure_ascii=False), number),))


def _object(text: str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAction(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadAction("the arguments are not an object")
    return value


def _keywords(text: str, names: list[str]) -> Json:
    """`1, b="x"` with the names of the schema for what has none; a bare word is a string."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or len(call.args) > len(names):
            raise BadAction(f"at most {len(names)} arguments: {', '.join(names) or 'none'}")
        given = dict(zip(names, map(_value, call.args), strict=False))
        return given | {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
    except (SyntaxError, RecursionError, MemoryError):
        raise BadAction(FORM) from None


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "null": None}.get(node.id, node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise BadAction("an argument is a number, a text in quotes, a list or an object") from None
