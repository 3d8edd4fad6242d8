"""A person plays an episode on a plain terminal."""

from __future__ import annotations

import asyncio
import json
import sys
import threading

from rltui.cli.output import put, say
from rltui.smoke.policies.base import Call, Json, functions_of
from rltui.smoke.policies.person import GIVE_UP
from rltui.text import clean

SHOWN_CHARS = 2_000  # of a message


async def ask_on_terminal(call: Call, problem: str | None) -> str:
    """Shows what is new on stderr, and gives the line that is typed. EOFError gives the episode up."""
    for line in shown(call) if problem is None else [f"  {clean(problem)}"]:
        say(line)
    put("your reply> ", sys.stderr)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def take(line: str) -> None:
        if not typed.done():
            typed.set_result(line)

    def read() -> None:
        try:
            line = input()
        except (EOFError, OSError, ValueError):
            line = GIVE_UP
        loop.call_soon_threadsafe(take, line)

    threading.Thread(target=read, daemon=True).start()  # a line that is waited for must not hold the end of the program
    return await typed


def shown(call: Call) -> list[str]:
    """The call as lines: what was said since the last answer, and the tools."""
    lines = [f"-- seed {call.seed}, call {call.number + 1} ({GIVE_UP} ends the episode)"]
    last = max((i for i, m in enumerate(call.messages) if m.get("role") == "assistant"), default=-1)
    for message in call.messages[last + 1 :]:
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content)
        lines += [f"  {clean(message.get('role', '?'), 20)}: {clean(part, SHOWN_CHARS)}" for part in text.split("\n")]
    functions = functions_of(call.tools)
    if functions:
        lines.append("  tools: " + "; ".join(signature(function) for function in functions))
        lines.append('  write NAME(a=1, b="text") or NAME {"a": 1}; any other line is text')
    return lines


def signature(function: Json) -> str:
    parameters = function.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    properties, required = parameters.get("properties"), parameters.get("required")
    names = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    parts = [f"{name}{'' if name in needed else '?'}: {_kind(schema)}" for name, schema in names.items()]
    return clean(f"{function['name']}({', '.join(parts)})", 300)


def _kind(schema: object) -> str:
    if not isinstance(schema, dict):
        return "any"
    return (
        "|".join(map(str, schema["enum"])) if isinstance(schema.get("enum"), list) else str(schema.get("type", "any"))
    )
