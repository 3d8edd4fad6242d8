"""Every episode of a smoke test in a SQLite file, for whoever wants to query them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rltui.smoke.policies.base import Policy
from rltui.smoke.report import Episode, Turn

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, created TEXT, target TEXT, policy TEXT, model TEXT);
CREATE TABLE IF NOT EXISTS episodes (
  run INTEGER REFERENCES runs(id), n INTEGER, cid TEXT, stage TEXT, seed INTEGER, member INTEGER, R REAL, A REAL,
  outcome REAL, step_rewards TEXT, excluded TEXT, sentence TEXT, warnings TEXT, seconds REAL, policy_seconds REAL,
  prompt_tokens INTEGER, completion_tokens INTEGER, trace TEXT, PRIMARY KEY (run, n)
);
CREATE TABLE IF NOT EXISTS turns (
  run INTEGER, n INTEGER, turn INTEGER, messages TEXT, reply TEXT, tool_calls TEXT, seconds REAL, tokens INTEGER,
  error TEXT, PRIMARY KEY (run, n, turn)
);
"""


class TracesUnwritable(Exception):
    """The file cannot be written. The text names it."""


class TraceStore:
    """Appends one run. Lists are JSON text, times seconds, `created` ISO 8601 in UTC."""

    def __init__(self, path: str, target: str, policy: Policy) -> None:
        """Raises TracesUnwritable."""
        self.path = Path(path).expanduser()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path)
            self._db.executescript(_TABLES)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            row = (created, target, policy.name, policy.model)
            cursor = self._db.execute("INSERT INTO runs (created, target, policy, model) VALUES (?, ?, ?, ?)", row)
            self._db.commit()
        except (OSError, sqlite3.Error) as error:
            raise TracesUnwritable(f"{self.path}: {error}") from None
        self._run = cursor.lastrowid

    def add(self, episode: Episode, cid: str, trace: str | None) -> None:
        """One episode; trace: JSON text. Nothing in it is secret any more."""
        e = episode
        row = (
            *(self._run, e.n, cid, e.stage, e.seed, e.member, e.R, e.A, e.outcome, json.dumps(e.step_rewards)),
            *(e.excluded, _text(e.sentence), json.dumps(e.warnings), e.seconds, e.policy_seconds),
            *(e.prompt_tokens, e.completion_tokens, trace),
        )
        turns = [
            (self._run, e.n, i, json.dumps(t.messages_tail), _text(t.reply), json.dumps(t.tool_calls), *_numbers(t))
            for i, t in enumerate(e.turns)
        ]
        self._db.execute(f"INSERT OR REPLACE INTO episodes VALUES ({_marks(18)})", row)
        self._db.executemany(f"INSERT OR REPLACE INTO turns VALUES ({_marks(9)})", turns)
        self._db.commit()

    def set_advantages(self, episodes: Sequence[Episode]) -> None:
        """What is known of the members of a group once it has closed."""
        rows = [(episode.A, self._run, episode.n) for episode in episodes]
        self._db.executemany("UPDATE episodes SET A = ? WHERE run = ? AND n = ?", rows)
        self._db.commit()

    def close(self) -> None:
        self._db.close()


def _numbers(turn: Turn) -> tuple[float, int | None, str | None]:
    return turn.seconds, turn.tokens, None if turn.error is None else _text(turn.error)


def _text(text: str) -> str:
    """Without lone surrogates, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()


def _marks(count: int) -> str:
    return ", ".join("?" * count)
