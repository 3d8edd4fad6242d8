"""A synthetic run that goes on: an iteration (2 steps, 32 episodes) a second, until stdin is closed.

    python tests/bench/growing_run.py DIR [--first N] [--at-once K]

In a new DIR iterations begin at 1; --first N goes on, in a second attempt, with a run of which N - 1 are there, which
`python -m trainer.rundir.synth --live` cannot. K iterations are written at once; then a line `ready` is printed. This
process is the run's coordinator to whoever looks at it.
"""

from __future__ import annotations

import argparse
import select
import sys
import time
from pathlib import Path

from trainer.rundir.synth_attempt import Attempt
from trainer.rundir.synth_data import SynthConfig

EPISODES = 1_000_000  # planned; more than any bench waits for
SECONDS = 15.0  # that an iteration of the history took, about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=0)
    args = parser.parse_args()
    config = SynthConfig(episodes=EPISODES, kind="running", turns=2, learner_blocks=False)
    number = 1 if args.first == 1 else 2
    begun = time.time() - SECONDS * args.at_once
    run = Attempt(args.dir, config, attempt=number, first=args.first, last=config.iterations, started=begun)
    run.clock.now = begun
    for iteration in run.play(end="running"):
        written = iteration - args.first + 1
        if written == max(1, args.at_once):
            print("ready", flush=True)
        if written >= args.at_once:
            if select.select([sys.stdin], [], [], 1.0)[0]:
                break
            run.clock.now = time.time()


if __name__ == "__main__":
    main()
