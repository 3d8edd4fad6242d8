"""The first prompt of a recorded episode, as a request would have it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from rltui.sources.base import Json
from trainer.taskapp.reading import listing, mapping


class Prompt(NamedTuple):
    """What the policy was given for its first answer of episode `n`."""

    n: int
    messages: tuple[Json, ...]
    tools: tuple[Json, ...]


def first_prompt(episode: Json | None) -> Prompt | None:
    """None: the text of the episode is gone, or it ended before its first call."""
    turn = mapping(next(iter(listing((episode or {}).get("turns"))), None))
    said = [mapping(message) for message in listing(turn.get("messages"))]
    if said and said[-1].get("role") == "assistant":
        said.pop()  # the answer
    n = (episode or {}).get("n")
    if not said or not isinstance(n, int):
        return None
    return Prompt(n, tuple(map(_message, said)), tuple(map(mapping, listing(turn.get("tools")))))


def _message(said: Json) -> Json:
    """Reasoning is left out, as it is in requests."""
    kept = {name: said[name] for name in ("name", "tool_calls", "tool_call_id") if said.get(name) is not None}
    return {"role": str(said.get("role") or "user"), "content": said.get("text") or "", **kept}
