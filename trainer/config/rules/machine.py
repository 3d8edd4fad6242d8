"""GPUs and how they are split."""

from collections.abc import Iterator

from trainer.config.errors import Problem
from trainer.config.facts import Facts

TOPOLOGY = "compute.topology."
COUNTS = tuple(f"{TOPOLOGY}{name}" for name in ("gpus_for_vllm", "gpus_for_training", "gpus_for_ref"))


def tensor_parallel(facts: Facts) -> Iterator[Problem]:
    engine, topology = "vllm.tensor_parallel_size", f"{TOPOLOGY}tensor_parallel"
    if facts.given(engine) and facts.given(topology) and facts[engine] != facts[topology]:
        yield facts.problem(
            engine,
            f"{topology} = {facts[topology]} at {facts.place(topology)}; the two are the same value",
            allowed=str(facts[topology]),
            fix="delete this line",
            code="tensor_parallel",
        )


def split(facts: Facts) -> Iterator[Problem]:
    count, kind = facts["compute.gpu_count"], f"{TOPOLOGY}type"
    if not facts.given("compute.gpu_count") or facts[kind] != "single_node_split":
        return
    if facts.given(kind) and count < 2:
        yield facts.problem(
            kind,
            f"engine and learner need a GPU each, and compute.gpu_count is {count}",
            allowed='single_node_split with gpu_count >= 2, or "single_node_colocate"',
            fix='type = "single_node_colocate"',
            code="topology",
        )
        return
    given = [key for key in COUNTS if facts.given(key)]
    numbers = [facts[key] for key in COUNTS]
    if given and None not in numbers and sum(numbers) != count:
        names = " + ".join(f"{key.rpartition('.')[2]} {n}" for key, n in zip(COUNTS, numbers, strict=True))
        rest = count - sum(numbers) + facts[given[0]]
        yield facts.problem(
            given[0],
            f"{names} = {sum(numbers)}, and compute.gpu_count is {count}",
            allowed=f"three counts that sum to {count}",
            fix=f"{given[0].rpartition('.')[2]} = {rest}" if rest >= 1 else f"--set compute.gpu_count={sum(numbers)}",
            code="topology",
        )
    engine, size = facts[COUNTS[0]], facts[f"{TOPOLOGY}tensor_parallel"]
    if engine is not None and facts.given(COUNTS[0]) and engine % size:
        yield facts.problem(
            COUNTS[0],
            f"one replica has tensor_parallel {size} GPUs; {engine} / {size} = {engine / size:.3g}",
            allowed=f"a multiple of {size}",
            fix=f"gpus_for_vllm = {-(-engine // size) * size}",
            code="topology",
        )


def reference(facts: Facts) -> Iterator[Problem]:
    key = f"{TOPOLOGY}gpus_for_ref"
    count, placement = facts[key], facts[f"{TOPOLOGY}reference_placement"]
    if (count >= 1) != (placement == "dedicated"):
        yield facts.problem(
            key,
            f"compute.topology.reference_placement is {placement}",
            allowed=">= 1 with reference_placement dedicated, else 0",
            fix="gpus_for_ref = 1"
            if placement == "dedicated"
            else "gpus_for_ref = 0        or   --set compute.topology.reference_placement=dedicated",
            code="topology",
        )


def launcher(facts: Facts) -> Iterator[Problem]:
    if facts["compute.nodes"] > 1 and facts["compute.launcher"] == "local":
        yield facts.problem(
            "compute.nodes",
            "the local launcher has one node",
            allowed="1, or a launcher other than local",
            fix="nodes = 1        or   --set compute.launcher=slurm",
            code="launcher",
        )


def found(facts: Facts) -> Iterator[Problem]:
    """What this machine has against what was asked for."""
    if facts["compute.launcher"] != "local" or not facts.given("compute.gpu_count"):
        return
    asked = facts["compute.gpu_count"]
    if facts.device == "cpu":
        why = f"this machine has no GPU that can be used (asked for {asked}): the run takes place on the CPU"
        if any(facts.given(key) for key in COUNTS):
            why += ", and the GPU counts of compute.topology are ignored"
        yield facts.warning("compute.gpu_count", why, code="gpus_found")
    elif facts.gpus < asked:
        why = f"found {facts.gpus} of {asked} GPUs"
        yield facts.warning("compute.gpu_count", why, fix=f"gpu_count = {facts.gpus}", code="gpus_found")


RULES = (tensor_parallel, split, reference, launcher, found)
