"""How near the pipeline comes to what its machines could do, for 1 to 1024 simulated GPUs, in virtual time.

    python -m tests.bench.pipeline_sim [--json] [--gpus 1,8,64]

The dispatcher, admission, groups and learner loop are those of a run; engine, learner and task app are simulated:
answers have a long tail (lognormal, cut at four times the mean), a token takes the longer the more calls share a
replica, environments take time between turns. Half of the GPUs generate, half train; a single one does both in turn.
From 64 GPUs on the model grows with the machine: a replica spans several GPUs, and each does less of one token's work.

The bound is min(generation, training) in tokens per second with every seat of the engine taken, and with the learner
never waiting. Modes:
    sync            max_lag 0: generation and training take turns
    one-step-async  an iteration ahead, and a sync begins what is being generated anew
    in-flight       max_lag 4, what is being generated goes on through syncs
All have the same batch, one and a half times what the engine has seats for.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass

from tests.sim.engine import Speed
from tests.sim.virtual_time import run
from tests.sim.world import Shape, World, config

GPUS = tuple(2**k for k in range(11))
MODES = {"sync": (0, False), "one-step-async": (1, True), "in-flight": (4, False)}  # max_lag, restarts
REPLICAS = 16  # at most: beyond it they grow
GROUP = 8
FIRST, LAST = 4, 30  # measured from the closing of the one batch to that of the other: few batches differ by percents
TRAINER_AHEAD = 1.1  # training is that much faster than generation: a split is never exact


@dataclass(frozen=True, slots=True)
class Row:
    gpus: int
    mode: str
    ratio_to_bound: float
    trainer_idle: float
    generator_idle: float


def simulate(gpus: int, mode: str) -> Row:
    max_lag, restarts = MODES[mode]
    generating = max(1, gpus // 2)
    replicas = min(generating, REPLICAS)
    wide = generating / replicas  # GPUs of a replica
    speed = Speed(alone=0.015 / wide, shared=0.0005 / wide)
    generation = replicas * speed.best
    training = generation * TRAINER_AHEAD
    shape = Shape(
        replicas=replicas,
        speed=speed,
        step_s=0.5 / wide,
        train_tokens_per_s=training,
        sync_s=0.5 / wide,
        colocated=gpus == 1,
        restarts=restarts,
        seed=gpus,
    )
    seats = replicas * speed.seats
    loaded = config(
        rollout__episodes_per_batch=seats * 3 // 2,
        rollout__max_concurrent_rollouts=seats * 5 // 4,
        training__group_size=GROUP,
        training__batch_size=seats * 3 // 2,
        training__iterations_per_epoch=LAST + 3,
        training__max_lag=max_lag,
    )
    world = run(_played(World, loaded, shape))
    bound = 1 / (1 / generation + 1 / training) if gpus == 1 else min(generation, training)
    began, ended = (world.recorder.batches[i].at for i in (FIRST, LAST))
    window = ended - began
    trained = sum(tokens for at, tokens in world.trained_tokens if began < at <= ended)
    decoded = sum(replica.decoded_between(began, ended) for replica in world.engine.replicas)
    return Row(
        gpus,
        mode,
        ratio_to_bound=round(trained / window / bound, 3),
        trainer_idle=round(1 - trained / training / window, 3),
        generator_idle=round(1 - decoded / generation / window, 3),
    )


async def _played(make: type[World], loaded: object, shape: Shape) -> World:
    world = make(loaded, shape)  # type: ignore[arg-type]
    await world.pipeline.run()
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="rows as one JSON list")
    parser.add_argument("--gpus", default=",".join(map(str, GPUS)))
    arguments = parser.parse_args()
    started = time.monotonic()
    rows = [simulate(int(gpus), mode) for gpus in arguments.gpus.split(",") for mode in MODES]
    if arguments.json:
        names = Row.__slots__
        print(json.dumps([{name: getattr(row, name) for name in names} for row in rows]))
    else:
        print(f"{'gpus':>5}  {'mode':<15}{'of bound':>9}{'trainer idle':>14}{'generator idle':>16}")
        for row in rows:
            print(
                f"{row.gpus:>5}  {row.mode:<15}{row.ratio_to_bound:>9.1%}{row.trainer_idle:>14.1%}"
                f"{row.generator_idle:>16.1%}"
            )
        print(f"{time.monotonic() - started:.0f} s of real time")
    worst = min((row.ratio_to_bound for row in rows if row.mode == "in-flight"), default=1.0)
    return 0 if worst >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
