"""The loop that plays an agent of an environment which brings none: chat, run the tools, chat again.

verifiers' own `null` harness does the same in a Python process of its own for every segment, whose packages `uv`
downloads. This one runs inside the task app; all model calls still go through verifiers' interception, where its
limits, `@stop` and `@intercept` hooks act.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx
import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.core import gate_tool_call
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

from trainer.taskapp.builtin.common import USED_UP
from trainer.taskapp.contracts import Json

# verifiers finds a harness as a top-level module of this name that exports it in `__all__`.
ID = "rltui_chat"
__all__ = ["ChatHarness"]
sys.modules.setdefault(ID, sys.modules[__name__])

Content = str | list[Json]


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """Ends at the first answer without a tool call, or when the context or the calls of the episode are used up."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    SUPPORTS_TOOL_INTERCEPTION = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> vf.ProgramResult:
        messages = self._opening(data)
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with AsyncExitStack() as stack:
            # trust_env off: both ends are in this process. No time limit here: the episode has one.
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=None, trust_env=False))
            client = AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, http_client=http)
            tools, dispatch, connections = await connect_mcp({"mcpServers": servers}, stack)

            async def run_tool(call: Any) -> Json:
                if tool_interception_url:
                    decision = await gate_tool_call(http, tool_interception_url, secret, call)
                    if decision["action"] == "deny":
                        return dict(decision["message"])
                name = call.function.name
                arguments = _arguments(call.function.arguments)
                if name not in dispatch:
                    content: Content = f"error: there is no tool {name!r}"
                elif isinstance(arguments, str):
                    content = arguments
                else:
                    content = await call_mcp(connections, dispatch, name, arguments)
                return {"role": "tool", "tool_call_id": call.id, "name": name, "content": content}

            offered = {"tools": tools} if tools else {}
            while True:
                try:
                    completion = await client.chat.completions.create(model=ctx.model, messages=messages, **offered)
                except APIStatusError as error:
                    if trace.num_turns and any(code in str(error) for code in USED_UP):
                        break
                    raise
                message = completion.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls or []:
                    messages.append(await run_tool(call))
                if not message.tool_calls:
                    break
        return vf.ProgramResult(0, "", "")

    def _opening(self, data: vf.TaskData) -> list[Any]:
        system, prompt = self.resolve_prompt(data)
        opening: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            return [*opening, {"role": "user", "content": prompt}]
        return opening + [message_to_wire(message) for message in prompt or []]


def _arguments(text: str) -> Json | str:
    """The arguments of a tool call; what the model is told if they cannot be read."""
    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        return f"error: the arguments are not JSON ({error}); send the call again"
    return arguments if isinstance(arguments, dict) else "error: the arguments are not a JSON object; send them again"
