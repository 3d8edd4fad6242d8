"""GPUs and how they are split."""

import re
from collections.abc import Iterator
from math import gcd

from trainer.config.errors import Problem
from trainer.config.facts import Facts
from trainer.config.fixes import ways
from trainer.config.gpus import COLOCATE, SPLIT, asked_gpus, is_short
from trainer.config.gpus import split as split_gpus

TOPOLOGY = "compute.topology."
# Problems about what was found: they come and go with the machine, and say nothing against the file.
OF_THE_MACHINE = ("gpus_found", "gpu_type", "too_few_gpus")
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
    fix = _set_count(facts, total)
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
        fix = _count(facts, wanted) if facts.given(key) else f"--set {key}={wanted}"
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


def _count(facts: Facts, count: int) -> str:
    """The line that asks for `count` GPUs, in the spelling that the config has."""
    if not _is_in_type(facts):
        return f"gpu_count = {count}"
    return f'gpu_type = "{facts.entries["compute.gpu_type"].value}:{count}"'


def _set_count(facts: Facts, count: int) -> str:
    if not _is_in_type(facts):
        return f"--set compute.gpu_count={count}"
    return f"--set compute.gpu_type={facts.entries['compute.gpu_type'].value}:{count}"


def _is_in_type(facts: Facts) -> bool:
    """Whether the number of GPUs is given as in `gpu_type = "H100:4"`."""
    if not (facts.given("compute.gpu_count") and facts.given("compute.gpu_type")):
        return False
    origin = facts.entries["compute.gpu_count"].origin
    return origin.was == "topology.gpu_type" or (origin.note or "").startswith("given as")


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
        why = f"training.kl_coef is 0, so nothing is asked of the reference: its {count} GPU(s) would stay idle"
        fix = f"--set {TOPOLOGY}reference_placement=none" + (f" --set {key}=0" if facts.given(key) else "")
        yield facts.warning(at, why, fix=fix, code="idle_gpus")


def launcher(facts: Facts) -> Iterator[Problem]:
    nodes = facts["compute.nodes"]
    if facts["compute.launcher"] != "local":
        if nodes > 1:
            yield from _over_nodes(facts, nodes)
        return
    if facts["compute.nodes"] > 1:
        yield facts.problem(
            "compute.nodes",
            "the local launcher has one node",
            allowed='1, or compute.launcher "ray" or "slurm"',
            fix=ways("nodes = 1", "--set compute.launcher=ray", "--set compute.launcher=slurm"),
            code="launcher",
        )
    if facts.given("compute.launcher_options") and facts["compute.launcher_options"]:
        why = "no effect: the local launcher requests nothing"
        yield facts.note("compute.launcher_options", why, fix="delete this line", code="no_effect")


def _over_nodes(facts: Facts, nodes: int) -> Iterator[Problem]:
    kind, count = facts.entries[KIND].value if facts.given(KIND) else None, asked_gpus(facts)
    if count == 0 or kind == "cpu" or (count is None and facts.device == "cpu"):
        return
    count = facts["compute.gpu_count"] if count is None else count
    if kind == COLOCATE:
        why = f"engine and learner share one GPU ({COLOCATE}), which is on one node"
    elif count < nodes:
        why = f"the run has {count} GPUs, fewer than nodes; compute.gpu_count is that of all nodes together"
    else:
        return
    fix = f"nodes = 1        or   --set compute.gpu_count={max(2, nodes)}"
    if facts.given(KIND):
        fix = "nodes = 1"
    yield facts.problem("compute.nodes", why, allowed="at most one node a GPU, or 1", fix=fix, code="topology")


def found(facts: Facts) -> Iterator[Problem]:
    """What was asked for against what the run computes on."""
    if facts["compute.launcher"] != "local":
        return
    counts = [key for key in COUNTS if facts.given(key)]
    if facts.device == "cpu":
        yield from _on_cpu(facts, counts + [key for key in SIZES[:1] if facts.given(key) and facts[key] > 1])
    elif is_short(facts):
        yield _found_fewer(facts, counts)


def _on_cpu(facts: Facts, ignored: list[str]) -> Iterator[Problem]:
    kind = facts.entries[KIND].value if facts.given(KIND) else None
    key = next((key for key in ("compute.gpu_count", *ignored) if facts.given(key)), None)
    if key is None and kind not in (None, "cpu"):
        key = KIND
    if key is None:
        return
    asked = asked_gpus(facts)
    code = "on_cpu" if asked == 0 or kind == "cpu" else "gpus_found"
    if asked == 0:
        why = "asked for: the run takes place on the CPU"
    elif kind == "cpu":
        why = f"{KIND} is cpu: the run takes place on the CPU"
    elif facts.gpus:
        why = "the run takes place on the CPU, as it was asked to, and leaves this machine's GPUs alone"
    else:
        request = "" if asked is None else f" (asked for {asked})"
        why = f"this machine has no GPU that can be used{request}: the run takes place on the CPU"
    if ignored:
        names = ", ".join(map(_name, ignored))
        why += f", and {names} of compute.topology {'are' if len(ignored) > 1 else 'is'} ignored"
    yield facts.warning(key, why, code=code)


def _found_fewer(facts: Facts, counts: list[str]) -> Problem:
    asked = asked_gpus(facts)
    key = next(key for key in ("compute.gpu_count", *counts) if facts.given(key))
    fits = facts[KIND] != SPLIT or facts[COUNTS[1]] is not None
    again = f"they are split again: {_as_split(facts)}" if fits else "too few to be split"
    why = f"found {facts.gpus} of {asked} GPUs; {again}"
    stays_right = fits and not counts and not (facts.given(KIND) and facts[KIND] != facts.entries[KIND].value)
    fix = _count(facts, facts.gpus) if key == "compute.gpu_count" and stays_right else None
    value = str(facts.entries[key].value)
    return Problem(facts.place(key), key, why, value, fix=fix, level="warning", code="gpus_found")


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
        count = f":{facts.entries['compute.gpu_count'].value}" if _is_in_type(facts) else ""
        fix = f'gpu_type = "{name}{count}"'  # to delete it is no way: [compute] wants a gpu_type
        yield facts.warning("compute.gpu_type", f"the GPU here is {name}", fix=fix, code="gpu_type")


RULES = (tensor_parallel, split, reference, launcher, found, device_name)
