"""Synthetic runs of any size, healthy and sick, for tests, benches and for looking at.

`python -m trainer.rundir.synth DIR --episodes N --kind K`. They are written by the real writer. Records
follow from the arguments alone; only status.json names this host. `--live RATE` lets the run go on at RATE
episodes a second until it is interrupted or asked to stop.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from trainer.rundir.synth_attempt import Attempt
from trainer.rundir.synth_data import KINDS, SynthConfig


def write_run(root: str | os.PathLike[str], config: SynthConfig) -> Path:
    """Write a whole synthetic run and give its folder. ValueError: an unknown kind."""
    for _ in play(root, config):
        pass
    return Path(root)


def play(root: str | os.PathLike[str], config: SynthConfig) -> Iterator[int]:
    """As `write_run`, an iteration at a time: gives each iteration's number once its records stand."""
    if config.kind not in KINDS:
        raise ValueError(f"no such kind: {config.kind}; there are {', '.join(KINDS)}")
    if config.kind == "resumed":
        half = max(1, config.iterations // 2)
        kept = max(1, half - max(1, half // 4))
        yield from Attempt(root, config, attempt=1, first=1, last=half).play(end="crashed")
        yield from Attempt(root, config, attempt=2, first=kept + 1, last=config.iterations).play(end="healthy")
    else:
        yield from Attempt(root, config, attempt=1, first=1, last=config.iterations).play(end=config.kind)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.rundir.synth", description="Write a synthetic run.")
    parser.add_argument("dir", type=Path, help="folder of the run; must not exist, or be empty")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--kind", choices=list(KINDS), default="healthy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=24, help="sampled tokens a turn, about")
    parser.add_argument("--judge", action="store_true", help="the episodes are judged, too")
    parser.add_argument("--seconds", type=float, default=None, help="of --live: end by itself after so long")
    parser.add_argument(
        "--live", type=float, default=None, metavar="RATE", help="then go on at RATE episodes a second until Ctrl-C"
    )
    args = parser.parse_args(argv)
    if args.live is not None and args.live <= 0:
        parser.error("--live: RATE must be above 0")
    if args.dir.exists() and any(args.dir.iterdir()):
        print(f"{args.dir} is not empty; name another folder.", file=sys.stderr)
        return 2
    config = SynthConfig(
        episodes=args.episodes,
        kind=args.kind,
        seed=args.seed,
        turns=args.turns,
        tokens=args.tokens,
        judge=args.judge,
    )
    if args.live is not None:
        from trainer.rundir.synth_live import live

        print(args.dir, flush=True)
        live(args.dir, config, rate=args.live, seconds=args.seconds)
        return 0
    print(write_run(args.dir, config))
    return 0


if __name__ == "__main__":
    sys.exit(main())
