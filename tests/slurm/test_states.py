"""What Slurm 22.05 printed, recorded from a cluster of its own (cluster.py); sacct's lines are from its manual."""

import pytest

from rltui.launch.base import LaunchError
from rltui.launch.slurm_commands import FORGOTTEN, job_state, said, sbatch, submitted
from rltui.launch.slurm_states import JobState, ended, of_sacct, of_scontrol, of_squeue, waits

SHOWN = (
    "JobId=17 JobName=wrap UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901744 Nice=0 Account=(null) "
    "QOS=(null) JobState=FAILED Reason=JobLaunchFailure Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:53 RunTime=00:00:00 TimeLimit=00:30:00 TimeMin=N/A SubmitTime=2026-11-30T10:52:13 "
    "EligibleTime=2026-11-30T10:52:13 AccrueTime=2026-11-30T10:52:13 StartTime=2026-11-30T10:52:14 "
    "EndTime=2026-11-30T10:52:14 Deadline=N/A PreemptEligibleTime=2026-11-30T10:52:14 PreemptTime=None "
    "SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T10:52:14 Scheduler=Backfill Partition=main "
    "AllocNode:Sid=localhost:17349 ReqNodeList=(null) ExcNodeList=(null) NodeList=n1 BatchHost=n1 NumNodes=1 "
    "NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,node=1,billing=1 Socks/Node=* "
    "NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot="
    "00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) Command=(null) WorkDir=/w "
    "StdErr=/nonexistent/x StdIn=/dev/null StdOut=/nonexistent/x Power= \n"
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("PENDING|PartitionDown|N/A|\n", "it waits because its partition is down (PartitionDown)"),
        (
            "PENDING|BeginTime|2026-11-30T11:52:09|\n",
            "it waits until its earliest start (BeginTime); expected to start at 2026-11-30 11:52:09",
        ),
        ("PENDING|JobHeldUser|N/A|\n", "it waits until you release it (scontrol release) (JobHeldUser)"),
        ("PENDING|None|N/A|\n", "it waits until Slurm has looked at it (None)"),
        (
            "PENDING|QOSMaxGRESPerUser|N/A|\n",
            "it waits until a limit of your account or its quality of service allows it (QOSMaxGRESPerUser)",
        ),
        (
            "PENDING|ReqNodeNotAvail, UnavailableNodes:n1|N/A|\n",
            "it waits for nodes that are down or reserved (ReqNodeNotAvail, UnavailableNodes:n1)",
        ),
        ("PENDING|Sunspots|N/A|\n", "it waits for a reason that Slurm calls so (Sunspots)"),
    ],
)
def test_a_reason_is_told_in_words(line, words):
    found = of_squeue(line)
    assert found is not None
    assert not found.over
    assert waits(found) == words


def test_the_end_of_a_job_as_scontrol_shows_it():
    found = of_scontrol(SHOWN)
    assert found == JobState("FAILED", "JobLaunchFailure", "2026-11-30T10:52:14", "n1", -53)
    assert ended(found) == "ended as FAILED by signal 53 (JobLaunchFailure)"


def test_the_end_of_a_job_as_the_accounts_have_it():
    assert of_sacct("CANCELLED by 1000|None|None|None assigned|0:0\n") == JobState("CANCELLED", exit_code=0)
    found = of_sacct("TIMEOUT|TimeLimit|2026-11-30T10:52:14|n[1-2]|0:15\n")
    assert found == JobState("TIMEOUT", "TimeLimit", "2026-11-30T10:52:14", "n[1-2]", -15)
    assert ended(found) == "reached its time limit"


class Slurm:
    """Answers by the name of the command: (exit code, stdout, stderr)."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self._answers = answers

    def __call__(self, name: str, *words: str) -> tuple[int, str, str]:
        return self._answers[name]


INVALID = (1, "", "slurm_load_jobs error: Invalid job id specified\n")
NO_ACCOUNTS = (1, "", "Slurm accounting storage is disabled\n")
AWAY = (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")


def test_a_job_that_ended_has_its_exit_code_from_scontrol():
    assert job_state("17", Slurm(squeue=(0, "RUNNING|None|2026-11-30T10:52:14|n1\n", ""))) == JobState(
        "RUNNING", "", "2026-11-30T10:52:14", "n1"
    )
    over = (0, "FAILED|JobLaunchFailure|2026-11-30T10:52:14|n1\n", "")
    assert job_state("17", Slurm(squeue=over, scontrol=(0, SHOWN, ""))).exit_code == -53
    assert job_state("17", Slurm(squeue=over, scontrol=INVALID)).state == "FAILED"


def test_a_job_that_the_controller_has_forgotten_is_looked_up_in_the_accounts():
    kept = (0, "COMPLETED|None|2026-11-30T10:52:14|n1|0:0\n", "")
    assert job_state("17", Slurm(squeue=INVALID, sacct=kept)).exit_code == 0
    assert job_state("17", Slurm(squeue=INVALID, sacct=NO_ACCOUNTS)) is FORGOTTEN
    assert FORGOTTEN.over


def test_a_controller_that_gives_no_answer_says_nothing_of_a_job():
    assert job_state("17", Slurm(squeue=AWAY)) is None


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            "sbatch: error: invalid partition specified: nope\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "invalid partition specified: nope",
        ),
        (
            "allocation failure: Requested node configuration is not available\n",
            "Requested node configuration is not available",
        ),
        (
            "sbatch: unrecognized option '--bogus=1'\nTry \"sbatch --help\" for more information\n",
            "unrecognized option '--bogus=1'",
        ),
        (
            "sbatch: Job 6 to start at 2026-11-30T10:52:09 using 2 processors on nodes n[1-2] in partition main\n",
            "Job 6 to start at 2026-11-30T10:52:09 using 2 processors on nodes n[1-2] in partition main",
        ),
    ],
)
def test_what_sbatch_says_is_told_without_its_name(stderr, words):
    assert said(stderr) == words


def test_a_job_does_not_get_what_is_of_a_job_that_we_are_in():
    environ = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_CONF": "/c", "ENVIRONMENT_API_KEY": "k"}
    assert submitted(environ) == {"SLURM_CONF": "/c", "ENVIRONMENT_API_KEY": "k"}


@pytest.mark.parametrize("reachable", [True, False])
def test_a_controller_that_is_not_reached_refuses_nothing(tmp_path, monkeypatch, reachable):
    for name, code in (("sbatch", 1), ("sinfo", 0 if reachable else 1)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{name}: error: Unknown host' >&2\nexit {code}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(LaunchError) as caught:
        sbatch("--test-only", "", {"PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert caught.value.refused is reachable
    assert ("launcher_options" in caught.value.hint) is reachable and "Unknown host" in str(caught.value)
