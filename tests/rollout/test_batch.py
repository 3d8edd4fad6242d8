"""Order, size and content of optimizer updates."""

import numpy as np
import pytest

from trainer.lag import Lags
from trainer.learner.batches import decode
from trainer.learner.protocol import AnchoredSequence, AnchorResult
from trainer.rewards.advantages import critic_advantages, group_advantages, turn_advantages
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.batch import chunks, shuffled, update_of
from trainer.rollout.episode import Assignment, Episode
from trainer.rollout.groups import Group


def groups(count):
    return [Group(i, i, []) for i in range(count)]


def test_the_order_of_groups_is_fixed_by_seed_and_iteration_not_by_arrival():
    there, back = groups(8), groups(8)[::-1]
    assert [g.index for g in shuffled(there, 1, 3)] == [g.index for g in shuffled(back, 1, 3)]
    assert [g.index for g in shuffled(there, 1, 3)] != [g.index for g in shuffled(there, 1, 4)]


def test_the_last_update_may_be_smaller():
    assert [len(part) for part in chunks(list(range(10)), 4)] == [4, 4, 2]


def member(n, group, number, *, tokens=4, stop="completed", branches=1, temperatures=(1.0,)):
    from trainer.rollout.types import Branch, Call, Span

    def call(index):
        return Call("c", index, [1], [2], [-0.5], [Span(0, 1, 0)], "stop", {"temperature": temperatures[index]}, [], {})

    made = Episode(Assignment("train", 1, group, number, group), "c", [], n=n, stop=stop)
    made.calls = [call(i) for i in range(len(temperatures))]
    made.branches = [
        Branch(
            [7] * tokens, [0] + [1] * (tokens - 1), [0] * tokens, [-0.5] * tokens, [], 1 / branches, 0, [0], ["first"]
        )
        for _ in range(branches)
    ]
    return made


def learn_from(members, rewards, **changes):
    advantages = {g: group_advantages(values) for g, values in rewards.items()}
    lags = changes.pop("lags", None) or Lags({m.n: 2 for m in members}, 4)
    return update_of(members, advantages, lags, **{"made": 1, "max_seq_len": 10, "mask_truncated": False, **changes})


def test_members_of_a_dead_group_are_neither_learned_from_nor_masked():
    members = [member(0, 0, 0), member(1, 0, 1), member(2, 1, 0), member(3, 1, 1)]
    update = learn_from(members, {0: [1.0, 1.0], 1: [0.0, 1.0]})
    assert [s.n for s in update.sequences] == [2, 3] and update.masked == []
    assert [s.advantage for s in update.sequences] == pytest.approx([-1.0, 1.0], abs=1e-5)
    assert update.trainable_frac == 0.5 and {s.lag for s in update.sequences} == {3}


def test_beside_a_critic_equal_rewards_are_learned_from():
    members = [member(0, 0, 0, branches=2), member(1, 0, 1)]
    for one in members:
        one.reward = EpisodeReward(0.5, "test", 0.5)
    advantages = {0: critic_advantages([member.reward for member in members])}
    update = update_of(members, advantages, Lags({0: 0, 1: 0}, 4), made=0, max_seq_len=10, mask_truncated=False)
    assert [(s.n, s.branch, s.reward) for s in update.sequences] == [(0, 0, 0.5), (0, 1, 0.5), (1, 0, 0.5)]
    rewards = decode(update.sequences[0]).reward
    assert rewards.tolist() == [0.0, 0.0, 0.0, 0.5]  # at the last sampled token


def test_a_critic_gets_each_turns_reward_at_its_last_sampled_token():
    one = member(0, 0, 0, tokens=6, temperatures=(1.0, 1.0, 1.0))
    one.branches[0].calls[:], one.branches[0].turn[:] = (
        [0, 1],
        [0, 0, 0, 1, 1, 1],
    )  # turn 2 stands elsewhere
    one.reward = EpisodeReward(1.0, "test", 1.75, steps=(0.5, 1.0, 0.0), matched=True, beta=0.5)
    update = update_of(
        [one], {0: critic_advantages([one.reward])}, Lags({0: 0}, 4), made=0, max_seq_len=10, mask_truncated=False
    )
    # 0.5 x 0.5, 0.5 x 1.0, and the outcome 1.0 with the last turn
    assert decode(update.sequences[0]).reward.tolist() == [0.0, 0.0, 0.25, 0.0, 0.0, 1.5]


def test_what_is_too_long_or_cut_is_masked_alone():
    members = [member(0, 0, 0, tokens=11), member(1, 0, 1, stop="max_tokens"), member(2, 0, 2, stop="max_turns")]
    update = learn_from(members, {0: [0.0, 1.0, 0.5]}, mask_truncated=True)
    assert [(m.episode.n, m.code) for m in update.masked] == [(0, "too_long"), (1, "truncated")]
    assert [s.n for s in update.sequences] == [2]
    assert update.masked[0].detail == {"tokens": 11, "limit": 10}


def test_branches_share_the_advantage_and_weigh_one_episode_together():
    update = learn_from([member(0, 0, 0, branches=2), member(1, 0, 1)], {0: [0.0, 1.0]})
    assert [(s.n, s.branch, s.weight) for s in update.sequences] == [(0, 0, 0.5), (0, 1, 0.5), (1, 0, 1.0)]
    assert update.sequences[0].advantage == update.sequences[1].advantage


def test_an_update_of_dead_groups_only_has_no_sequence():
    update = learn_from([member(0, 0, 0), member(1, 0, 1)], {0: [0.5, 0.5]})
    assert update.sequences == [] and update.trainable_frac == 0.0 and update.tokens == 0


def test_the_lag_of_a_sequence_counts_the_updates_since_the_batch_closed():
    members = [member(0, 0, 0), member(1, 0, 1)]
    update = learn_from(members, {0: [0.0, 1.0]}, lags=Lags({0: 0, 1: 3}, 4), made=2)
    assert [s.lag for s in update.sequences] == [2, 5]


def test_what_is_older_than_a_limit_that_was_lowered_is_masked_alone():
    members = [member(0, 0, 0), member(1, 0, 1)]
    update = learn_from(members, {0: [0.0, 1.0]}, lags=Lags({0: 5, 1: 4}, 4))
    assert [(m.episode.n, m.code, m.detail["lag"]) for m in update.masked] == [(0, "stale", 5)]
    assert [s.n for s in update.sequences] == [1]


def test_the_proximal_mask_leaves_out_the_branch_and_names_its_ratio():
    update = learn_from([member(0, 0, 0, branches=2), member(1, 0, 1)], {0: [0.0, 1.0]})
    sequences = [AnchoredSequence(s.n, s.branch, 1.02, (s.n, s.branch) == (0, 1), b"") for s in update.sequences]
    update.take_anchor(AnchorResult(0.99, 1.01, sequences))
    assert [(s.n, s.branch) for s in update.sequences] == [(0, 0), (1, 0)]
    [masked] = update.masked
    assert (masked.episode.n, masked.branch, masked.code) == (0, 1, "proximal_mask")
    assert masked.detail == {"ratio": 1.02, "low": 0.99, "high": 1.01}


def test_the_sampled_tokens_of_a_turn_get_its_advantage_in_every_branch():
    """Turn 0 has two sampled tokens in one branch, turn 1 one in another; prompt tokens get none."""
    played, other = member(0, 0, 0, branches=2), member(1, 0, 1)
    played.branches[0].mask, played.branches[0].turn = [0, 1, 1, 0], [0, 0, 0, 0]
    played.branches[1].mask, played.branches[1].turn = [0, 0, 0, 1], [1, 1, 1, 1]
    scored = turn_advantages([[3.0, 1.0], [0.0]], [3.0, 0.0], std=False)  # baselines 1.5, and 4/3 for the lone turn 1
    lags = Lags({0: 0, 1: 0}, 4)
    update = update_of([played, other], {0: scored}, lags, made=0, max_seq_len=10, mask_truncated=False)
    given = [np.frombuffer(s.token_advantage, "<f4").tolist() for s in update.sequences]
    assert given == [[0, 1.5, 1.5, 0], [0, 0, 0, pytest.approx(-1 / 3)], [0, -1.5, -1.5, -1.5]]
    assert [s.weight for s in update.sequences] == [0.5, 0.5, 1.0]


def test_one_advantage_an_episode_needs_no_array():
    update = learn_from([member(0, 0, 0), member(1, 0, 1)], {0: [0.0, 1.0]})
    assert [s.token_advantage for s in update.sequences] == [b"", b""]
