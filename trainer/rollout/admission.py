"""When a new training episode may start (CONFIG 3, DESIGN 5). Pure functions over counts."""

from __future__ import annotations


def admitted(*, episodes: int, steps: int, max_lag: int, updates_served: int) -> int:
    """How many training episodes may have been started since the run began.

    A new one starts while accepted + running is below this number.

    Args:
        episodes: E, episodes per iteration.
        steps: m, optimizer updates per iteration.
        max_lag: greatest lag in updates of any token when its iteration's batch closes; 0 is synchronous.
        updates_served: w, optimizer updates contained in the weights that the engine serves.
    """
    return episodes * ((max_lag + updates_served) // steps + 1)
