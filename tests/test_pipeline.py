"""Order and size of updates: pure pieces of the pipeline."""

from trainer.pipeline import chunks, shuffled
from trainer.rollout.groups import Group


def groups(count):
    return [Group(i, i, []) for i in range(count)]


def test_the_order_of_groups_is_fixed_by_seed_and_iteration_not_by_arrival():
    there, back = groups(8), groups(8)[::-1]
    assert [g.index for g in shuffled(there, 1, 3)] == [g.index for g in shuffled(back, 1, 3)]
    assert [g.index for g in shuffled(there, 1, 3)] != [g.index for g in shuffled(there, 1, 4)]


def test_the_last_update_may_be_smaller():
    assert [len(part) for part in chunks(list(range(10)), 4)] == [4, 4, 2]
