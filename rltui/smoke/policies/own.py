"""The run's own model as the policy: a process of its own, `python -m trainer serve-policy`, that speaks JSON lines.

Its gateway records the tokens; what it recorded is asked for when an episode has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Sequence

import httpx

from rltui.smoke.child import environment, sigterm_then_kill
from rltui.smoke.policies.base import Call, Json, Policy, PolicyFailed, PolicyUnavailable, Reply, Tokens
from rltui.smoke.policies.endpoint import reply_of
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import listing, mapping, text_of

START_S = 900.0  # a model may have to be downloaded
ASK_S = 60.0
END_S = 10.0  # that it is given to end by itself
LINE_BYTES = 64 * 2**20  # the longest line: an episode's calls with their texts


class OwnPolicy(Policy):
    """Plays with the model of a config, as a run's first iteration would."""

    name = "self"

    def __init__(self, arguments: Sequence[str], *, argv: Sequence[str] | None = None) -> None:
        """arguments: of `serve-policy`: the config, then --set KEY=VALUE. argv: another program, in tests."""
        self._argv = list(argv) if argv is not None else [sys.executable, "-P", "-m", "trainer", "serve-policy"]
        self._argv += arguments
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        self._urls: dict[str, str] = {}
        self._tail: deque[str] = deque(maxlen=15)
        self._tasks: list[asyncio.Task[None]] = []
        self._http = httpx.AsyncClient(timeout=None, trust_env=False)

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
            limit=LINE_BYTES,
            start_new_session=True,  # the terminal's Ctrl-C is ours to carry out
        )
        self._tasks.append(asyncio.create_task(self._keep_tail()))
        ready = await self._ready()
        self.model = text_of(ready.get("model"))
        self._tasks.append(asyncio.create_task(self._read()))

    async def _ready(self) -> Json:
        assert self._process is not None and self._process.stdout is not None
        async with asyncio.timeout(START_S):
            while line := await self._process.stdout.readline():
                message = _object(line)
                if message.get("type") == "ready":
                    return message
                if message.get("type") == "error":
                    raise PolicyUnavailable(
                        clean(str(message.get("message"))), clean(str(message.get("hint") or ""), 500)
                    )
        last = next((text for text in reversed(self._tail) if text.strip()), "it said nothing")
        raise PolicyUnavailable(
            f"the process of the own model ended while it started: {clean(last)}",
            "Try `rltui validate` on the config, or another --policy",
        )

    async def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # which ends it
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), END_S)
            await sigterm_then_kill(self._process)
        for task in self._tasks:
            task.cancel()
        await self._http.aclose()

    async def begin(self, cid: str, sampling: Json) -> None:
        result = await self._ask({"op": "open", "cid": cid, "sampling": sampling})
        self._urls[cid] = str(result.get("url"))

    async def reply(self, call: Call) -> Reply:
        body = {**call.body, "stream": False}
        body.pop("stream_options", None)
        try:
            answer = await self._http.post(self._urls[call.cid], json=body)
            content = mapping(answer.json())
        except (httpx.HTTPError, ValueError) as error:
            cause = clean(str(error) or type(error).__name__)
            raise PolicyFailed(502, "engine_error", f"the own model gave no answer: {cause}") from None
        if answer.status_code >= 400:
            told = mapping(content.get("error"))
            code = text_of(told.get("code")) or "engine_error"
            raise PolicyFailed(answer.status_code, code, clean(str(told.get("message"))))
        return reply_of(content)

    async def end(self, cid: str) -> Tokens | None:
        if self._urls.pop(cid, None) is None:
            return None
        return tokens_of(await self._ask({"op": "collect", "cid": cid}))

    async def _ask(self, request: Json) -> Json:
        assert self._process is not None and self._process.stdin is not None
        self._number += 1
        number, answered = self._number, asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            self._process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            await self._process.stdin.drain()
            async with asyncio.timeout(ASK_S):
                answer: Json = await answered
        except TimeoutError:
            raise PolicyFailed(504, "engine_error", f"the process of the own model is silent for {ASK_S:g} s") from None
        except ConnectionError:
            raise PolicyFailed(502, "engine_error", "the process of the own model has ended") from None
        finally:
            self._waiting.pop(number, None)
        if answer.get("type") == "error":
            raise PolicyFailed(500, "engine_error", clean(str(answer.get("message"))))
        return answer

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = _object(line)
            waiting = self._waiting.get(message.get("id", 0)) if isinstance(message.get("id"), int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        await self._process.wait()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("ended"))

    async def _keep_tail(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        while True:
            with contextlib.suppress(ValueError):  # a line over the limit
                line = await self._process.stderr.readline()
                if not line:
                    return
                self._tail.append(line.decode(errors="replace").rstrip())


def tokens_of(answer: Json) -> Tokens:
    """The `collect` answer in short."""
    calls = [mapping(call) for call in listing(answer.get("calls"))]
    sums = [
        sum(int(call[name]) for call in calls) if all(isinstance(call.get(name), int) for call in calls) else None
        for name in ("prompt_tokens", "completion_tokens")
    ]
    return Tokens(
        calls=len(calls),
        counts={name: int(answer.get(name) or 0) for name in ("clean", "realign", "fork", "drift")},
        forced=tuple(str(name) for name in listing(answer.get("sampling_forced"))),
        logprobs=answer.get("logprobs") is True,
        prompt_tokens=sums[0],
        completion_tokens=sums[1],
        broken=text_of(answer.get("broken")),
    )


def _object(line: bytes) -> Json:
    try:
        return mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}
