"""What the built-in task apps share: seeds by split, and model calls whose failure is an HTTP error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.taskapp.contracts import Json, RolloutRequest
from trainer.taskapp.llm import ChatClient, Completion, ModelCallError
from trainer.taskapp.replies import refuse

USED_UP = ("context_length_exceeded", "call_limit")


def seed_in_split(request: RolloutRequest, splits: Mapping[str, range]) -> int:
    """The request's seed (0 if it has none); 422 `seed_out_of_range` if its split, or the bank, lacks it."""
    seed = request.env.seed or 0
    split = request.env.config.get("split")
    if split is not None and split not in splits:
        raise refuse(422, "unknown_split", f"there is no split {split!r}; known: {', '.join(splits)}")
    for name in [split] if split is not None else splits:
        if seed in splits[name]:
            return seed
    shown = "; ".join(
        f"split {name} has {len(seeds)} seeds, {seeds[0]}-{seeds[-1]}"
        for name, seeds in splits.items()
        if split in (None, name)
    )
    raise refuse(422, "seed_out_of_range", f"seed {seed} is out of range: {shown}")


async def complete(client: ChatClient, request: RolloutRequest, messages: Sequence[Json]) -> Completion | None:
    """One model call of the episode. None: the episode has used up its context or its calls, so it ends here.

    Any other failure is answered by 502, so that the episode is played again rather than scored.
    """
    try:
        return await client.complete(request.policy.config, messages, mode=request.mode)
    except ModelCallError as error:
        if error.code in USED_UP and len(messages) > 1:
            return None
        raise refuse(502, "inference_failed", str(error)) from None
