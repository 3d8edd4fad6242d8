"""Which episodes count after a resume of an asynchronous run: their group's batch decides, not the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rltui.sources.local import LocalRunSource
from tests.rundir.conftest import episode
from trainer.rundir import RunReader, RunWriter
from trainer.rundir.records import Exclusion, GroupRecord

FROM = 4  # the step that the second attempt goes on from; two steps an iteration


def played(writer: RunWriter, planned: int, closed: int | None, **fields: object) -> int:
    """An episode played for iteration `planned`, whose group closed in iteration `closed`."""
    n = writer.episode(episode(step=2 * planned, iteration=planned, **fields))
    if closed is not None:
        place = {"step": 2 * closed, "iteration": closed}
        rewards = {"rewards": [0.5], "mean": 0.5, "std": 0.0, "dead": False}
        writer.group(GroupRecord(**place, **rewards, group=n, seed=n, split="train", members=[n]))
        writer.update(n, **place, kind="group", adv=0.1, excl=None)
    return n


def test_rows_count_by_the_batch_that_their_group_was_in(root: Path, writer_at: Callable[..., RunWriter]) -> None:
    with writer_at() as writer:
        trained = [played(writer, 1, 1), played(writer, 2, 2)]
        early = played(writer, 3, 2)  # others were late: trained before the resume
        late = played(writer, 2, 3)  # a straggler
        never = played(writer, 2, None)  # waited for a batch when the attempt ended
        lost = played(writer, 2, None, exclusion=Exclusion(code="timeout"))
        evaluated = played(writer, 2, None, split="eval", group=None)
        beyond = played(writer, 3, 3)
    reader, source = RunReader(root), LocalRunSource(root)
    everything = [*trained, early, late, never, lost, evaluated, beyond]
    assert [row["n"] for row in source.index(0, 99)] == everything
    with writer_at(attempt=2) as writer:
        writer.event("rl.resumed", "x", step=FROM, attempt=2, from_step=FROM, from_iteration=2)
        again = played(writer, 3, None)  # of the attempt that goes on: it may still come into a batch
    assert len(reader.resumes()) == 1
    kept = [*trained, early, lost, evaluated, again]
    assert [row["n"] for row in reader.index() if reader.row_counts(row)] == kept
    assert [row["n"] for row in source.index(0, 99)] == [row["n"] for row in source.index(0, 99, ("R",))] == kept
    assert source.dropped().rows == [[beyond, beyond + 1], [late, never + 1]]
    assert source.updates(early) == {"adv": 0.1, "excl": None, "iteration": 2}
    assert source.updates(late) == {}


def test_damaged_groups_drop_no_evaluation_and_raise_nothing(root: Path, writer_at: Callable[..., RunWriter]) -> None:
    with writer_at() as writer:
        n = played(writer, 1, 1)
        evaluated = played(writer, 2, None, split="eval", group=None)
        with writer.paths.groups.open("a") as file:
            file.write('{"attempt":1,"step":4,"members":[-1,"x",999]}\n{"attempt":1,"step":"x","members":[0]}\n{\n')
    with writer_at(attempt=2) as writer:
        writer.event("rl.resumed", "x", step=FROM, attempt=2, from_step=FROM, from_iteration=2)
    assert [row["n"] for row in LocalRunSource(root).index(0, 99)] == [n, evaluated]
