"""What can be seen of a run while it goes, in its raw files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.record import wrong_sums

TAIL = 1 << 14  # bytes


class Seen:
    def __init__(self, run_dir: Path) -> None:
        self._run = run_dir

    def status(self) -> dict[str, Any]:
        try:
            return json.loads((self._run / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def size(self, name: str) -> int:
        """Bytes of a file, 0 if it is not there."""
        try:
            return (self._run / name).stat().st_size
        except FileNotFoundError:
            return 0

    def holds_lock(self, pid: int) -> bool:
        with suppress(OSError):
            return json.loads((self._run / "lock").read_text())["pid"] == pid
        return False

    def answers(self) -> dict[str, tuple[str, str | None]]:
        """Each request's last answer, done or refused, and why it was refused."""
        found = {}
        for event in self.events():
            kind, data = event["type"].removeprefix("rl.control."), event["data"]
            if kind in ("done", "refused"):
                found[data["control_id"]] = (kind, data.get("reason"))
        return found

    def trains(self, pid: int) -> bool:
        status = self.status()
        return status.get("pid") == pid and status["state"] == "running" and status["step"] >= 1

    def evaluates(self) -> bool:
        """Whether an evaluation has begun, and its end is not told yet."""
        with suppress(OSError), (self._run / "events.jsonl").open("rb") as file:
            file.seek(max(0, self.size("events.jsonl") - TAIL))
            tail = file.read()
            return tail.rfind(b'"rl.eval.started"') > tail.rfind(b'"rl.eval.summary"')
        return False

    def newest(self) -> int:
        """Step of the newest checkpoint that is whole, 0 if there is none."""
        found = [path.parent for path in self._run.glob("checkpoints/step_*/STABLE")]
        return max((int(path.name[5:]) for path in found if not wrong_sums(path)), default=0)

    def resumes(self) -> list[int]:
        """From which step each resume went on."""
        return [event["data"]["from_step"] for event in self.events() if event["type"] == "rl.resumed"]

    def events(self) -> list[dict[str, Any]]:
        """Those that can be read."""
        found = []
        with suppress(FileNotFoundError):
            for line in (self._run / "events.jsonl").read_bytes().split(b"\n"):
                with suppress(ValueError):
                    found.append(json.loads(line))
        return found
