"""Groups are whole or replaced, whatever fails."""

import asyncio
from collections import defaultdict

import pytest

from trainer.rewards.outcome import episode_reward
from trainer.rollout.episode import Episode, Exclusion
from trainer.rollout.groups import TooManyExcluded, collect
from trainer.rollout.seeds import SeedCursor


class App:
    """Plays at once; fails the plays that `fails(assignment, count)` names, count = plays of it so far."""

    def __init__(self, fails=lambda assignment, count: False):
        self.fails, self.plays, self.counts = fails, [], defaultdict(int)

    async def play(self, assignment):
        key = (assignment.seed, assignment.member)
        count = self.counts[key]
        self.counts[key] += 1
        self.plays.append(assignment)
        await asyncio.sleep(0)
        episode = Episode(assignment, f"cid-{len(self.plays)}", [], n=len(self.plays))
        if self.fails(assignment, count):
            episode.exclusion = Exclusion("timeout")
        else:
            episode.reward = episode_reward(1.0, "metrics.outcome_reward", [])
        return episode


async def run(app, *, limit=1.0, dropped=None):
    cursor = SeedCursor(0, None, [])
    return await collect(
        app.play,
        cursor,
        (dropped if dropped is not None else []).append,
        iteration=1,
        groups=3,
        size=4,
        max_excluded_fraction=limit,
    )


async def test_every_group_has_one_seed_and_all_members():
    groups, tally = await run(App())
    assert [(g.index, g.seed) for g in groups] == [(0, 0), (1, 1), (2, 2)]
    assert all([m.assignment.member for m in g.members] == [0, 1, 2, 3] for g in groups)
    assert tally.excluded.total() == 0


async def test_a_failed_member_is_played_once_more_with_its_seed():
    app = App(lambda a, count: (a.seed, a.member, count) == (1, 2, 0))
    groups, tally = await run(app)
    assert [g.seed for g in groups] == [0, 1, 2]
    assert [a.replay for a in app.plays if (a.seed, a.member) == (1, 2)] == [0, 1]
    assert (tally.excluded["timeout"], tally.dropped_groups) == (1, 0)


async def test_a_member_that_fails_again_drops_its_whole_group_and_the_next_seed_comes():
    dropped = []
    groups, tally = await run(App(lambda a, count: a.seed == 1 and a.member == 2), dropped=dropped)
    assert [g.seed for g in groups] == [0, 3, 2]
    assert (groups[1].index, groups[1].replaces) == (3, 1)
    assert [len(g.members) for g in dropped] == [4]
    assert (tally.excluded["timeout"], tally.dropped_groups) == (2, 1)


async def test_a_run_does_not_go_on_with_survivors_only():
    with pytest.raises(TooManyExcluded, match=r"7 of 12 .*timeout x 7.*max_excluded_fraction = 0.5"):
        await run(App(lambda a, count: True), limit=0.5)
