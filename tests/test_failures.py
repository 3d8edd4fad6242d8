"""What is advised when a run ends by a known cause."""

from __future__ import annotations

from pathlib import Path

from trainer.failures import run_error
from trainer.outage import TaskAppGone
from trainer.rundir.synth import SynthConfig, write_run


def test_a_resume_is_advised_only_where_there_is_a_checkpoint(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", SynthConfig(episodes=320, kind="crashed"))
    for root, resumes in ((run, True), (tmp_path / "new", False)):
        error = run_error(TaskAppGone("it is down"), root=root, serves_task_app=False)
        assert error is not None and ("--resume" in error.hint) is resumes
