"""`python -m tests.slurm`: the tests of batch jobs anew, on a Slurm that is started for them, or why there is none.

What follows is for pytest: `python -m tests.slurm -k notice`.
"""

import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import missing

if reason := missing():
    sys.exit(f"no Slurm here: {reason}")
sys.exit(
    pytest.main(["-m", "slow or not slow", "-v", "-p", "no:cacheprovider", *sys.argv[1:], str(Path(__file__).parent)])
)
