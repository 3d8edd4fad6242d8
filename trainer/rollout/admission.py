"""When a training episode may start, and which ones a batch must hold (CONFIG 3, DESIGN 5). Pure, over counts.

Both halves keep one promise: no token is older than max_lag when the batch of its episode closes. So every group has a
newest iteration that it can be learned from in, by its oldest token. Admission starts no more than have a place in
time. Batches take what is ready, so younger groups may come first; but never so many of them that those which are
still being played could not all be in time any more: then the learner waits for these, the stragglers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def newest_iteration(*, steps: int, max_lag: int, updates_served: int) -> int:
    """The newest iteration that episodes started now can be learned from in. All places up to it may be taken.

    Its batch closes after (iteration - 1) x m updates, so that their lag there is at most max_lag.

    Args:
        steps: m, optimizer updates per iteration.
        max_lag: greatest lag in updates of any token when its iteration's batch closes; 0 is synchronous.
        updates_served: w, optimizer updates contained in the weights that the engine serves.
    """
    return (max_lag + updates_served) // steps + 1


def first_overfull(newest: Iterable[int], *, iteration: int, groups: int) -> int | None:
    """Whether the batch of `iteration` leaves too much for the batches after it.

    Args:
        newest: the newest iteration of each group that it leaves.
        groups: E / G, that a batch holds.

    Returns:
        The first iteration by which more groups would have to be learned from than there are places; None: all fit.
        Groups that are too old already are not counted: nothing brings them back in time.
    """
    due = 0
    for last, count in sorted(Counter(n for n in newest if n >= iteration).items()):
        due += count
        if due > groups * (last - iteration):
            return last
    return None
