"""The coordinator's end with a real learner process."""

from __future__ import annotations

import pytest

from tests.learner.conftest import make_groups
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.learner.protocol import take_anchor


async def test_an_iteration_with_a_proximal_anchor_and_a_penalty(settings) -> None:
    learner = LearnerProcess(
        settings(anchor="proximal", variety="dr_grpo", episode_tokens=32, kl_coef=0.1, reference="shared"),
        threads=1,
        sink=lambda _: None,
    )
    try:
        await learner.start(120)
        frames = make_groups(lag=2)
        anchor = await learner.anchor([frames[:3], frames[3:]])
        assert [item.n for item in anchor.sequences] == [f.n for f in frames] and anchor.sd_seq is None
        assert all(item.masked for item in anchor.sequences)  # their behaviour was made up
        for f, item in zip(frames, anchor.sequences, strict=True):
            f.logp_behavior = item.logp_proximal
        anchor = await learner.anchor([frames[:3], frames[3:]])
        for step, part in enumerate((frames[:3], frames[3:]), 1):
            kept, masked = take_anchor(part, anchor)
            assert len(kept) == 3 and not masked
            result = await learner.step(step, kept)
            assert [s.prox for s in result.sequences] == [1.0] * 3 and result.metrics["gspo/kl"] >= 0
            await learner.set({"kl_coef": 0.0})
            await learner.set({"kl_coef": 0.2})
        with pytest.raises(LearnerError, match="no log-probabilities of a proximal anchor"):
            await learner.step(3, frames)
    finally:
        await learner.stop()
