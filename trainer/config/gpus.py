"""How many GPUs a config asks for, and how they are split between engine, learner and reference."""

from trainer.config.facts import Facts
from trainer.config.schema import RunConfig

SPLIT, COLOCATE = "single_node_split", "single_node_colocate"


def on_gpu(config: RunConfig) -> bool:
    """Whether the run wants GPUs."""
    return config.compute.topology.type not in (None, "cpu") and bool(config.compute.gpu_count)


def asked_gpus(facts: Facts) -> int | None:
    """What the config asks for: gpu_count, else the sum of the counts of engine, learner and reference."""
    if facts.given("compute.gpu_count"):
        count: int = facts.entries["compute.gpu_count"].value
        return count
    counts = [f"compute.topology.gpus_for_{name}" for name in ("vllm", "training", "ref")]
    if not all(facts.given(key) for key in counts[:2]):
        return None
    reference = 1 if facts["compute.topology.reference_placement"] == "dedicated" else 0
    given = [facts.entries[key].value if facts.given(key) else reference for key in counts]
    return sum(given)


def is_short(facts: Facts) -> bool:
    """Whether the local machine has GPUs, and fewer than the config asks for."""
    asked = asked_gpus(facts)
    here = facts["compute.launcher"] == "local" and facts.device == "cuda" and facts.machine.gpus is not None
    return here and asked is not None and facts.gpus < asked


def split(free: int, tensor_parallel: int, engine: int | None = None, training: int | None = None) -> tuple[int, int]:
    """(engine, training) of `free` GPUs, those that are not the reference's. What is given stays.

    The learner gets half, the engine what is left in whole replicas, at least one; what no replica can use goes to
    the learner. With too few GPUs the learner's part is below 1.
    """
    if engine is None:
        if training is None:
            engine = max(1, (free - max(1, free // 2)) // tensor_parallel) * tensor_parallel
        else:
            engine = free - training
    return engine, free - engine if training is None else training


def split_of(facts: Facts) -> tuple[int, int]:
    """(engine, training) GPUs. With too few GPUs for what was asked, what was given no longer counts."""
    keys = "compute.topology.gpus_for_vllm", "compute.topology.gpus_for_training"
    short = is_short(facts)
    engine, training = (facts.entries[key].value if facts.given(key) and not short else None for key in keys)
    return split(
        facts["compute.gpu_count"] - facts["compute.topology.gpus_for_ref"],
        facts["compute.topology.tensor_parallel"],
        engine,
        training,
    )
