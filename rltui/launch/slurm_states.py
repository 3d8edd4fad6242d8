"""What Slurm's commands say of a job, and the same in words. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

# squeue(1): states of a job that is over. PREEMPTED is one of those that are not requeued.
OVER = frozenset({
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "FORGOTTEN", "LAUNCH_FAILED", "NODE_FAIL",
    "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT",
})  # fmt: skip
NO_OUTPUT = 53  # the signal part of an exit code: slurmd could not open the file that the output goes to

# squeue(1): job reason codes.
_REASONS = {
    "Resources": "until enough nodes are free",
    "Priority": "behind jobs of a higher priority",
    "BeginTime": "until its earliest start",
    "Dependency": "for the jobs that it depends on",
    "JobHeldUser": "until you release it (scontrol release)",
    "JobHeldAdmin": "until an administrator releases it",
    "JobArrayTaskLimit": "until other tasks of its array end",
    "Licenses": "for a licence",
    "NodeDown": "for a node that is down",
    "ReqNodeNotAvail": "for nodes that are down or reserved",
    "PartitionDown": "because its partition is down",
    "PartitionInactive": "because its partition starts no jobs",
    "PartitionNodeLimit": "because it asks for more nodes than its partition gives",
    "PartitionTimeLimit": "because it asks for more time than its partition gives",
    "Reservation": "until its reservation begins",
    "Cleaning": "until what it left on its nodes is cleaned up",
    "Prolog": "until its nodes are prepared",
    "InvalidAccount": "because its account is not valid",
    "InvalidQOS": "because its quality of service is not valid",
    "BadConstraints": "because no node is what it asks for",
    "SystemFailure": "after a failure of the batch system",
    "None": "until Slurm has looked at it",
}
_LIMITS = re.compile(r"(QOS|Assoc|MaxJobs|AccountingPolicy)")


@dataclass(frozen=True)
class JobState:
    state: str  # PENDING, RUNNING, …; FORGOTTEN, which is ours
    reason: str = ""  # why it waits, or how it ended
    start: str = ""  # local ISO time of its start, or when it is expected
    nodes: str = ""
    exit_code: int | None = None  # of the script; negative: the signal that ended it

    @property
    def over(self) -> bool:
        return self.state in OVER


SQUEUE_FORMAT = "%T|%r|%S|%N"


def of_squeue(line: str) -> JobState | None:
    """The first line of `squeue --noheader --format=SQUEUE_FORMAT`. None: it says nothing of the job."""
    fields = line.strip().split("|")
    if len(fields) != 4:
        return None
    state, reason, start, nodes = fields
    return JobState(state, _without_none(reason), "" if start in ("N/A", "Unknown") else start, nodes)


def of_scontrol(line: str) -> JobState | None:
    """The line of `scontrol show job ID --oneliner`."""
    found = dict(re.findall(r"(?:^|\s)(JobState|Reason|StartTime|NodeList|ExitCode)=(\S*)", line))
    if "JobState" not in found:
        return None
    start, nodes = found.get("StartTime", ""), found.get("NodeList", "")
    return JobState(
        found["JobState"],
        _without_none(found.get("Reason", "")),
        "" if start in ("N/A", "Unknown") else start,
        "" if nodes == "(null)" else nodes,
        exit_code(found.get("ExitCode", "")),
    )


SACCT_FORMAT = "State,Reason,Start,NodeList,ExitCode"


def of_sacct(line: str) -> JobState | None:
    """The first line of `sacct --parsable2 --noheader --allocations --format=SACCT_FORMAT`."""
    fields = line.strip().split("|")
    if len(fields) != 5:
        return None
    state, reason, start, nodes, code = fields
    state = state.split()[0] if state else ""  # "CANCELLED by 1000"
    nodes = "" if nodes == "None assigned" else nodes
    return JobState(state, _without_none(reason), "" if start in ("None", "Unknown") else start, nodes, exit_code(code))


def exit_code(text: str) -> int | None:
    """`CODE:SIGNAL`, as a process's returncode: the negative signal where there is one."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        return None
    code, number = int(match[1]), int(match[2])
    return -number if number else code


def waits(found: JobState) -> str:
    """Why a pending job waits, in words, with Slurm's own word and the expected start."""
    reason = found.reason or "None"
    name = reason.split(",")[0].strip()  # "ReqNodeNotAvail, UnavailableNodes:n1"
    words = _REASONS.get(name, "until a limit of your account or its quality of service allows it")
    if name not in _REASONS and not _LIMITS.match(name):
        words = "for a reason that Slurm calls so"
    start = f"; expected to start at {found.start.replace('T', ' ')}" if found.start else ""
    return f"it waits {words} ({reason}){start}"


def ended(found: JobState) -> str:
    """How a job ended, in a sentence's second half."""
    code = found.exit_code
    match found.state:
        case "COMPLETED":
            return "ended"
        case "TIMEOUT" | "DEADLINE":
            return "reached its time limit"
        case "CANCELLED":
            return "was cancelled"
        case "OUT_OF_MEMORY":
            return "ran out of the memory that it asked for"
        case "NODE_FAIL" | "BOOT_FAIL":
            return f"lost its node {found.nodes}".rstrip()
        case "PREEMPTED":
            return "was preempted, and is not requeued"
    cause = "" if code is None else f" with status {code}" if code >= 0 else f" by signal {-code}"
    reason = f" ({found.reason})" if found.reason else ""
    return f"ended as {found.state}{cause}{reason}"


def _without_none(reason: str) -> str:
    return "" if reason in ("None", "(null)") else reason
