"""Two ranks for real (torchrun, gloo, fully_shard) against one process; one group of processes serves all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file

from tests.learner.conftest import frame, make_groups
from trainer.devices import Place
from trainer.learner import canary, checkpoint, parallel
from trainer.learner.batches import decode, pack
from trainer.learner.client import LearnerError, LearnerProcess
from trainer.learner.learner import Learner
from trainer.learner.protocol import LearnerSettings, Sequence, StepResult

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATIENCE_S = 300  # to load torch three times where others use the cores, too
FIRST_MOMENT = 0.1  # of Adam after one step: that times the gradient
TIMES = {"time/forward_backward"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ranks(settings) -> AsyncIterator[LearnerProcess]:
    learner = LearnerProcess(settings(), threads=2, sink=lambda _: None, places=[Place(0, ())] * 2)
    try:
        await learner.start(PATIENCE_S)
        yield learner
    finally:
        await learner.stop()


async def step_of_two(
    ranks: LearnerProcess, settings: LearnerSettings, steps: list[list[Sequence]], folder: Path
) -> list[StepResult]:
    """A learner of two ranks, its steps, then a checkpoint in `folder`."""
    await ranks.greet(settings, PATIENCE_S)
    results = [await ranks.step(k, frames) for k, frames in enumerate(steps, 1)]
    await ranks.checkpoint(folder, {"step": len(steps)})
    return results


def step_of_one(
    settings: LearnerSettings, steps: list[list[Sequence]], folder: Path
) -> tuple[Learner, list[StepResult]]:
    learner = Learner(settings)
    results = [learner.step(k, frames) for k, frames in enumerate(steps, 1)]
    checkpoint.write(learner, folder, {"step": len(steps)}, optimizer=True)
    return learner, results


def gradients(folder: Path) -> dict[str, torch.Tensor]:
    stored = load_file(folder / checkpoint.OPTIMIZER)
    return {name: tensor / FIRST_MOMENT for name, tensor in stored.items() if name.endswith("exp_avg")}


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """To 1e-5 of the largest entry."""
    assert found.keys() == expected.keys()
    scale = max(tensor.abs().max().item() for tensor in expected.values())
    assert scale > 0
    for name, tensor in expected.items():
        assert (found[name] - tensor).abs().max().item() <= 1e-5 * scale, name


@pytest.mark.parametrize(
    ("changes", "groups", "size"),
    [
        ({}, 3, 3),
        ({"variety": "grpo", "micro_batch_tokens": 20}, 3, 3),
        ({"trainer_mode": "full"}, 3, 3),
        ({"trainer_mode": "full", "variety": "grpo", "gradient_checkpointing": True}, 1, 5),
        ({"loss_aggregation": "length_weighted"}, 1, 1),  # nothing for the second rank
        ({"trainer_mode": "full", "micro_batch_tokens": 1}, 1, 3),
        ({"trainer_mode": "full", "variety": "ppo"}, 1, 3),
        ({"variety": "ppo"}, 1, 1),
        ({"trainer_mode": "qlora"}, 2, 3),  # replicas
    ],
    ids=str,
)
async def test_the_gradient_of_two_ranks_is_that_of_one(settings, ranks, tmp_path, changes, groups, size) -> None:
    frames = make_groups(groups, size, reward=0.5)
    given = settings(**{"max_grad_norm": 1e9, "clip_eps_low": 0.9, "clip_eps_high": 9.0, **changes})
    [found] = await step_of_two(ranks, given, [frames], tmp_path / "two")
    _, [expected] = step_of_one(given, [frames], tmp_path / "one")
    assert_close(gradients(tmp_path / "two"), gradients(tmp_path / "one"))
    assert [(s.n, s.branch, s.clip) for s in found.sequences] == [(s.n, s.branch, s.clip) for s in expected.sequences]
    for a, b in zip(found.sequences, expected.sequences, strict=True):
        np.testing.assert_allclose(np.frombuffer(a.logp_learner, "<f4"), np.frombuffer(b.logp_learner, "<f4"), 1e-5)
    assert found.metrics.keys() == expected.metrics.keys()
    for name in found.metrics.keys() - TIMES:
        assert found.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("mode", ["lora", "full"])
async def test_another_number_of_ranks_goes_on_from_a_checkpoint(settings, ranks, tmp_path, mode) -> None:
    """From 2 to 1 and from 1 to 2: each time the third step is that of the run that was never interrupted."""
    given = settings(trainer_mode=mode)
    steps = [make_groups(seed=k) for k in (1, 2, 3)]
    two, one = tmp_path / "two", tmp_path / "one"
    await step_of_two(ranks, given, steps[:2], two)
    step_of_one(given, steps[:2], one)
    names = {path.relative_to(one) for path in one.rglob("*")}
    assert names == {path.relative_to(two) for path in two.rglob("*")}

    _, whole = step_of_one(given, steps, tmp_path / "whole")
    await ranks.greet(settings(trainer_mode=mode, resume_from=str(one)), PATIENCE_S)
    later = Learner(given)
    checkpoint.read(later, two)
    for result in (await ranks.step(3, steps[2]), later.step(3, steps[2])):
        for a, b in zip(result.sequences, whole[2].sequences, strict=True):
            assert a.ratio == pytest.approx(b.ratio, rel=1e-3)
        for name in ("optim/update_ratio", "optim/grad_norm"):
            assert result.metrics[name] == pytest.approx(whole[2].metrics[name], rel=1e-3)


@pytest.mark.parametrize(("mode", "dtype"), [("lora", "bfloat16"), ("full", "bfloat16")])
async def test_what_an_engine_is_sent_is_the_same_to_the_byte(settings, ranks, tmp_path, mode, dtype) -> None:
    """From the same checkpoint, so that both have the same weights; and the canary speaks of them alike."""
    given = settings(trainer_mode=mode, dtype=dtype)
    step_of_one(given, [make_groups()], tmp_path / "c")
    given.resume_from = str(tmp_path / "c")
    one = Learner(given)
    checkpoint.read(one, tmp_path / "c")
    one.policy.export(tmp_path / "one")
    await ranks.greet(given, PATIENCE_S)
    synced = await ranks.sync(tmp_path / "two", 1)
    data = (tmp_path / "one" / "model.safetensors").read_bytes()
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == data and synced.bytes == len(data)
    assert synced.rounding_gap == pytest.approx(one.policy.rounding_gap, rel=1e-6)

    prefixes, wanted = [np.array(ids, "<i4") for ids in ([1, 2, 3], [1, 2, 4])], np.array([5, 6], "<i4")
    answer = await ranks.canary([ids.tobytes() for ids in prefixes], [wanted.tobytes()] * 2)
    expected = canary.candidate_logprobs(one.policy, prefixes, [wanted] * 2)
    np.testing.assert_allclose([np.frombuffer(row, "<f4") for row in answer], expected, rtol=1e-4)


@pytest.mark.parametrize("mode", ["lora", "full"])
async def test_a_rehearsal_takes_all_ranks_and_leaves_nothing(settings, ranks, tmp_path, mode) -> None:
    given, frames = settings(trainer_mode=mode, micro_batch_tokens=300), make_groups(3, 3)
    for name in ("without", "with"):
        await ranks.greet(given, PATIENCE_S)
        if name == "with":
            found = await ranks.rehearse(PATIENCE_S)
            assert (found.tokens, found.longest, found.memory_bytes) == (300, 128, None) and found.peak_bytes > 0
        await ranks.step(1, frames)
        await ranks.checkpoint(tmp_path / name, {"step": 1})
    for file in (checkpoint.OPTIMIZER, *(p.name for p in (tmp_path / "with").glob("*.safetensors"))):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()


async def test_the_anchor_of_an_iteration(settings, ranks) -> None:
    given = settings(trainer_mode="full", anchor="proximal", kl_coef=0.1, reference="shared")
    await ranks.greet(given, PATIENCE_S)
    frames = make_groups(groups=1, size=3)
    found, expected = await ranks.anchor([frames, [], frames[:1]]), Learner(given).anchor([frames, [], frames[:1]])
    assert [(s.n, s.masked) for s in found.sequences] == [(s.n, s.masked) for s in expected.sequences]
    for a, b in zip(found.sequences, expected.sequences, strict=True):
        np.testing.assert_allclose(np.frombuffer(a.logp_proximal, "<f4"), np.frombuffer(b.logp_proximal, "<f4"), 1e-5)
        assert a.prox == pytest.approx(b.prox, rel=1e-5)
    for f, item in zip(frames, found.sequences, strict=False):
        f.logp_proximal = item.logp_proximal
    assert (await ranks.step(1, frames)).metrics["gspo/kl"] == pytest.approx(0.0, abs=1e-6)  # the start weights


async def test_a_sequence_that_is_not_finite_skips_the_step_of_all(settings, ranks) -> None:
    await ranks.greet(settings(trainer_mode="full"), PATIENCE_S)
    frames = make_groups(groups=2, size=2)
    good = frames[1].logp_behavior
    frames[1].logp_behavior = np.full(len(good) // 4, np.nan, "<f4").tobytes()
    result = await ranks.step(1, frames)
    assert result.skipped == "the loss is not finite" and result.culprits == [frames[1].n]
    frames[1].logp_behavior = good
    assert (await ranks.step(2, frames)).skipped is None
    with pytest.raises(LearnerError, match="unequal lengths"):
        await ranks.step(3, [frame(0, [1, 2], [0])])
    assert (await ranks.step(3, frames)).skipped is None


async def test_a_disk_that_fails_is_told_by_all(settings, ranks, tmp_path) -> None:
    """Rank 0 alone writes; the others do not wait for it, and the next try succeeds."""
    await ranks.greet(settings(trainer_mode="full"), PATIENCE_S)
    place = tmp_path / "v1"
    (place / "model.safetensors").mkdir(parents=True)  # no file can take its place
    with pytest.raises(LearnerError, match=r"model\.safetensors"):
        await ranks.sync(place, 1)
    (place / "model.safetensors").rmdir()
    assert (await ranks.sync(place, 1)).bytes == (place / "model.safetensors").stat().st_size


async def test_a_rank_that_dies_ends_all_with_its_name(settings, ranks) -> None:
    """The last one: it ends the group."""
    os.kill(ranks.pids[1], signal.SIGKILL)
    with pytest.raises(LearnerError, match=r"rank 1 of the learner's 2 .*signal 9") as caught:
        await ranks.step(1, make_groups())
    assert "training.micro_batch_tokens" in caught.value.hint
    assert ranks.child is not None and await ranks.child.ended != 0


async def test_shares_of_a_step(monkeypatch) -> None:
    """Every sequence is in one share, the shares have as many rounds, and a prompt is not torn apart for nothing."""
    prompt = list(range(40))
    frames = [frame(n, [*prompt, n, n], [0] * 40 + [1, 1], group=0) for n in range(3)]
    frames += [frame(3 + n, [n] * 30, [0] * 10 + [1] * 20, group=1 + n) for n in range(4)]
    sequences = [decode(f) for f in frames]
    monkeypatch.setattr(parallel, "size", lambda: 3)
    shares = []
    for rank in range(3):
        monkeypatch.setattr(parallel, "rank", lambda rank=rank: rank)
        shares.append(parallel.share(sequences, 4096))
    assert sorted(row for share in shares for batch in share for row in batch.rows) == list(range(7))
    assert len({len(share) for share in shares}) == 1
    assert [0, 1, 2] in [batch.rows for share in shares for batch in share]
    longest = max(sum(len(batch.ids) for batch in share) for share in shares)
    assert longest < 1.5 * sum(len(batch.ids) for batch in pack(sequences, 4096)) / 3
