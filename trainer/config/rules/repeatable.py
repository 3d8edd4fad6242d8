"""`training.deterministic`: under which conditions it keeps its word."""

from collections.abc import Iterator

from trainer.config.errors import Problem
from trainer.config.facts import Facts


def deterministic(facts: Facts) -> Iterator[Problem]:
    if not facts["training.deterministic"]:
        return
    wanted = {
        "a CPU": facts.device == "cpu",
        "training.dtype float32": facts["training.dtype"] == "float32",
        "the local engine": facts.runs_local_engine and facts["inference.url"] is None,
        "a built-in task app": facts["services.task_url"].startswith(("builtin:", "reasoning_gym:")),
        "training.max_lag 0": facts["training.max_lag"] == 0,
        "no LLM judge": not facts["judge.enabled"] or facts["judge.type"] != "llm",
    }
    if missing := [condition for condition, holds in wanted.items() if not holds]:
        why = (
            f"a repeated run is equal bit for bit only with {', '.join(missing)}; "
            "without: the same seeds and groups, and log-probabilities within the measured noise"
        )
        keys = {"training.dtype float32": "training.dtype=float32", "training.max_lag 0": "training.max_lag=0"}
        fix = " ".join(f"--set {keys[name]}" for name in missing) if set(missing) <= keys.keys() else None
        yield facts.warning("training.deterministic", why, fix=fix, code="deterministic")


RULES = (deterministic,)
