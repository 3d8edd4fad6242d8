"""What one run goes through, drawn from a seed: its settings, and the faults of each of its attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.faults.answers import KINDS

ROLES = ("coordinator", "learner", "inference", "taskapp")
LINES = ("events", "metrics", "judge", "rollouts/groups")  # files of JSON lines
ROWS = ("rollouts/index", "rollouts/updates")  # of lines of one length

# An attempt ends by one of these.
HARD = (*(f"kill:{role}" for role in ROLES), "sighup")
# It ends with its cause by most of these: its last fault, too.
FATAL = ("app:401", "app:404", "app:422", "judge:401", "judge:404")
# It goes on after one of these, or ends with its cause.
SOFT = (
    *(f"stop:{role}" for role in ROLES),
    *(f"app:{kind}" for kind in KINDS),
    *(f"judge:{kind}" for kind in KINDS if kind != "shape"),
    "second:fresh", "second:resume", "clock:86400", "clock:-86400", "clock:3600", "clock:-3600",
)  # fmt: skip
# They need the right to mount.
FATAL_MOUNTED = ("readonly:checkpoints", "readonly:weights", "readonly:run")
SOFT_MOUNTED = ("disk_full", "shm_full")
MOUNTED = (*FATAL_MOUNTED, *SOFT_MOUNTED)
# Done between two attempts.
REST = (
    *(f"torn:{name}" for name in (*LINES, *ROWS, "rollouts/text-00000")),
    *(f"garbage:{name}" for name in (*LINES, *ROWS)),
    "corrupt:weights", "corrupt:optimizer", "corrupt:state", "corrupt:manifest", "corrupt:stable",
)  # fmt: skip
MOMENTS = ("training", "training", "training", "checkpoint", "starting", "lock")
DELAYS = {"training": 1.5, "checkpoint": 0.05, "starting": 15.0, "lock": 0.3}  # seconds, at most
COMMON = ("evaluation.instances=2", "rollout.timeout_s=6", "rollout.max_excluded_fraction=0.9")


@dataclass(frozen=True)
class Injection:
    kind: str
    moment: str = "training"
    after_s: float = 0.0  # from that moment on
    hold_s: float = 0.0  # how long it lasts, where it lasts
    draw: float = 0.0  # in [0, 1): which byte, which file


@dataclass
class Plan:
    seed: int
    sets: tuple[str, ...]
    judged: bool
    updates: int  # optimizer updates an iteration
    iterations: int
    attempts: list[list[Injection]] = field(default_factory=list)  # the last one of each may end it
    rest: list[list[Injection]] = field(default_factory=list)  # after each attempt but the last
    by_terminal: bool = False  # its first attempt is started by `rltui train` on a terminal, which hangs up


def draw(seed: int, *, room: int, mounts: bool, long: bool = False) -> Plan:
    """At most `room` injections. `long`: what is stopped or withheld stays so for 30 s."""
    rng = random.Random(seed)
    judged, updates = rng.random() < 0.5, rng.choice((1, 2))
    sets = (
        f"training.max_lag={rng.choice((0, 2))}",
        f"policy.trainer_mode={rng.choice(('full', 'lora'))}",
        f"training.batch_size={8 // updates}",
        f"checkpoint.every_n_iters={rng.choice((1, 2))}",
        f"evaluation.every_n_iters={rng.choice((0, 3))}",
    )
    plan = Plan(seed, sets, judged, updates, iterations=30, by_terminal=rng.random() < 0.15)
    possible = [kind for kind in SOFT if judged or not kind.startswith("judge:")]
    soft = [kind for kind in possible if kind not in FATAL]
    ends = [*HARD, *(kind for kind in possible if kind in FATAL), *(FATAL_MOUNTED if mounts else ())]
    hold = 30.0 if long else 3.0

    def one(kind: str, moment: str) -> Injection:
        wait = rng.uniform(0.0, DELAYS[moment])
        return Injection(kind, moment, wait, rng.uniform(0.3 * hold, hold), rng.random())

    def some(count: int) -> list[Injection]:
        """Kinds that need a mount are few and slow: every sixth is of them. Left out where mounts are not allowed."""
        drawn = [one(rng.choice(SOFT_MOUNTED if rng.random() < 1 / 6 else soft), "training") for _ in range(count)]
        return [injection for injection in drawn if mounts or injection.kind not in MOUNTED]

    for number in range(rng.randint(1, 3)):
        attempt = some(rng.randint(6, 10))
        if number == 0 and plan.by_terminal:
            attempt.insert(0, one("hangup", "training"))
        moment = rng.choice(MOMENTS)
        kinds = {"lock": ["kill:coordinator"], "starting": HARD}.get(moment, ends)
        last = one(rng.choice(kinds), moment)
        plan.attempts.append([last] if moment in ("starting", "lock") else [*attempt, last])
        plan.rest.append([one(rng.choice(REST), "training")] if rng.random() < 0.6 else [])
    plan.attempts.append(some(rng.randint(3, 6)))
    _cut(plan, room)
    return plan


def _cut(plan: Plan, room: int) -> None:
    for attempt, rest in zip(plan.attempts, [*plan.rest, []], strict=True):
        del attempt[room:]
        room -= len(attempt)
        del rest[room:]
        room -= len(rest)
    while len(plan.attempts) > 1 and not plan.attempts[-1] and not plan.rest[-1]:
        plan.attempts.pop()
        plan.rest.pop()
