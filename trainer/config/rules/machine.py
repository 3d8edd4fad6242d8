"""GPUs and how they are split."""

import re
from collections.abc import Iterator
from math import gcd

from trainer.config.derive import COLOCATE, SPLIT, asked_gpus, is_short
from trainer.config.derive import split as split_gpus
from trainer.config.errors import Problem
from trainer.config.facts import Facts

TOPOLOGY = "compute.topology."
COUNTS = tuple(f"{TOPOLOGY}gpus_for_{name}" for name in ("vllm", "training", "ref"))
KIND = f"{TOPOLOGY}type"
SIZES = (f"{TOPOLOGY}tensor_parallel", "vllm.tensor_parallel_size")


def tensor_parallel(facts: Facts) -> Iterator[Problem]:
    topology, engine = SIZES
    if facts.given(engine) and facts.given(topology) and facts[engine] != facts[topology]:
        yield facts.problem(
            engine,
            f"{topology} = {facts[topology]} at {facts.place(topology)}; the two are the same value",
            allowed=str(facts[topology]),
            fix="delete this line",
            code="tensor_parallel",
        )


def split(facts: Facts) -> Iterator[Problem]:
    """What was asked for, whatever this machine has: the same file is right or wrong everywhere."""
    count = asked_gpus(facts)
    if not count:
        return
    kind = facts.entries[KIND].value if facts.given(KIND) else SPLIT if count >= 2 else COLOCATE
    if kind != SPLIT:
        return
    if count < 2:
        yield Problem(
            facts.place(KIND),
            KIND,
            f"engine and learner need a GPU each, and compute.gpu_count is {count}",
            f'"{kind}"',
            allowed=f'{SPLIT} with gpu_count >= 2, or "{COLOCATE}"',
            fix=f'type = "{COLOCATE}"',
            code="topology",
        )
        return
    given = [facts.entries[key].value if facts.given(key) else None for key in COUNTS]
    reference = given[2]
    if reference is None:
        reference = 1 if facts[f"{TOPOLOGY}reference_placement"] == "dedicated" else 0
    size = facts[SIZES[0]]
    engine, training = split_gpus(count - reference, size, given[0], given[1])
    if engine + training + reference != count:
        yield _wrong_sum(facts, (engine, training, reference), count, size)
    elif training < 1 or engine < 1:
        yield _too_few(facts, (engine, training, reference), count, size)
    elif engine % size:
        yield _no_whole_replicas(facts, engine, count - reference, size)


def _wrong_sum(facts: Facts, counts: tuple[int, int, int], count: int, size: int) -> Problem:
    """The fix is a change of one given count that makes the sum right, else of gpu_count."""
    names = " + ".join(f"{_name(key)} {n}" for key, n in zip(COUNTS, counts, strict=True))
    total = sum(counts)
    key = next(key for key in COUNTS if facts.given(key))
    fix = f"--set compute.gpu_count={total}"
    for position in (1, 0):
        rest = count - total + counts[position]
        if facts.given(COUNTS[position]) and rest >= 1 and (position == 1 or rest % size == 0):
            key, fix = COUNTS[position], f"{_name(COUNTS[position])} = {rest}        or   {fix}"
            break
    return _about(
        facts,
        key,
        f"{names} = {total}, and compute.gpu_count is {count}",
        allowed=f"three counts that sum to {count}",
        fix=fix,
    )


def _too_few(facts: Facts, counts: tuple[int, int, int], count: int, size: int) -> Problem:
    engine, training, reference = counts
    why = f"gpu_count {count} - reference {reference} - engine {engine} leaves {training} for training"
    if engine < 1:
        why = f"gpu_count {count} - reference {reference} - training {training} leaves {engine} for the engine"
    wanted = reference + size + 1
    key = next((key for key in COUNTS[:2] if facts.given(key)), "compute.gpu_count")
    if key != "compute.gpu_count" and count >= wanted:
        value = size if key == COUNTS[0] else count - reference - size
        fix = f"{_name(key)} = {value}"
    else:
        key = "compute.gpu_count"
        wanted = max(wanted, reference + max(engine, size) + max(training, 1))
        fix = f"gpu_count = {wanted}" if facts.given(key) else f"--set {key}={wanted}"
    return _about(facts, key, why, allowed="at least 1 GPU for training and one replica for the engine", fix=fix)


def _no_whole_replicas(facts: Facts, engine: int, free: int, size: int) -> Problem:
    """Another count where it is free to change; else a replica size that divides."""
    why = f"one replica has tensor_parallel {size} GPUs; {engine} / {size} = {engine / size:.3g}"
    for key, other in ((COUNTS[0], COUNTS[1]), (COUNTS[1], COUNTS[0])):
        if not facts.given(key) or facts.given(other):
            continue
        whole = engine // size * size or size
        if whole < free:
            value = whole if key == COUNTS[0] else free - whole
            return _about(facts, key, why, allowed=f"engine GPUs: a multiple of {size}", fix=f"{_name(key)} = {value}")
    fix = " ".join(f"--set {key}={gcd(engine, size)}" for key in SIZES if facts.given(key))
    key = next(key for key in COUNTS[:2] if facts.given(key))
    return _about(facts, key, why, allowed=f"engine GPUs: a multiple of {size}", fix=fix)


def _about(facts: Facts, key: str, why: str, *, allowed: str, fix: str) -> Problem:
    """An error about what was given, not about what a smaller machine makes of it."""
    value = str(facts.entries[key].value) if facts.given(key) else None
    return Problem(facts.place(key), key, why, value, allowed=allowed, fix=fix, code="topology")


def _name(key: str) -> str:
    return key.rpartition(".")[2]


def reference(facts: Facts) -> Iterator[Problem]:
    key, placement = COUNTS[2], facts[f"{TOPOLOGY}reference_placement"]
    count = facts.entries[key].value if facts.given(key) else facts[key]
    if (count >= 1) != (placement == "dedicated"):
        yield _about(
            facts,
            key,
            f"compute.topology.reference_placement is {placement}",
            allowed=">= 1 with reference_placement dedicated, else 0",
            fix="gpus_for_ref = 1"
            if placement == "dedicated"
            else "gpus_for_ref = 0        or   --set compute.topology.reference_placement=dedicated",
        )
    elif count and facts["training.kl_coef"] == 0:
        at = key if facts.given(key) else f"{TOPOLOGY}reference_placement"
        why = f"training.kl_coef is 0, so nothing is asked of the reference: {count} GPU(s) stay idle"
        fix = "--set training.kl_coef=0.01        or   --set compute.topology.reference_placement=none"
        if facts.given(key):
            fix = "--set training.kl_coef=0.01"
        yield facts.warning(at, why, fix=fix, code="idle_gpus")


def launcher(facts: Facts) -> Iterator[Problem]:
    if facts["compute.launcher"] != "local":
        return
    if facts["compute.nodes"] > 1:
        yield facts.problem(
            "compute.nodes",
            "the local launcher has one node",
            allowed="1, or a launcher other than local",
            fix="nodes = 1        or   --set compute.launcher=slurm",
            code="launcher",
        )
    if facts.given("compute.launcher_options") and facts["compute.launcher_options"]:
        why = "no effect: the local launcher requests nothing"
        yield facts.note("compute.launcher_options", why, fix="delete this line", code="no_effect")


def found(facts: Facts) -> Iterator[Problem]:
    """What this machine has against what was asked for."""
    if facts["compute.launcher"] != "local":
        return
    counts = [key for key in COUNTS if facts.given(key)]
    key = next((key for key in ("compute.gpu_count", *counts, KIND) if facts.given(key)), None)
    if key is None:
        return
    asked = asked_gpus(facts)
    if facts.device == "cpu":
        if key == KIND and facts.entries[KIND].value == "cpu":
            return
        why = "asked for: the run takes place on the CPU"
        if asked != 0:
            request = "" if asked is None else f" (asked for {asked})"
            why = f"this machine has no GPU that can be used{request}: the run takes place on the CPU"
        if counts:
            why += f", and {', '.join(_name(key) for key in counts)} of compute.topology are ignored"
        yield facts.warning(key, why, code="gpus_found")
    elif is_short(facts):
        why = f"found {facts.gpus} of {asked} GPUs; they are split again: {_as_split(facts)}"
        value = str(facts.entries[key].value)
        fix = f"gpu_count = {facts.gpus}" if key == "compute.gpu_count" and not counts else None
        yield Problem(facts.place(key), key, why, value, fix=fix, level="warning", code="gpus_found")
        if facts[KIND] == SPLIT and facts[COUNTS[1]] < 1:
            yield Problem(
                facts.place(key),
                key,
                f"found {facts.gpus} of {asked} GPUs, too few for a replica of {facts[SIZES[0]]}, "
                f"a reference on {facts[COUNTS[2]]} and a learner",
                value,
                allowed="a machine with more GPUs, smaller replicas, or reference_placement shared",
                fix=f"--set {KIND}={COLOCATE}",
                code="gpus_found",
            )


def _as_split(facts: Facts) -> str:
    if facts[KIND] != SPLIT:
        return "engine and learner share them"
    return ", ".join(f"{_name(key)} {facts[key]}" for key in COUNTS)


def device_name(facts: Facts) -> Iterator[Problem]:
    given, name = facts["compute.gpu_type"], facts.machine.gpu_name
    if facts.device != "cuda" or name is None or not facts.given("compute.gpu_type"):
        return
    model = next((word for word in re.split(r"[^A-Za-z0-9]+", given) if re.search(r"\d", word)), given)
    if re.sub(r"[^a-z0-9]", "", model.lower()) not in re.sub(r"[^a-z0-9]", "", name.lower()):
        yield facts.warning("compute.gpu_type", f"the GPU here is {name}", fix="delete this line", code="gpu_type")


RULES = (tensor_parallel, split, reference, launcher, found, device_name)
