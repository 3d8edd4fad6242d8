from __future__ import annotations

import numpy as np
import pytest

from trainer.rundir import RunStatus
from trainer.rundir.status import RunError, merged, warned, with_latest


@pytest.fixture
def status() -> RunStatus:
    return RunStatus(
        job_id="rl_1",
        label="x",
        attempt=1,
        pid=1,
        start_time=1,
        pgid=1,
        host="h",
        boot_id="b",
        created_at="t",
    )


def test_parts_merge_and_wholes_are_replaced(status: RunStatus) -> None:
    status = merged(
        status, {"pipeline": {"running": 3, "need": 8}, "waiting": {"for": "batch", "on": "x", "since": 1.0}}
    )
    status = merged(status, {"pipeline": {"ready": 2}, "step": np.int64(4)})
    assert (status.pipeline.running, status.pipeline.need, status.pipeline.ready, status.step) == (3, 8, 2, 4)
    assert status.waiting is not None and status.waiting.for_ == "batch"
    assert merged(status, {"waiting": None}).waiting is None


def test_a_mistake_is_named_and_changes_nothing(status: RunStatus) -> None:
    with pytest.raises(TypeError, match="stat"):
        merged(status, {"stat": 1})
    with pytest.raises(ValueError, match=r"running"):
        merged(status, {"pipeline": {"running": "many"}})
    assert status.pipeline.running == 0


def test_limits(status: RunStatus) -> None:
    error = RunError(code="c", message="m", hint="h", evidence="e" * 5_000)
    warnings = [{"code": str(n), "text": "t"} for n in range(80)]
    status = merged(status, {"error": error, "warnings": warnings})
    assert status.error is not None and len(status.error.evidence or "") == 2_000
    assert [warning.code for warning in status.warnings] == [str(n) for n in range(30, 80)]
    with_latest(status, {f"a/{n}": n for n in range(250)})
    with_latest(status, {"a/60": 1.0})
    assert len(status.latest) == 200 and list(status.latest)[-1] == "a/60" and "a/49" not in status.latest


def test_a_warning_is_counted_and_what_was_read_before_stays_as_it_was():
    first, new = warned([], "engine", "it was started again", "then")
    again, once_more = warned(first, "engine", "it was started again", "now")
    assert (new, once_more, first[0].count) == (True, False, 1)
    assert [(entry.count, entry.last_at) for entry in again] == [(2, "now")]
    other, new = warned(again, "engine", "it is gone", "now")
    assert new and [entry.count for entry in other] == [2, 1]
