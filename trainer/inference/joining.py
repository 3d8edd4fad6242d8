"""Token-in, token-out over turns: a prompt that extends a recorded call keeps its ids (WIRE 2.2, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.inference.engine import Engine
from trainer.rollout.types import Call

Json = dict[str, Any]


def extended_call(messages: Sequence[Json], calls: Sequence[Call]) -> Call | None:
    """The recorded call with the longest history that `messages` go on from: its messages, its answer, then more."""
    best: Call | None = None
    for call in calls:
        k = len(call.messages)
        if (
            k < len(messages)
            and call.finish_reason not in ("abort", "error")
            and (best is None or k >= len(best.messages))
            and same_message(messages[k], call.response)
            and all(same_message(a, b) for a, b in zip(messages[:k], call.messages, strict=True))
        ):
            best = call
    return best


def same_message(a: Json, b: Json) -> bool:
    """Equal in all that a template reads; clients drop or add fields that are null."""
    return all((a.get(key) or None) == (b.get(key) or None) for key in ("role", "content", "tool_calls", "name"))


async def joined_prompt(
    engine: Engine,
    earlier: Call,
    messages: Sequence[Json],
    full: Sequence[int],
    tools: Sequence[Json] | None,
    template_kwargs: Json,
    end_ids: frozenset[int],
) -> list[int] | None:
    """Recorded prompt, recorded completion, and of `full` (the rendering of all messages) what comes after them.

    None where the template does not simply append: then history was re-rendered and the ids cannot be joined."""
    k = len(earlier.messages)
    before = await engine.render(messages[:k], tools, template_kwargs)
    after = await engine.render(messages[: k + 1], tools, {**template_kwargs, "add_generation_prompt": False})
    if list(full[: len(after)]) != after or after[: len(before)] != before:
        return None
    ends = [i for i in range(len(before), len(after)) if after[i] in end_ids]
    if not ends:
        return None
    # a completion cut by its limit or a stop string has no end token of its own: the template's is used
    closed = bool(earlier.completion_token_ids) and earlier.completion_token_ids[-1] in end_ids
    rest = full[ends[-1] + 1 :] if closed else full[ends[-1] :]
    return [*earlier.prompt_token_ids, *earlier.completion_token_ids, *rest]


def prefix_kind(prompt: Sequence[int], calls: Sequence[Call]) -> str:
    """first, clean (the prompt extends a recorded call, id by id) or fork."""
    if not calls:
        return "first"
    for call in reversed(calls):
        history = len(call.prompt_token_ids) + len(call.completion_token_ids)
        if (
            history <= len(prompt)
            and list(prompt[: len(call.prompt_token_ids)]) == call.prompt_token_ids
            and list(prompt[len(call.prompt_token_ids) : history]) == call.completion_token_ids
        ):
            return "clean"
    return "fork"
