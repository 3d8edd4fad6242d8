"""`python -m tests.faults.short [--seed S] FOLDER`: a few faults of the main kinds into one run, for every build.

Prints what it found as one line of JSON, and leaves the run in FOLDER/left.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from tests.faults.machine import can_mount, mount_disk, unmount, with_own_mounts
from tests.faults.plan import MOUNTED, Injection, Plan
from tests.faults.story import Story

# By attempt; the last one of each ends it. The third brings the run to its end.
FIRST = ("hangup", "app:bad_json", "app:503", "stop:learner", "kill:learner")
SECOND = ("clock:-3600", "second:fresh", "disk_full", "kill:coordinator")
# The first is after the first attempt: what goes on then is a new run, begun from the weights that are whole.
DAMAGED, REST = ("corrupt:weights",), ("torn:events", "torn:rollouts/groups", "garbage:metrics", "asked:stop")
SHORT = (*FIRST, *DAMAGED, *SECOND, *REST)


def plan(seed: int, *, mounts: bool) -> Plan:
    """At points drawn from the seed."""
    rng = random.Random(seed)

    def some(kinds: tuple[str, ...]) -> list[Injection]:
        moments = {"kill:coordinator": "checkpoint"}
        return [
            Injection(kind, moments.get(kind, "training"), rng.uniform(0.0, 0.3), hold_s=1.0, draw=rng.random())
            for kind in kinds
            if mounts or kind not in MOUNTED
        ]

    sets = ("training.max_lag=2", "training.batch_size=8", "checkpoint.every_n_iters=1")
    attempts, rest = [some(FIRST), some(SECOND), []], [some(DAMAGED), some(REST)]
    return Plan(seed, sets, judged=False, updates=1, more=1, attempts=attempts, rest=rest, by_terminal=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.short", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folder", type=Path)
    with_own_mounts("tests.faults.short", sys.argv[1:])
    arguments = parser.parse_args()
    disk, left = arguments.folder.absolute() / "disk", arguments.folder.absolute() / "left"
    disk.mkdir()
    if can_mount():
        mount_disk(disk)
    story = Story(plan(arguments.seed, mounts=can_mount()), disk)
    outcome, scene = story.play(), story.scene
    shutil.copytree(scene.run_dir, left)
    if can_mount():
        unmount(disk)
    ran = {"iterations": story.iterations, "updates": story.plan.updates, "lived_s": scene.seconds}
    told = {"outcome": asdict(outcome), "run": str(left), "damaged": sorted(scene.damaged), "ran": ran}
    print(json.dumps({**told, "mounts": can_mount()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
