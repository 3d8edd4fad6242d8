"""Stop strings over sampled token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class StopStrings:
    """Finds the first stop string as tokens come. Only the last tokens are decoded: a token is at least a byte, so a
    stop of b bytes lies within the last b tokens."""

    def __init__(self, stops: Sequence[str], decode: Decode) -> None:
        self._stops = tuple(s for s in stops if s)
        self._decode = decode
        self._window = max((len(s.encode()) for s in self._stops), default=0) + 4

    def match(self, token_ids: Sequence[int]) -> str | None:
        """The stop string that the newest token completed."""
        if not self._stops:
            return None
        text = self._decode(token_ids[-self._window :])
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(found)[1] if found else None


def cut_at_stop(text: str, stop: str | None) -> str:
    """What the client reads: the text before the matched stop string."""
    return text if stop is None or (at := text.find(stop)) < 0 else text[:at]
