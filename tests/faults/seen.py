"""What can be seen of a run while it goes, in its raw files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.record import wrong_sums


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

    def trains(self, pid: int) -> bool:
        status = self.status()
        return status.get("pid") == pid and status["state"] == "running" and status["step"] >= 1

    def newest(self) -> int:
        """Step of the newest checkpoint that is whole, 0 if there is none."""
        found = [path.parent for path in self._run.glob("checkpoints/step_*/STABLE")]
        return max((int(path.name[5:]) for path in found if not wrong_sums(path)), default=0)

    def resumes(self) -> list[int]:
        """From which step each resume went on."""
        found = []
        with suppress(FileNotFoundError):
            for line in (self._run / "events.jsonl").read_bytes().split(b"\n"):
                with suppress(ValueError):
                    event = json.loads(line)
                    found += [event["data"]["from_step"]] if event["type"] == "rl.resumed" else []
        return found
