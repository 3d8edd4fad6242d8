"""What an edited batch script may leave out, and what it may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rltui.launch.base import Job
from rltui.launch.slurm_relied import missing
from rltui.launch.slurm_script import Request, script

JOB = Job(Path("/home/me/run.toml"), Path("/shared/a run"), "rl_1", ("training.batch_size=4",))
OURS = script(JOB, Request())


def without(begin: str) -> str:
    lines = OURS.splitlines(keepends=True)
    gone = next(line for line in lines if line.startswith(begin))
    return "".join(line for line in lines if line is not gone)


def test_additions_and_other_values_lose_nothing():
    assert missing(OURS, OURS) == []
    text = OURS.replace("#SBATCH --nodes=1", "#SBATCH --nodes=1\n#SBATCH --partition=long").replace(
        "TERM@120", "TERM@300"
    )
    text = text.replace("umask 077", "umask 077\nmodule load cuda").replace("=4)", "=4 --set training.seed=3)")
    assert "seed=3" in text and missing(OURS, text) == []
    assert missing(script(replace(JOB, job_id="rl_2"), Request()), OURS) == []  # the preflight names another job


@pytest.mark.parametrize(
    ("begin", "lost"),
    [
        ("#SBATCH --requeue", "put back"),
        ("#SBATCH --signal", "checkpoint"),
        ("#SBATCH --export", "keys and tokens"),
        ("#SBATCH --output", "slurm.log"),
        ("#SBATCH --open-mode", "overwrites"),
        ('trap \'[ "$pid" ] && kill -TERM', "cannot save"),
        ("    options=(", "begins anew"),
        ('exit "$code"', "how the run ended"),
    ],
)
def test_the_loss_of_a_line_is_named_and_allowed(begin, lost):
    [item] = missing(OURS, without(begin))
    assert lost in item.text and not item.needed and "it needs the line" in item.fix


@pytest.mark.parametrize("begin", ["#!/bin/bash", "run=", "options=("])
def test_what_no_run_starts_without_is_refused(begin):
    assert missing(OURS, without(begin))[0].needed


def test_a_script_that_starts_nothing_or_another_run_is_refused():
    assert [item.needed for item in missing(OURS, OURS.replace("trainer run", "true"))] == [True]
    assert missing(OURS, OURS.replace("/shared/a run", "/shared/other"))[0].needed


def test_a_directive_behind_the_first_command_is_none():
    moved = without("#SBATCH --requeue").replace("umask 077", "umask 077\n#SBATCH --requeue")
    assert [item.text for item in missing(OURS, moved)] == [
        "without --requeue a preempted job is not put back into the queue"
    ]


def test_what_the_config_leaves_out_is_not_missed():
    ours = script(JOB, Request(options={"requeue": False}))
    assert missing(ours, ours) == []
