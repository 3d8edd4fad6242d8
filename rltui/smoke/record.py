"""What went over the wire, kept for the stage that runs: short, and without what is secret."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from rltui.smoke.report import Exchange
from trainer.config.secrets import is_secret
from trainer.rundir.logs import mask_secrets
from trainer.taskapp.bodies import Answer

SHOWN_CHARS = 4_000  # of a request, and of an answer
KEPT = 4  # exchanges that failed, and again as many that did not: the newest of each
MOST_DEPTH = 60  # of JSON that is kept
FRAGMENT = 8  # characters of a key in a row that are a leak


class Recorder:
    """Collects exchanges. `leaks`: which answers held what is secret, in the order they came."""

    def __init__(self) -> None:
        self._secrets: list[str] = []
        self._failed: deque[tuple[int, Exchange]] = deque(maxlen=KEPT)
        self._passed: deque[tuple[int, Exchange]] = deque(maxlen=KEPT)
        self._count = 0
        self.leaks: list[str] = []
        self.answers: dict[str, Answer] = {}  # to POST /rollout, by cid, until `play` takes them

    def keep_secret(self, values: Iterable[str]) -> None:
        found = {value for value in (*self._secrets, *values) if len(value) >= FRAGMENT}
        self._secrets = sorted(found, key=len, reverse=True)

    def masked(self, text: str) -> str:
        return mask_secrets(text, self._secrets)

    def masked_json(self, value: Any, depth: int = 0) -> Any:
        """The same with every text in it masked, and what stands under the name of a key."""
        if depth > MOST_DEPTH:
            return "…"
        if isinstance(value, dict):
            return {
                self.masked(name): "***"
                if isinstance(item, str) and is_secret(name, item)
                else self.masked_json(item, depth + 1)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.masked_json(item, depth + 1) for item in value]
        return self.masked(value) if isinstance(value, str) else value

    def observe(self, method: str, url: str, body: Any, answer: Answer | None, seconds: float) -> None:
        """One request, as `TaskAppClient` and `Probe` tell of it."""
        where = f"{method} {url.partition('?')[0]}"
        if answer is not None and (answer.leaked or self._holds_secret(answer.body)):
            self.leaks.append(where)
        if answer is not None and isinstance(body, dict) and isinstance(body.get("run_id"), str):
            self.answers[body["run_id"]] = answer
        request, cut = self._shown("" if body is None else json.dumps(body, ensure_ascii=False))
        response, cut_too = self._shown(
            "" if answer is None else answer.body[: 8 * SHOWN_CHARS].decode("utf-8", "replace")
        )
        cut_too |= answer is not None and len(answer.body) > 8 * SHOWN_CHARS
        status = None if answer is None else answer.status
        exchange = Exchange(method, self.masked(url), status, seconds, request, response, cut or cut_too)
        passed = status is not None and status < 400
        (self._passed if passed else self._failed).append((self._count, exchange))
        self._count += 1

    def take(self) -> tuple[Exchange, ...]:
        """What was recorded since the last call, the newest of it, in order."""
        both = sorted([*self._failed, *self._passed], key=lambda item: item[0])
        self._failed.clear()
        self._passed.clear()
        return tuple(exchange for _, exchange in both)

    def _shown(self, text: str) -> tuple[str, bool]:
        """Masked, then cut: a key must not be halved first."""
        text = self.masked(text[: 8 * SHOWN_CHARS])
        return text[:SHOWN_CHARS], len(text) > SHOWN_CHARS

    def _holds_secret(self, body: bytes) -> bool:
        return any(secret.encode() in body for secret in self._secrets)


def shows_part_of(body: bytes, keys: Iterable[str]) -> bool:
    """Whether eight characters in a row of one of the keys stand in the body."""
    text = body.decode("utf-8", "replace")
    return any(key[i : i + FRAGMENT] in text for key in keys for i in range(max(0, len(key) - FRAGMENT) + 1) if key)
