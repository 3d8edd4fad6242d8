"""How long `rltui validate` takes, beside what it stands on: bare Python, and Python with pydantic.

    python tests/bench/cli_start.py [--runs 15] [--json]

Every process is started anew, with bytecode cached; medians and minima are of wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "pydantic": [sys.executable, "-c", "import pydantic"],
    "validate": [sys.executable, "-m", "rltui", "validate", str(ROOT / "sample_configs" / "demo.toml")],
}


def measure(command: list[str], runs: int, env: dict[str, str]) -> list[float]:
    times = []
    for _ in range(runs + 1):  # the first one fills the bytecode cache
        begun = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        times.append(1000 * (time.perf_counter() - begun))
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = cache
        rows = {name: measure(command, args.runs, env) for name, command in COMMANDS.items()}
    result = {f"{name}_ms": round(statistics.median(times), 1) for name, times in rows.items()}
    result |= {f"{name}_min_ms": round(min(times), 1) for name, times in rows.items()}
    result["load"] = round(os.getloadavg()[0], 2)
    print(json.dumps(result) if args.json else "\n".join(f"{name:16} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
