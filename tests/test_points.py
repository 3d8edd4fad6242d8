"""rl.metrics: several points an event, none that waits long, none twice, none that is no number."""

from __future__ import annotations

import math

from trainer.points import BATCH, NAMES, Points


def test_points_come_in_batches_or_when_the_first_has_waited():
    sent, now = [], [0.0]
    points = Points(sent.append, clock=lambda: now[0])
    values = {"gspo/loss": 0.1, "optim/lr": math.nan, "reward/mean": 0.5, "gspo/sd": 3.0}
    points.add(values, step=1, iteration=1, epoch=0)
    assert sent == []
    now[0] = 1.0
    points.due()
    points.due()
    assert [(p["name"], p["value"], p["phase"], p["step"]) for p in sent.pop()] == [
        ("gspo/loss", 0.1, "train", 1),
        ("reward/mean", 0.5, "rollout", 1),
    ]
    for step in range(2, 12):
        points.add({"gspo/loss": 0.1, "eval/reward_mean": 1.0}, step=step, iteration=step, epoch=0)
    assert [len(batch) for batch in sent] == [BATCH]
    points.flush()
    points.flush()
    found = [(p["name"], p["step"]) for batch in sent for p in batch]
    assert len(found) == len(set(found)) == 20 and set(NAMES) > {name for name, _ in found}
