"""What one run goes through, drawn from a seed: its settings, and the faults of each of its attempts."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tests.faults.answers import KINDS

CHILDREN = ("learner", "inference", "taskapp")
LINES = ("events", "metrics", "judge", "rollouts/groups")  # files of JSON lines
ROWS = ("rollouts/index", "rollouts/updates")  # of lines of one length

# An attempt ends by one of these. `leave:` stops a child and kills the coordinator, which must not leave it behind.
KILLS = ("kill:coordinator", "kill:learner", "kill:taskapp", "kill:reference")
LEAVES = tuple(f"leave:{role}" for role in CHILDREN)
HARD = (*KILLS, *LEAVES, "sighup")
# It ends with its cause by most of these: its last fault, too.
FATAL = (
    *("app:401", "app:404", "app:422", "app:away_redirect"),
    *("judge:401", "judge:404", "judge:away_redirect"),
)
# It goes on after one of these, or ends with its cause.
SOFT = (
    *2 * tuple(f"stop:{role}" for role in ("coordinator", *CHILDREN)),
    *(f"app:{kind}" for kind in (*KINDS, "gone")),
    *(f"judge:{kind}" for kind in (*KINDS, "gone") if kind != "cid"),
    *("kill:inference", "kill:inference"),  # the engine is started again
    *("steer:pause", "steer:checkpoint"),
    *("second:fresh", "second:resume", "clock:86400", "clock:-86400", "clock:3600", "clock:-3600"),
)
# They need the right to mount.
FATAL_MOUNTED = ("readonly:checkpoints", "readonly:weights", "readonly:run")
SOFT_MOUNTED = ("disk_full", "shm_full")
MOUNTED = (*FATAL_MOUNTED, *SOFT_MOUNTED)
# Done between two attempts.
FILES = ("weights", "optimizer", "state", "manifest", "stable")  # of a checkpoint
REST = (
    *(f"torn:{name}" for name in (*LINES, *ROWS, "rollouts/text-00000")),
    *(f"garbage:{name}" for name in (*LINES, *ROWS)),
    *(f"shortened:{name}" for name in ("events", "metrics", "rollouts/groups", *ROWS)),
    *(f"{how}:{name}" for name in FILES for how in ("corrupt", "cut")),
    *("asked:stop", "asked:kill"),  # a request that comes after the end
)
# Seconds from the moment on, at most. `ending`: a stop was asked.
DELAYS = {
    "training": 1.5, "evaluation": 0.3, "checkpoint": 0.05, "sync": 0.02, "ending": 0.3, "starting": 15.0, "lock": 0.3,
}  # fmt: skip
WITHIN = ("training", "training", "training", "evaluation", "checkpoint", "sync")  # of what it goes on after
LAST = ("training", "training", "evaluation", "checkpoint", "sync", "ending", "starting", "lock")
LONG_S, SHORT_S = (30.0, 33.0), (1.0, 3.0)  # how long something is stopped or withheld; every other stop is a long one
ON_VLLM = (
    *("inference.engine=vllm", "training.lora.r=4", "vllm.max_num_seqs=16", "training.weight_sync.mode=lora"),
    "rollout.timeout_s=60",  # it is started again meanwhile
)
REFERRED = ("training.kl_coef=0.1", "compute.topology.reference_placement=dedicated")
COMMON = (
    *("evaluation.instances=2", "rollout.timeout_s=6", "rollout.max_excluded_fraction=0.9"),
    "training.learning_rate=1e-6",  # it never learns all there is, which would end it
    "training.max_minutes=600",  # which no clock that jumps may use up
)


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
    more: int  # iterations of the last attempt; those before it would go on for ever
    attempts: list[list[Injection]] = field(default_factory=list)  # the last one of each may end it
    rest: list[list[Injection]] = field(default_factory=list)  # after each attempt but the last
    on_vllm: bool = False
    by_terminal: bool = False  # its first attempt is started by `rltui train` on a terminal, which hangs up
    elsewhere: bool = False  # the task app is not the run's own


class _Deck:
    """Kinds in an order of its own, from a place on that moves with the seed: a few seeds in a row meet every kind."""

    def __init__(self, kinds: Sequence[str], seed: int, step: int) -> None:
        self._kinds = sorted(kinds)
        random.Random(0).shuffle(self._kinds)
        self._at = seed * step

    def next(self, possible: Collection[str]) -> str:
        while True:
            self._at += 1
            if (kind := self._kinds[self._at % len(self._kinds)]) in possible:
                return kind


def draw(seed: int, *, room: int, mounts: bool, vllm: bool) -> Plan:
    """At most `room` injections. Every seventh seed is of a run on vLLM, where there is one."""
    rng = random.Random(seed)
    judged, updates, on_vllm = rng.random() < 0.5, rng.choice((1, 2)), vllm and seed % 7 == 0
    referred, elsewhere = seed % 2 == 0 and not on_vllm, seed % 4 == 2
    sets = (
        f"training.max_lag={rng.choice((0, 2))}",
        f"policy.trainer_mode={'lora' if on_vllm else rng.choice(('full', 'lora'))}",
        f"training.batch_size={8 // updates}",
        f"checkpoint.every_n_iters={rng.choice((1, 2))}",
        f"evaluation.every_n_iters={rng.choice((2, 3))}",
        *(ON_VLLM if on_vllm else ()),
        *(REFERRED if referred else ()),
    )
    by_terminal = seed % 2 == 1
    plan = Plan(seed, sets, judged, updates, 12, on_vllm=on_vllm, by_terminal=by_terminal, elsewhere=elsewhere)
    roles = {"inference": not on_vllm, "reference": referred, "taskapp": not elsewhere}
    missing = [role for role, runs in roles.items() if not runs]

    def there(kind: str) -> bool:
        what, _, which = kind.partition(":")
        if kind in MOUNTED:
            return mounts
        if kind == "app:gone":
            return elsewhere
        return (judged or what != "judge") and which not in missing

    soft = {kind for kind in SOFT if kind not in FATAL and there(kind)}
    hard = {kind for kind in HARD if there(kind)}
    ends = hard | {kind for kind in (*FATAL, *FATAL_MOUNTED) if there(kind)}
    softs, rests = _Deck(SOFT, seed, 26), _Deck(REST, seed, 7)
    lasts = _Deck((*LEAVES, "sighup", *FATAL, *FATAL_MOUNTED), seed, 3)
    kills = _Deck(KILLS[:3], seed, 2)
    stops = 0

    def one(kind: str, moment: str = "training") -> Injection:
        nonlocal stops
        stops += kind.startswith("stop:")
        long = (stops + seed) % 2 == 0 if kind.startswith("stop:") else rng.random() < 1 / 10
        hold = rng.uniform(*(LONG_S if long else SHORT_S))
        return Injection(kind, moment, rng.uniform(0.0, DELAYS[moment]), hold, rng.random())

    def some(count: int) -> list[Injection]:
        """Kinds that need a mount are few and slow: every eighth is of them. Left out where mounts are not allowed."""
        drawn = [rng.choice(SOFT_MOUNTED) if rng.random() < 1 / 8 else softs.next(soft) for _ in range(count)]
        return [one(kind, rng.choice(WITHIN)) for kind in drawn if mounts or kind not in MOUNTED]

    for number in range(1 if on_vllm else rng.randint(5, 6)):
        attempt = some(4 if on_vllm else rng.randint(3, 5))
        if number == 0 and plan.by_terminal:
            attempt.insert(0, one(("hangup", "kill:viewer")[seed // 2 % 2]))
        if on_vllm:
            attempt.append(one("kill:core"))  # a vLLM that dies is started again
        moment = rng.choice(LAST)
        if on_vllm or (number == 0 and plan.by_terminal and moment in ("starting", "lock")):
            moment = "training"
        if number % 2 == 0:  # a process is killed
            moment = "training" if moment == "lock" else moment
            last = one("kill:reference" if referred and number != 2 else kills.next(hard), moment)
        elif moment == "lock":
            last = one("kill:coordinator", moment)
        else:
            last = one(lasts.next(hard if moment in ("starting", "ending") else ends), moment)
        plan.attempts.append([last] if moment in ("starting", "lock") else [*attempt, last])
        plan.rest.append([one(rests.next(REST)) for _ in range(rng.randint(1, 2))])
    plan.attempts.append(some(rng.randint(6, 8)))
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
