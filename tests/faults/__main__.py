"""`python -m tests.faults --json [--seed S] [--count N] [--out FILE]`: faults into runs, one run at a time.

Prints, last, {injections, losses, hangs, orphans, by_kind, by_moment}. `--out` is written after every run, and what
stands in it is not played again: a seed is a run. Without mounts or vLLM, the faults that need them are left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.machine import SHM, can_mount, mount_disk, unmount, with_own_mounts
from tests.faults.plan import MOUNTED, draw
from tests.faults.scene import Outcome
from tests.faults.story import Story
from trainer.inference.vllm.process import is_installed


def play(seed: int, room: int, *, keep: Path | None) -> Outcome:
    home = Path(tempfile.mkdtemp(prefix="faults-"))
    folder = home / "disk"
    folder.mkdir()
    if can_mount():
        mount_disk(folder)
    try:
        plan = draw(seed, room=room, mounts=can_mount(), vllm=is_installed())
        outcome = Story(plan, folder).play()
        if keep is not None and (outcome.losses or outcome.hangs or outcome.orphans):
            shutil.copytree(folder, keep / f"seed-{seed}", symlinks=True, dirs_exist_ok=True)
        return outcome
    finally:
        if can_mount():
            unmount(folder)
        shutil.rmtree(home, ignore_errors=True)


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    kinds = Counter(kind for run in runs for kind in run["injections"])
    counts = {name: sum(len(run[name]) for run in runs) for name in ("injections", "losses", "hangs", "orphans")}
    moments = Counter(moment for run in runs for moment in run["moments"])
    without = {} if can_mount() else {"not_allowed": list(MOUNTED)}
    return {**counts, "by_kind": dict(sorted(kinds.items())), "by_moment": dict(moments), **without}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the summary as one line, last on stdout")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the next has the next one")
    parser.add_argument("--count", type=int, default=200, help="injections in all")
    parser.add_argument("--out", type=Path, help="every run, written as it ends; runs in it are not played again")
    parser.add_argument("--keep", type=Path, help="where the folders of runs go in which something was found")
    with_own_mounts("tests.faults", sys.argv[1:])
    arguments = parser.parse_args()
    if can_mount():
        mount_disk(SHM, "512m")  # vLLM wants 160
    runs: list[dict[str, Any]] = []
    if arguments.out is not None and arguments.out.is_file():
        runs = json.loads(arguments.out.read_text())["runs"]
    seed = arguments.seed
    while (made := sum(len(run["injections"]) for run in runs)) < arguments.count:
        if seed not in {run["seed"] for run in runs}:
            runs.append(asdict(play(seed, arguments.count - made, keep=arguments.keep)))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps({**summary(runs), "runs": runs}, indent=1))
        seed += 1
    found = summary(runs)
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))
    return 1 if found["losses"] or found["hangs"] or found["orphans"] else 0


if __name__ == "__main__":
    sys.exit(main())
