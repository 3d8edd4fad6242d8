"""The proof, as tables in Markdown: training against TRL and our own loop, parity, many GPUs, the interface.

    python -m tests.bench.proof [--json] [--parts peers,own,slow,parity,pipeline,interface] [--seeds 0,1,2] [--steps 10]

Every figure comes from one of the benches beside this file, run here and now on this machine, one after the other; each
of them tells how it measures. All of it takes some 35 minutes on two cores. --json: the benches' own results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).parents[2]
SHOWN_GPUS = (1, 8, 16, 64, 1024)

Rows = Iterator[tuple[str, ...]]


class Part(NamedTuple):
    """A bench and the table of its last line of output."""

    title: str
    command: Callable[[argparse.Namespace], list[str]]
    head: tuple[str, ...]
    rows: Callable[[Any], Rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--target", type=float, default=0.2)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine()}
    if not options.json:
        print(found["machine"], flush=True)
    for name in options.parts.split(","):
        part = PARTS[name]
        command = part.command(options)
        found[name] = result_of(command)
        if not options.json:
            print(f"\n**{part.title}** (`python {shlex.join(command)}`)\n")
            print("\n".join(table(part.head, part.rows(found[name]))), flush=True)
    if options.json:
        print(json.dumps(found))


def machine() -> str:
    cpu = next(
        (line.split(": ", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    memory = psutil.virtual_memory().total / 2**30
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, no GPU used; Python {platform.python_version()}"


def result_of(command: list[str]) -> Any:
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: exit status {done.returncode}; its own words are above")
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(head: tuple[str, ...], rows: Rows) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def peers(found: dict[str, Any]) -> Rows:
    sides = ("ours", "trl", "trl_tuned")
    yield "samples/s, median", *(f"{found[side]:.2f}" for side in sides)
    yield "rltui is so many times as fast", "", *(f"{found['ours'] / found[side]:.2f}" for side in sides[1:])
    yield "steps and seconds to the reward, by seed", *(each(found["to_reward"][side]) for side in sides)
    yield "where the time of a step goes", ", ".join(f"{n} {100 * s:.0f} %" for n, s in found["where"].items()), "", ""
    yield "peak memory of all processes, MB", *(f"{found['rss_mb'][side]:,}" for side in sides)


def own(found: dict[str, Any]) -> Rows:
    summary = found["summary"]
    rate = {mode: summary[mode]["samples_per_sec"] for mode in ("synchronous", "in-flight")}
    yield *(f"{value:.2f}" for value in rate.values()), f"{summary['speed_ratio']:.2f}"


def each(found: list[tuple[int, float] | None]) -> str:
    return ", ".join("not reached" if one is None else f"{one[0]}: {one[1]:.0f} s" for one in found)


def parity(found: dict[str, Any]) -> Rows:
    for engine, measured in found["engines"].items():
        for dtype, gap in measured["gaps"].items():
            yield engine, dtype, *(f"{gap[name]:.2g}" for name in ("token_mean", "sequence_mean", "sequence_max"))


def pipeline(found: list[dict[str, Any]]) -> Rows:
    for mode in dict.fromkeys(row["mode"] for row in found):
        ratios = {row["gpus"]: row["ratio_to_bound"] for row in found if row["mode"] == mode}
        yield mode, *(f"{ratios[gpus]:.3f}" for gpus in SHOWN_GPUS)


def interface(found: dict[str, float]) -> Rows:
    yield "first paint; a bare Textual app", f"{found['first_paint_ms']:.0f} ms; {found['bare_app_ms']:.0f} ms"
    opened = f"{found['open_100k_s']:.2f} s; {found['open_1m_points_s']:.2f} s"
    yield "a run of 0.5 GB: its 100,000 rollouts open; its charts with a million points", opened
    yield "key to screen there, median; 99th of 100", f"{found['key_ms_median']:.1f} ms; {found['key_ms_p99']:.1f} ms"
    yield "bytes a key", f"{found['bytes_per_key']:.0f}"
    yield "idle", f"{found['idle_bytes_per_s']:.0f} bytes/s, {found['idle_cpu_pct']:.1f} % of a core"
    yield "live overview; six live charts", f"{found['live_cpu_pct']:.1f} %; {found['six_cpu_pct']:.1f} % of a core"
    yield "memory", f"{found['rss_base_mb']:.0f} MB; with 100,000 rollouts {found['rss_100k_mb']:.0f} MB"


PARTS = {
    "peers": Part(
        "GSPO on the demo's task, three seeds",
        lambda o: [
            *("tests/bench/vs_trl.py", "--json", "--seeds", o.seeds),
            *("--steps", str(o.steps), "--target", str(o.target)),
        ],
        ("", "rltui", "TRL", "TRL, tuned for a CPU"),
        peers,
    ),
    **{
        name: Part(
            f"Samples/s on one CPU, {title}",
            lambda o, sleep=sleep: [
                *("tests/bench/own_loop.py", "--json", "--seeds", o.seeds),
                *("--sleep", sleep, "--iterations", str(o.steps), "--every", "0"),
            ],
            ("synchronous", "in-flight", "so many times as fast"),
            own,
        )
        for name, title, sleep in (
            ("own", "the environment answers at once", "0"),
            ("slow", "it takes 2 s a turn", "2"),
        )
    },
    "parity": Part(
        "|delta logp|, engine against learner",
        lambda o: ["-m", "tests.bench.engines", "--json", "--sizes", "16"],
        ("engine", "dtype", "token, mean", "sequence, mean", "sequence, at most"),
        parity,
    ),
    "pipeline": Part(
        "Share of what simulated GPUs could do",
        lambda o: ["-m", "tests.bench.pipeline_sim", "--json", "--gpus", ",".join(map(str, SHOWN_GPUS))],
        ("mode", *(f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in SHOWN_GPUS)),
        pipeline,
    ),
    "interface": Part(
        "The interface through a pty, 140x40", lambda o: ["tests/bench/tui_pty.py", "--json"], ("", ""), interface
    ),
}

if __name__ == "__main__":
    main()
