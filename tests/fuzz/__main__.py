"""`python -m tests.fuzz --seconds N [--json] [TEST...]`: every property, again and again with other examples."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class Watch:
    """Skips what would begin too late, and keeps what failed."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.failures: dict[str, str] = {}

    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.end:
            pytest.skip("the time is over")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures[report.nodeid] = report.longreprtext[-4_000:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the next ones count on")
    parser.add_argument("--json", action="store_true", help="print one object alone, last")
    parser.add_argument("tests", nargs="*", default=[str(HERE)])
    args = parser.parse_args()
    os.environ["FUZZ_RANDOM"] = "1"
    first = seed = random.randrange(1 << 30) if args.seed is None else args.seed
    watch = Watch(time.monotonic() + args.seconds)
    while time.monotonic() < watch.end:
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--hypothesis-seed={seed}"]
        with contextlib.redirect_stdout(sys.stderr):
            ended = pytest.main([*options, *args.tests], plugins=[watch])
        seed += 1
        if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            watch.failures["pytest"] = f"it ended with {ended!r}"
            break
    from tests.fuzz.effort import RUN

    found = {"seed": first, "rounds": seed - first, "examples": dict(RUN), "failures": watch.failures}
    if args.json:
        print(json.dumps(found))
    else:
        for name, count in sorted(RUN.items()):
            print(f"{count:8,}  {name}")
        print(f"{sum(RUN.values()):8,}  in all, {len(watch.failures)} failed (seeds from {first})")
    return 1 if watch.failures else 0


if __name__ == "__main__":
    sys.exit(main())
