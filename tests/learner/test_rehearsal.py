"""The rehearsal of the longest micro-batch: as large as a step can be, and without a trace."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.learner.conftest import make_groups
from trainer.learner import checkpoint, parallel, rehearsal, worker
from trainer.learner.attention import SHORT
from trainer.learner.learner import Learner
from trainer.learner.protocol import NO_MEMORY

MODES = [
    {},
    {"trainer_mode": "full"},
    {"trainer_mode": "full", "dtype": "bfloat16", "gradient_checkpointing": True},
    {"variety": "ppo"},
    {"variety": "grpo", "kl_coef": 0.1, "reference": "shared"},
    {"kl_coef": 0.1, "reference": "dedicated"},
]


@pytest.mark.parametrize("changes", MODES, ids=str)
def test_the_step_after_it_is_the_step_without_it(settings, changes, tmp_path) -> None:
    """Bit by bit: weights, moments, every figure, and the random numbers that come next."""
    given = settings(micro_batch_tokens=300, **changes)
    frames = make_groups(reward=0.5)
    for f in frames:
        f.logp_reference = bytes(len(f.ids)) if given.reference == "dedicated" else b""
    results, drawn = [], []
    for name, rehearses in (("with", True), ("without", False)):
        learner = Learner(given)
        if rehearses:
            found = learner.rehearse()
            assert (found.tokens, found.longest) == (300, 128) and found.peak_bytes > 0
            assert all(tensor.grad is None for tensor in learner.trainable.values())
        drawn.append((torch.get_rng_state(), np.random.get_state()[1].tolist()))
        results.append([learner.step(k, frames) for k in (1, 2)])
        checkpoint.write(learner, tmp_path / name, {}, optimizer=True)
    assert torch.equal(drawn[0][0], drawn[1][0]) and drawn[0][1] == drawn[1][1]
    for a, b in zip(*results, strict=True):
        assert a.sequences == b.sequences and a.metrics.keys() == b.metrics.keys()
        assert [n for n in a.metrics if a.metrics[n] != b.metrics[n] and not n.startswith("time/")] == []
    files = [path.relative_to(tmp_path / "with") for path in (tmp_path / "with").rglob("*.safetensors")]
    assert files
    for file in files:
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes(), file


def test_it_is_as_large_as_a_step_can_be(settings, monkeypatch) -> None:
    """Each rank has one full micro-batch: of the longest sequences, and of those whose attention keeps its scores."""
    given = settings(max_seq_len=3 * SHORT, micro_batch_tokens=4 * SHORT)
    monkeypatch.setattr(parallel, "size", lambda: 2)
    lengths = []
    for sequences in rehearsal.passes(given, 2):
        for rank in (0, 1):
            monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
            (batch,) = parallel.share(sequences, given.micro_batch_tokens)
            assert len(batch.ids) == given.micro_batch_tokens and len(batch.target) >= len(batch.ids) - len(batch.rows)
            lengths.append(sorted(tree.tokens for tree in batch.trees))
    assert lengths == [[SHORT] * 4] * 2 + [[SHORT, 3 * SHORT]] * 2


@pytest.mark.parametrize("changes", MODES, ids=str)
def test_it_goes_to_its_end(settings, changes) -> None:
    """A loss or a gradient that is not finite would end it half way."""
    learner = Learner(settings(micro_batch_tokens=300, **changes))
    for sequences in rehearsal.passes(learner.settings, 1):
        assert learner._forward_backward(sequences).problem is None
        assert all(tensor.grad.isfinite().all() for tensor in learner.trainable.values())


@pytest.mark.parametrize("changes", [{}, {"trainer_mode": "full"}], ids=str)
def test_numbers_that_are_not_finite_do_not_cut_it_short(settings, changes, monkeypatch) -> None:
    """It would tell the memory of half a pass. The step after it says what is wrong."""
    learner, passes = Learner(settings(micro_batch_tokens=300, max_seq_len=600, **changes)), []
    with torch.no_grad():
        next(iter(learner.trainable.values())).fill_(torch.inf)
    learner.policy.refresh()
    backward = torch.Tensor.backward
    monkeypatch.setattr(torch.Tensor, "backward", lambda *a, **k: passes.append(1) or backward(*a, **k))
    learner.rehearse()
    assert len(passes) == len(rehearsal.passes(learner.settings, 1)) == 2
    assert all(tensor.grad is None for tensor in learner.trainable.values())
    assert learner.step(1, make_groups()).skipped == "the loss is not finite"


def test_moments_are_held_until_a_resume_brings_them(settings, tmp_path) -> None:
    learner = Learner(settings())
    held = learner.optimizer.moments_to_come()
    assert sum(t.numel() for t in held) == 2 * learner.info.trainable
    learner.step(1, make_groups())
    assert learner.optimizer.moments_to_come() == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (
            {"micro_batch_tokens": 300},
            "training.micro_batch_tokens (here 300; at least training.max_seq_len, 128)",
        ),
        ({"micro_batch_tokens": 128}, "lower training.max_seq_len (here 128), or set training.gradient_checkpointing"),
        ({"micro_batch_tokens": 128, "gradient_checkpointing": True}, "lower training.max_seq_len (here 128)"),
    ],
)
def test_what_does_not_fit_names_the_key_to_lower(settings, monkeypatch, changes, key) -> None:
    answering = worker._Worker()
    answering._learner = learner = Learner(settings(**changes))

    def full(_sequences, **_) -> None:
        # as in the second micro-batch of a step
        assert all(tensor.grad is not None for tensor in learner.trainable.values())
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(learner, "_forward_backward", full)
    frame = answering.answer({"type": "rehearse"})
    assert frame["type"] == "error" and frame["code"] == NO_MEMORY and frame["fatal"]
    assert key in frame["hint"] and "128" in frame["message"]
    monkeypatch.undo()
    assert learner.step(1, make_groups()).skipped is None  # and nothing of it is left
