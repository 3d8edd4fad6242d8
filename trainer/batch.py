"""Inside a job of a batch system (Slurm, PBS, LSF), which says by SIGTERM that it wants the place back.

It sends that to one process, to some or to all of the job, as its configuration and the occasion have it. Our processes
need each other for the checkpoint that is then written, so only the coordinator hears it; the others are ended by it.
"""

from __future__ import annotations

import os
import signal

BATCH_SYSTEMS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


def in_batch_job() -> bool:
    return any(name in os.environ for name in BATCH_SYSTEMS)


def hold_off_term() -> None:
    """This process and all that it starts never get a SIGTERM, whatever handlers they set: the mask is inherited."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
