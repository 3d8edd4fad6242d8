"""What is advised when a run ends by a known cause."""

from __future__ import annotations

import errno
from pathlib import Path

from trainer.errors import not_writable
from trainer.failures import run_error
from trainer.outage import TaskAppGone
from trainer.rundir.synth import SynthConfig, write_run


def test_a_resume_is_advised_only_where_there_is_a_checkpoint(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", SynthConfig(episodes=320, kind="crashed"))
    for root, resumes in ((run, True), (tmp_path / "new", False)):
        error = run_error(TaskAppGone("it is down"), root=root, serves_task_app=False)
        assert error is not None and ("--resume" in error.hint) is resumes


def test_a_disk_that_takes_no_writes_is_named_and_other_errors_are_not_taken_for_it(tmp_path: Path) -> None:
    error = not_writable(tmp_path, OSError(errno.EROFS, "Read-only file system", "status.json"))
    assert error is not None and str(tmp_path) in error.message and "--resume" in error.hint
    assert not_writable(tmp_path, ConnectionRefusedError(errno.ECONNREFUSED, "refused")) is None
