"""What a server writes in more than one piece, where it ends between two of them."""

from __future__ import annotations

import pytest

from rltui.server import record
from rltui.server.job import document
from tests.server.conftest import body, make_jobs  # noqa: F401 (a fixture)
from trainer.rundir import RunReader


def test_a_job_and_what_is_told_of_it_are_saved_together(make_jobs):  # noqa: F811
    jobs = make_jobs()
    row, _ = jobs.create(body(), idempotency_key=None, key=None)
    row.status = "running"
    with pytest.raises(TypeError):
        jobs.table.change(row, "job.started", at=object())  # the second of two writes fails
    jobs.close()
    again = make_jobs()
    assert again.table.rows[row.job_id].status == "queued"
    assert [change["type"] for change in again.changes(0)] == ["job.created"]
    again.table.change(row, "job.started")
    assert [change["seq"] for change in again.changes(0)] == [1, 2]


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_the_end_of_a_job_is_told_once(make_jobs, monkeypatch, how):  # noqa: F811
    jobs = make_jobs()
    row, _ = jobs.create(body(), idempotency_key=None, key=None)
    folder = jobs.folder(row.job_id)

    def end(attempt: int = 1) -> None:
        about = (folder, row.job_id, row.label, attempt)
        if how == "failed":
            record.failed(*about, {"code": "process_lost", "message": "it ended", "hint": "look"})
        else:
            record.cancelled(*about, reason="killed")

    def types() -> list[str]:
        return [event["type"] for event in RunReader(folder).events()][1:]

    with monkeypatch.context() as patched:
        patched.setattr(record, "_end", lambda *args, **facts: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            end()
    said = types()
    end()
    assert types() == said and said[-1] == f"rl.job.{how}"
    found = document(*jobs.row(row.job_id))
    assert (found["status"], found["results"]["status"]) == (how, how)
    end(attempt=2)
    assert types() == said * 2
