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
HARD = ("sighup", "kill:coordinator", *(f"{what}:{role}" for role in CHILDREN for what in ("kill", "leave")))
# It ends with its cause by most of these: its last fault, too.
FATAL = ("app:401", "app:404", "app:422", "judge:401", "judge:404")
# It goes on after one of these, or ends with its cause.
SOFT = (
    *(f"stop:{role}" for role in ("coordinator", *CHILDREN)),
    *(f"app:{kind}" for kind in KINDS),
    *(f"judge:{kind}" for kind in KINDS),
    "second:fresh", "second:resume", "clock:86400", "clock:-86400", "clock:3600", "clock:-3600",
)  # fmt: skip
# They need the right to mount.
FATAL_MOUNTED = ("readonly:checkpoints", "readonly:weights", "readonly:run")
SOFT_MOUNTED = ("disk_full", "shm_full")
MOUNTED = (*FATAL_MOUNTED, *SOFT_MOUNTED)
# Done between two attempts.
FILES = ("weights", "optimizer", "state", "manifest", "stable")  # of a checkpoint
REST = (
    *(f"torn:{name}" for name in (*LINES, *ROWS, "rollouts/text-00000")),
    *(f"garbage:{name}" for name in (*LINES, *ROWS)),
    *(f"{how}:{name}" for name in FILES for how in ("corrupt", "cut")),
)
MOMENTS = ("training", "training", "training", "training", "checkpoint", "starting", "lock")
DELAYS = {"training": 1.5, "checkpoint": 0.05, "starting": 15.0, "lock": 0.3}  # seconds, at most
ON_VLLM = (
    *("inference.engine=vllm", "training.lora.r=4", "vllm.max_num_seqs=16", "training.weight_sync.mode=lora"),
    "rollout.timeout_s=60",  # it is started again meanwhile
)
REFERRED = ("training.kl_coef=0.1", "compute.topology.reference_placement=dedicated")
COMMON = (
    *("evaluation.instances=2", "rollout.timeout_s=6", "rollout.max_excluded_fraction=0.9"),
    "training.learning_rate=1e-6",  # it never learns all there is, which would end it
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
    referred = seed % 6 == 2 and not on_vllm
    sets = (
        f"training.max_lag={rng.choice((0, 2))}",
        f"policy.trainer_mode={'lora' if on_vllm else rng.choice(('full', 'lora'))}",
        f"training.batch_size={8 // updates}",
        f"checkpoint.every_n_iters={rng.choice((1, 2))}",
        f"evaluation.every_n_iters={rng.choice((0, 3))}",
        *(ON_VLLM if on_vllm else ()),
        *(REFERRED if referred else ()),
    )
    plan = Plan(seed, sets, judged, updates, more=12, on_vllm=on_vllm, by_terminal=seed % 5 == 2)
    soft = {kind for kind in SOFT if kind not in FATAL and (judged or not kind.startswith("judge:"))}
    fatal = {kind for kind in FATAL if judged or not kind.startswith("judge:")}
    special = ["kill:core"] * on_vllm + ["kill:reference"] * referred  # of this run alone
    ends = {*HARD, *fatal, *(FATAL_MOUNTED if mounts else ())}
    softs, rests = _Deck(SOFT, seed, 25), _Deck(REST, seed, 2)
    lasts = _Deck((*HARD, *FATAL, *FATAL_MOUNTED), seed, 3)

    def one(kind: str, moment: str = "training") -> Injection:
        """What is stopped or withheld stays so for a moment, or, once in ten times, for 30 s."""
        hold = 30.0 if rng.random() < 1 / 10 else rng.uniform(1.0, 3.0)
        return Injection(kind, moment, rng.uniform(0.0, DELAYS[moment]), hold, rng.random())

    def some(count: int) -> list[Injection]:
        """Kinds that need a mount are few and slow: every eighth is of them. Left out where mounts are not allowed."""
        drawn = [rng.choice(SOFT_MOUNTED) if rng.random() < 1 / 8 else softs.next(soft) for _ in range(count)]
        return [one(kind) for kind in drawn if mounts or kind not in MOUNTED]

    for number in range(1 if on_vllm else rng.randint(2, 3)):
        attempt = some(4 if on_vllm else rng.randint(14, 18))
        if number == 0 and plan.by_terminal:
            attempt.insert(0, one(rng.choice(("hangup", "kill:viewer"))))
        moment = "training" if on_vllm else rng.choice(MOMENTS)
        if special == ["kill:core"]:
            attempt.append(one(special.pop()))  # a vLLM that dies is started again
            last = one("kill:coordinator")
        elif special:
            last = one(special.pop())
        elif moment == "lock":
            last = one("kill:coordinator", moment)
        else:
            last = one(lasts.next(HARD if moment == "starting" else ends), moment)
        plan.attempts.append([last] if last.moment in ("starting", "lock") else [*attempt, last])
        plan.rest.append([one(rests.next(REST)) for _ in range(rng.randint(1, 2))])
    plan.attempts.append(some(rng.randint(8, 10)))
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
