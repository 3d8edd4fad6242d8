"""The config editor through a pty: keys to the screen, bytes of a key, idle.

    python tests/bench/config_pty.py [--json] [--keys N] [--seconds S]

At 140x40, on the SDK's example config with the whole schema loaded; see tui_pty.py for how it is measured.

open_ms               start of the process to the checked fields on the screen
move_*, section_*     a move of the cursor; a turn to another section
type_*                a letter in the inline editor
idle_*                nobody touches it
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rltui.samples import samples  # noqa: E402
from tests.bench.tui_pty import Bench, Numbers  # noqa: E402
from tests.tui.terminal_session import Press, TerminalSession  # noqa: E402


def spread(name: str, presses: list[Press]) -> Numbers:
    """Median and p99 of the times, median of the bytes. AssertionError: most keys did nothing."""
    times = sorted(press.ms for press in presses if press.ms is not None)
    if 2 * len(times) < len(presses):
        raise AssertionError(f"{name}: {len(presses) - len(times)} of {len(presses)} keys did nothing")
    return {
        f"{name}_ms_median": statistics.median(times),
        f"{name}_ms_p99": times[min(len(times) - 1, int(0.99 * len(times)))],
        f"{name}_bytes": statistics.median(press.bytes for press in presses if press.ms is not None),
    }


def pressed(session: TerminalSession, keys: Callable[[int], str], count: int, quiet_ms: int) -> list[Press]:
    presses = []
    for number in range(count):
        session.drain_until_quiet(quiet_ms)
        presses.append(session.press(keys(number)))
    return presses


def measure(bench: Bench) -> Numbers:
    (bench.work / "my.toml").write_text(samples()["seed_example"].read_text().replace("your-", "some-"))
    (bench.work / "runs").mkdir(exist_ok=True)
    with bench.session([*bench.command, "config", "edit", "my.toml"]) as session:
        shown = session.wait_for(lambda session: "no problems" in session.screen())
        numbers = {"open_ms": 1000 * (shown - session.started)}
        while "num_epochs" not in session.screen():
            session.send("]")
            session.drain_until_quiet(300)
        zigzag = pressed(session, lambda number: "up" if number % 16 >= 8 else "down", bench.keys, 300)
        numbers |= spread("move", zigzag)
        session.send("g")
        session.drain_until_quiet(300)
        session.send("enter")
        session.drain_until_quiet(300)
        numbers |= spread(
            "type", pressed(session, lambda number: "backspace" if number % 4 == 3 else "1", bench.keys, 500)
        )
        session.send("escape")
        session.drain_until_quiet(500)
        numbers |= spread("section", pressed(session, lambda number: "]", 22, 300))
        session.drain_until_quiet(1500)
        sent, cpu = bench.watched(session)
        return numbers | {"idle_bytes_per_s": sent, "idle_cpu_pct": cpu, "rss_mb": session.rss_mb()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--command", default=shlex.join([sys.executable, "-m", "rltui"]))
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args(argv)
    args.episodes = args.starts = 0
    with tempfile.TemporaryDirectory() as folder:
        numbers = measure(Bench(shlex.split(args.command), Path(folder), args))
    result = {name: round(value, 2) for name, value in numbers.items()}
    print(json.dumps(result) if args.json else "\n".join(f"{name:18} {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
