"""The worst finding by the end of the metrics alone."""

from __future__ import annotations

import json

from rltui.doctor.bands import load
from rltui.doctor.glance import glance


def test_steps_that_a_resume_threw_away_have_no_say(tmp_path):
    def lines(attempt: int, first: int, last: int, value: float) -> list[dict]:
        return [
            {"attempt": attempt, "step": step, "time": 1e9 + step, "judge/agreement": value}
            for step in range(first, last + 1)
        ]

    def said(*parts: list[dict]) -> str | None:
        tail = b"".join(json.dumps(line).encode() + b"\n" for part in parts for line in part)
        found = glance(tail, {"state": "succeeded"}, load(tmp_path / "doctor.toml"))
        return found.reading.measured if found is not None and found.rule.id == "D06" else None

    assert said(lines(1, 1, 20, 0.0)) == "0.00"
    # Attempt 2 went on from step 7: of attempt 1 seven steps count.
    assert said(lines(1, 1, 11, 0.0), lines(2, 8, 20, 0.1)) == "0.07"  # 13 x 0.1 of 20
    assert said(lines(1, 1, 11, 0.0), lines(2, 8, 11, 0.0), lines(3, 2, 20, 0.1)) == "0.10"  # 19 x 0.1 of 20
