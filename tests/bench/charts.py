"""What a series of a million points costs: python tests/bench/charts.py [--json]

draw_1m_ms: one draw at 100x20 cells, median of 15; append_1m_s: a million points one by one; memory_1m_mb: the
series in memory. CPU time; still, compare two runs on the same machine only.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rltui.charts.draw import draw
from rltui.charts.parts import Options, Series
from rltui.charts.pyramid import Pyramid
from rltui.look import default_look

POINTS = 1_000_000


def measure() -> dict[str, float]:
    rng = random.Random(1)
    xs = range(POINTS)
    ys = [rng.gauss(0, 1) for _ in xs]
    tracemalloc.start()
    pyramid = Pyramid()
    pyramid.extend(xs, ys)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    start = time.process_time()
    one_by_one = Pyramid()
    for x, y in zip(xs, ys, strict=True):
        one_by_one.append(x, y)
    append = time.process_time() - start

    look, series, times = default_look(), [Series("noise", pyramid, 0)], []
    for _ in range(15):
        start = time.process_time()
        draw(series, Options(), 100, 20, "braille", look)
        times.append(time.process_time() - start)
    return {
        "draw_1m_ms": round(statistics.median(times) * 1e3, 2),
        "append_1m_s": round(append, 2),
        "memory_1m_mb": round(memory / 1e6, 1),
    }


if __name__ == "__main__":
    result = measure()
    print(json.dumps(result) if "--json" in sys.argv else "\n".join(f"{name:14} {n}" for name, n in result.items()))
