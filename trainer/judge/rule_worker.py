"""The process that applies rules of foreign code and foreign patterns: one JSON line asks, one answers.

First {rules, code_from} -> {} or {wrong: [index, text]}; then {rule, position, episode} -> {score} or {code, text}.
`episode` null: that of the line before. Each has `limit_s`, after which whoever asks kills us.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from typing import Any

import msgspec

from trainer.judge.rules import Rule, RuleFailed, WrongRule, read_rule
from trainer.judge.types import JudgedEpisode

Json = dict[str, Any]
_GRACE_S = 5.0  # past the limit the kernel ends us: whoever asked is gone


def main(fd: int) -> None:
    with socket.socket(fileno=fd) as connection, connection.makefile("rwb") as stream:
        connection.set_inheritable(False)
        worker = _Worker()
        for line in stream:
            asked = json.loads(line)
            signal.setitimer(signal.ITIMER_REAL, asked["limit_s"] + _GRACE_S)
            answer = worker.answer(asked)
            signal.setitimer(signal.ITIMER_REAL, 0)
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()


class _Worker:
    def __init__(self) -> None:
        self._rules: list[Rule] | None = None
        self._episode: JudgedEpisode | None = None

    def answer(self, asked: Json) -> Json:
        if self._rules is None:
            return self._start(asked)
        if asked["episode"] is not None:
            self._episode = msgspec.convert(asked["episode"], JudgedEpisode)
        assert self._episode is not None
        try:
            return {"score": self._rules[asked["rule"]].score(self._episode, asked["position"])}
        except RuleFailed as failure:
            return {"code": failure.code, "text": str(failure)}

    def _start(self, asked: Json) -> Json:
        if asked["code_from"] is not None:
            sys.path.insert(0, asked["code_from"])
        self._rules = []
        for number, data in enumerate(asked["rules"]):
            try:
                self._rules.append(read_rule(data))
            except WrongRule as error:
                return {"wrong": [number, str(error)]}
        return {}
