"""The coordinator's end with a real learner process."""

from __future__ import annotations

import asyncio

import pytest

from tests.learner.conftest import make_groups
from tests.waiting import comes
from trainer import waiting
from trainer.devices import Place
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.learner.protocol import RANK_LOST, take_anchor


@pytest.mark.slow
async def test_an_iteration_with_a_proximal_anchor_and_a_penalty(settings) -> None:
    learner = LearnerProcess(
        settings(anchor="proximal", variety="dr_grpo", episode_tokens=32, kl_coef=0.1, reference="shared"),
        threads=1,
        sink=lambda _: None,
    )
    try:
        await learner.start(300)
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


# Two ranks by script. To the third frame rank 0 says that it lost the other, which then tells why.
RANKS = f"""
import sys
from trainer.frames import SCHEMA, BlockingChannel

def error(code, message):
    return {{"type": "error", "code": code, "message": message, "hint": "", "fatal": True}}

channels = [BlockingChannel.connect(sys.argv[1]) for _ in range(2)]
info = {{"parameters": 1, "trainable": 1, "device": "cpu", "dtype": "float32"}}
for number in (1, 2, 3):
    frames = [channel.receive() for channel in channels]
    for rank in (1, 0) if number < 3 else (0, 1):
        answer = {{"type": "hello", "schema": SCHEMA, "info": info}}
        if number == 2:
            answer = {{"type": "result", "result": {{"bytes": 7 - rank, "seconds": 0.0, "rounding_gap": 0.0}}}}
        if number == 3:
            answer = error("learner_failed", "out of memory") if rank else error("{RANK_LOST}", "lost the other one")
        channels[rank].send({{**answer, "id": frames[rank]["id"], "rank": rank, "pid": 100 + rank}})
channels[0].receive()
"""


async def test_of_several_ranks_the_first_answers_and_any_can_fail(settings, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(LearnerProcess, "_words", lambda self, path: ["-c", RANKS, path])
    learner = LearnerProcess(settings(), threads=1, sink=lambda _: None, places=[Place(0, ())] * 2)
    try:
        await learner.start(300)
        assert learner.pids == {0: 100, 1: 101}
        assert (await learner.sync(tmp_path, 1)).bytes == 7
        with pytest.raises(LearnerError, match="out of memory"):
            await learner.set({"learning_rate": 0.1})
    finally:
        await learner.stop()


# It answers the first frame, and no other.
SILENT = """
import sys, time
from trainer.frames import SCHEMA, BlockingChannel

channel = BlockingChannel.connect(sys.argv[1])
info = {"parameters": 1, "trainable": 1, "device": "cpu", "dtype": "float32"}
frame = channel.receive()
channel.send({"type": "hello", "schema": SCHEMA, "info": info, "id": frame["id"], "rank": 0, "pid": 1})
while channel.receive() is not None:
    pass
"""


async def test_one_that_hangs_is_named_with_its_log_and_given_up(settings, monkeypatch) -> None:
    monkeypatch.setattr(LearnerProcess, "_words", lambda self, path: ["-c", SILENT, path])
    learner = LearnerProcess(settings(), threads=1, sink=lambda _: None)
    try:
        await learner.start(300)
        assert learner.work is None
        step = asyncio.ensure_future(learner.step(3, []))
        await comes(lambda: learner.work)
        assert learner.work.on == f"the update of step 3 (learner process {learner.child.pid}, logs/learner-0.log)"
        monkeypatch.setattr(waiting, "WHILE_ENDING", (0.2, 1.0, 0.2))
        monkeypatch.setattr(waiting, "SLICE_S", 0.1)
        step.cancel()
        learner.limit.ending = True
        with pytest.raises(LearnerError, match="did not give the update of step 4 within 0 s") as told:
            await learner.step(4, [])
        assert f"learner process {learner.child.pid}, logs/learner-0.log" in told.value.hint
    finally:
        await learner.stop()
