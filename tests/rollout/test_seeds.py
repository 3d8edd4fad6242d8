import pytest

from trainer.rollout.seeds import SeedCursor, evaluation_plan


def test_training_seeds_skip_held_out_ones_and_wrap():
    cursor = SeedCursor(start=3, count=4, held_out=[4])
    assert [cursor.next() for _ in range(7)] == [3, 5, 6, 3, 5, 6, 3]


def test_a_cursor_goes_on_from_its_position():
    first = SeedCursor(start=0, count=10, held_out=[2, 3])
    for _ in range(5):
        first.next()
    again = SeedCursor(start=0, count=10, held_out=[2, 3], position=first.position)
    assert [again.next() for _ in range(6)] == [first.next() for _ in range(6)]


def test_unbounded_seeds_go_on():
    cursor = SeedCursor(start=0, count=None, held_out=range(6))
    assert [cursor.next() for _ in range(3)] == [6, 7, 8]


def test_all_seeds_held_out_is_refused_instead_of_an_endless_search():
    with pytest.raises(ValueError, match="held out"):
        SeedCursor(start=0, count=3, held_out=[0, 1, 2])


def test_evaluation_cycles_through_its_seeds():
    assert evaluation_plan([7, 9], 5) == [(7, 0), (9, 0), (7, 1), (9, 1), (7, 2)]


def test_no_two_evaluation_episodes_are_the_same_play_of_a_seed():
    assert evaluation_plan([1, 1, 2], 4) == [(1, 0), (1, 1), (2, 0), (1, 2)]
