from __future__ import annotations

import numpy as np
import pytest

from tests.learner.conftest import frame, make_groups
from trainer.learner.batches import Tree, decode, pack


def test_a_group_shares_its_prompt() -> None:
    batch, *others = pack([decode(f) for f in make_groups(groups=2, size=3)], 4096)
    assert not others
    # prompts of 5 and 6 tokens; completions of 7..9 and 8..10
    assert batch.trees == [Tree(5, (7, 8, 9)), Tree(6, (8, 9, 10))]
    assert len(batch.ids) == sum(t.tokens for t in batch.trees)
    assert batch.positions.tolist()[:13] == [*range(5), *range(5, 12), 5]


def test_what_predicts_each_sampled_token() -> None:
    frames = [frame(0, [9, 8, 1, 2, 3], [0, 0, 1, 0, 1]), frame(1, [9, 8, 4, 5], [0, 0, 1, 1])]
    (batch,) = pack([decode(f) for f in frames], 100)
    #            prompt  branch 0  branch 1
    assert batch.ids.tolist() == [9, 8, 1, 2, 3, 4, 5]
    assert batch.source.tolist() == [1, 3, 1, 5]
    assert batch.target.tolist() == [1, 3, 4, 5]
    assert batch.row.tolist() == [0, 0, 1, 1]
    assert batch.column.tolist() == [2, 4, 2, 3]


def test_only_equal_prompts_of_one_group_are_shared() -> None:
    prompt = [1, 2, 3]
    frames = [
        frame(0, [*prompt, 4], [0, 0, 0, 1], group=0),
        frame(0, [*prompt, 5, 6], [0, 0, 0, 0, 1], group=0, branch=1),  # a fork with a longer prompt
        frame(1, [1, 2, 9, 4], [0, 0, 0, 1], group=0),
        frame(2, [1, 2, 9, 4], [0, 0, 0, 1], group=1),
        frame(3, [1, 2, 4], [0, 0, 1], group=1),
    ]
    (batch,) = pack([decode(f) for f in frames], 100)
    assert batch.trees == [Tree(3, (1, 2)), Tree(3, (1,)), Tree(3, (1,)), Tree(2, (1,))]


@pytest.mark.parametrize("budget", [1, 20, 27, 60, 1000])
def test_budget_and_order(budget: int) -> None:
    sequences = [decode(f) for f in make_groups(groups=3, size=4)]
    batches = pack(sequences, budget)
    assert [row for batch in batches for row in batch.rows] == list(range(12))
    for batch in batches:
        assert len(batch.ids) <= budget or len(batch.rows) == 1
    assert sum(len(b.target) for b in batches) == sum(int(s.mask.sum()) for s in sequences)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": b"\0\0\0"}, "at least one sampled"),
        ({"mask": b"\1\0\0"}, "needs a prompt"),
        ({"mask": b"\0\1"}, "unequal lengths"),
        ({"temperature": 0.0}, "temperature"),
        ({"token_temperature": np.array([1, 1, 0], "<f4").tobytes()}, "temperature"),
        ({"token_temperature": np.ones(2, "<f4").tobytes()}, "unequal lengths"),
        ({"token_advantage": np.zeros(2, "<f4").tobytes()}, "unequal lengths"),
    ],
)
def test_a_broken_sequence_is_named(changes, message: str) -> None:
    with pytest.raises(ValueError, match=f"episode 41.*{message}"):
        broken = frame(41, [1, 2, 3], [0, 0, 1])
        for name, value in changes.items():
            setattr(broken, name, value)
        decode(broken)
