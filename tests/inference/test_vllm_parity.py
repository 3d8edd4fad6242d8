"""A real model on vLLM against the learner's own forward pass: the noise that a GSPO ratio starts from."""

import asyncio

import pytest

from tests.bench.engines import gaps, measure
from tests.inference.vllm_tools import needs_vllm
from trainer.models import resolve_model

pytestmark = [needs_vllm, pytest.mark.slow]


# Of |delta logp|; seen: (9e-6, 4e-5, 8e-6, 1e-5) and (0.04, 0.4, 0.005, 0.016).
@pytest.mark.parametrize(
    ("dtype", "limits"),
    [("float32", (5e-5, 1e-3, 2e-5, 5e-5)), ("bfloat16", (0.08, 1.0, 0.01, 0.04))],
)
def test_log_probabilities_are_the_learner_s_within_the_noise_of_the_dtype(dtype, limits):
    model = resolve_model("builtin:smollm2-135m")
    found = asyncio.run(measure("vllm", model, dtype, [16], 60, speed=False))
    table = gaps(model, dtype, found["samples"])
    print(dtype, table)
    assert table["tokens"] > 500 and table["sequences"] == 16
    names = ("token_mean", "token_max", "sequence_mean", "sequence_max")
    assert all(table[name] <= limit for name, limit in zip(names, limits, strict=True)), table
