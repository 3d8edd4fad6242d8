"""Groups are whole or replaced, whatever fails. The dispatcher plays them."""

import asyncio
from collections import defaultdict

import pytest

from trainer.lag import Contained
from trainer.outage import Outage
from trainer.rewards.advantages import score_group
from trainer.rewards.episode import EpisodeReward
from trainer.rollout.dispatcher import Dispatcher
from trainer.rollout.episode import Assignment, Episode, Exclusion
from trainer.rollout.groups import TooManyExcluded
from trainer.rollout.seeds import SeedCursor
from trainer.rollout.sizes import Sizes
from trainer.rollout.types import Branch, Span


class App:
    """Plays at once; fails the plays that `fails(assignment, count)` names, count = plays of it so far."""

    def __init__(self, fails=lambda assignment, count: False, dead=lambda assignment: False):
        self.fails, self.dead, self.plays, self.counts = fails, dead, [], defaultdict(int)

    async def is_up(self):
        return True

    async def play(self, assignment, stale):
        key = (assignment.seed, assignment.member)
        count = self.counts[key]
        self.counts[key] += 1
        self.plays.append(assignment)
        await asyncio.sleep(0)
        episode = Episode(assignment, f"cid-{len(self.plays)}", [], n=len(self.plays))
        if self.fails(assignment, count):
            episode.exclusion = Exclusion("timeout", {"limit_s": 5})
        else:
            spans = [Span(0, 1, 0)]
            episode.branches = [Branch([1], [1], [0], [0.0], spans, 1.0, 0, [0], ["first"])]
            reward = 0.0 if self.dead(assignment) else float(assignment.member)
            episode.reward = EpisodeReward(reward, "metrics.outcome_reward", reward)
        return episode


class Kept:
    def __init__(self):
        self.groups = []

    dropped = refilled = lambda self, group: self.groups.append(group)


def dispatcher(app, *, limit=1.0, refills=0, cursor=None, iterations=1):
    kept = Kept()
    made = Dispatcher(
        app.play,
        app.play,
        cursor or SeedCursor(0, None, []),
        Sizes(12, 1, 4, iterations, max_refill_groups=refills, max_excluded_fraction=limit),
        score_group,
        Contained(),
        kept,
        Outage(app.is_up, lambda: 600.0),
        max_concurrent=5,
        max_lag=0,
    )
    made.opening = True
    made.fill()
    return made, kept


async def batch(made, iteration=1):
    while made.missing(iteration) is not None:
        await made.changed()
    return made.take(iteration)


async def run(app, **options):
    made, kept = dispatcher(app, **options)
    groups, tally = await batch(made)
    return sorted(groups, key=lambda group: group.index), tally, kept.groups


async def test_every_group_has_one_seed_and_all_members():
    groups, tally, _ = await run(App())
    assert [(g.index, g.seed) for g in groups] == [(0, 0), (1, 1), (2, 2)]
    assert all([m.assignment.member for m in g.members] == [0, 1, 2, 3] for g in groups)
    assert tally.excluded.total() == 0


async def test_a_failed_member_is_played_once_more_with_its_seed():
    app = App(lambda a, count: (a.seed, a.member, count) == (1, 2, 0))
    groups, tally, _ = await run(app)
    assert [g.seed for g in groups] == [0, 1, 2]
    assert [a.replay for a in app.plays if (a.seed, a.member) == (1, 2)] == [0, 1]
    assert (tally.excluded["timeout"], tally.dropped_groups) == (1, 0)


async def test_a_member_that_fails_again_drops_its_whole_group_and_the_next_seed_comes():
    groups, tally, dropped = await run(App(lambda a, count: a.seed == 1 and a.member == 2))
    assert [g.seed for g in groups] == [0, 2, 3]
    assert (groups[2].index, groups[2].replaces, groups[2].iteration) == (3, 1, 1)
    assert [(g.index, len(g.members)) for g in dropped] == [(1, 4)]
    assert (tally.excluded["timeout"], tally.dropped_groups) == (2, 1)


async def test_a_run_does_not_go_on_with_survivors_only():
    with pytest.raises(TooManyExcluded, match=r"7 of 12 .*max_excluded_fraction = 0.5 .*7 times: no answer within 5 s"):
        await run(App(lambda a, count: True), limit=0.5)


async def test_an_evaluation_that_begins_after_a_play_has_failed_tells_it():
    """The learner was busy then, and waited for nothing; no play is started any more."""
    made, _ = dispatcher(App())
    made.fail(TimeoutError("the task app refuses us"))
    with pytest.raises(TimeoutError, match="refuses us"):
        await asyncio.wait_for(made.evaluate([Assignment("eval", 1, None, 0, 5)], 1), 20)
    await made.close()


async def test_dead_groups_are_replaced_as_often_as_allowed_and_what_stays_dead_is_learned_nothing_from():
    groups, tally, refilled = await run(App(dead=lambda a: a.seed in (1, 3, 4)), refills=2)
    assert [g.index for g in refilled] == [1, 3] and tally.refilled_groups == 2
    assert [(g.index, g.refills, g.advantages.dead) for g in groups] == [
        (0, [], False),
        (2, [], False),
        (4, [1, 3], True),
    ]


async def test_what_was_begun_and_came_into_no_batch_is_played_first_after_a_resume():
    cursor = SeedCursor(10, None, [])
    made, _ = dispatcher(App(), cursor=cursor, iterations=2)
    await batch(made)
    made.serve(0)
    assert made.cursor() == {"seed": 3, "group": 3, "wraps": 0, "again": []}
    made._contained.note(1, 1)
    made.serve(1)  # the next iteration begins
    state = made.cursor()
    await made.close()
    assert state["again"] == [[3, 13], [4, 14]]
    restored = SeedCursor(10, None, [], state["seed"], state["group"], state["again"])
    assert restored.state() == state
    assert [restored.next_group() for _ in range(3)] == [(3, 13), (4, 14), (5, 15)]
