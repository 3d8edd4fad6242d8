"""Token-in, token-out over turns: a prompt that extends a recorded call keeps its ids (WIRE 2.2, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainer.inference.engine import Engine
from trainer.inference.messages import same_message
from trainer.inference.stopping import cut_at_stop
from trainer.rollout.trajectories import REALIGN_LIMIT, differing
from trainer.rollout.types import Call

Json = dict[str, Any]

ENDS_TRIED = 4  # end tokens among which that of the answer is looked for


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine reads. `kind` is first, clean, realign or fork; `drift` counts tokens of a realignment."""

    ids: list[int]
    kind: str
    drift: int = 0


def extended_call(messages: Sequence[Json], calls: Sequence[Call]) -> Call | None:
    """The recorded call with the longest history that `messages` go on from: its messages, its answer, then more.
    Of several the latest."""
    for call in sorted(reversed(calls), key=lambda call: -len(call.messages)):
        k = len(call.messages)
        if (
            k < len(messages)
            and call.finish_reason not in ("abort", "error")
            and same_message(messages[k], call.response)
            and all(same_message(a, b) for a, b in zip(messages[:k], call.messages, strict=True))
        ):
            return call
    return None


def shared(messages: list[Json], earlier: Call | None) -> list[Json]:
    """`messages`; what `earlier` has too is the same object, so that a record does not grow with its square."""
    if earlier is None:
        return messages
    known = [*earlier.messages, earlier.response]
    return [k if k == m else m for k, m in zip(known, messages, strict=False)] + messages[len(known) :]


async def chat_prompt(
    engine: Engine,
    earlier: Call | None,
    calls: Sequence[Call],
    messages: Sequence[Json],
    tools: Sequence[Json] | None,
    template_kwargs: Json,
) -> Prompt:
    """The rendered chat, joined with the recorded ids of `earlier` (what the chat goes on from) where the template
    writes the same text after it. Raises TemplateError."""
    full = await engine.render(messages, tools, template_kwargs)
    if (
        earlier is not None
        and earlier.tools == tools
        and earlier.sampling.get("chat_template_kwargs", {}) == template_kwargs
    ):
        before, completion = earlier.prompt_token_ids, earlier.completion_token_ids
        if _starts(full, before, completion):
            # the recorded int objects, so that a long episode's prompts share them
            return Prompt([*before, *completion, *full[len(before) + len(completion) :]], "clean")
        rendered = await engine.render(messages[: len(earlier.messages)], tools, template_kwargs)
        if full[: len(rendered)] == rendered:
            joined = _joined(engine, earlier, full[len(rendered) :])
            if joined is not None:
                return joined
    return Prompt(full, prefix_kind(full, calls))


async def text_prompt(engine: Engine, calls: Sequence[Call], text: str) -> Prompt:
    """Ids of a plain text; what an earlier call wrote keeps its ids where the text goes on from them."""
    full = await engine.tokenize(text)
    head = await engine.tokenize("")  # what the tokenizer puts before every text
    for call in sorted(reversed(calls), key=lambda call: -len(call.prompt_token_ids)):
        known = call.messages[0].get("content") if call.messages[0].get("role") == "prompt" else None
        closed = call.completion_token_ids[-1:] and call.completion_token_ids[-1] in engine.eos_token_ids
        if not isinstance(known, str) or closed or not call.completion_token_ids:
            continue
        known += engine.decode(call.completion_token_ids)
        if len(known) < len(text) and text.startswith(known):
            rest = await engine.tokenize(text[len(known) :])
            history = call.prompt_token_ids + call.completion_token_ids
            ids = history + (rest[len(head) :] if rest[: len(head)] == head else rest)
            if ids == full:
                return Prompt(full, "clean")
            drift = differing(full[len(call.prompt_token_ids) : len(history)], call.completion_token_ids)
            return Prompt(ids, "realign", drift)
    return Prompt(full, prefix_kind(full, calls))


def prefix_kind(prompt: Sequence[int], calls: Sequence[Call]) -> str:
    """first, clean (the prompt extends a recorded call, id by id) or fork."""
    if not calls:
        return "first"
    extends = any(_starts(prompt, call.prompt_token_ids, call.completion_token_ids) for call in calls)
    return "clean" if extends else "fork"


def _joined(engine: Engine, earlier: Call, rest: list[int]) -> Prompt | None:
    """Recorded prompt and completion, then what `rest` (the rendering after the prompt) has behind the answer."""
    completion, ends = earlier.completion_token_ids, engine.eos_token_ids
    tried = [i for i, id in enumerate(rest[: len(completion) + REALIGN_LIMIT]) if id in ends][:ENDS_TRIED]
    for end in tried:
        if not _same_answer(engine.decode(rest[:end]), earlier, engine.decode(completion)):
            continue
        # a completion cut by its limit or a stop string has no end token of its own: the template's is used
        behind = end + 1 if completion and completion[-1] in ends else end
        drift = differing(rest[:behind], completion)
        if drift > REALIGN_LIMIT:
            return None
        return Prompt([*earlier.prompt_token_ids, *completion, *rest[behind:]], "realign" if drift else "clean", drift)
    return None


def _same_answer(rendered: str, earlier: Call, recorded: str) -> bool:
    """Whether the template wrote the recorded answer: its text, and its thinking. White space is the template's, and
    tool calls are (the client's message had equal ones)."""
    response, written = earlier.response, "".join(rendered.split())
    if not response.get("tool_calls"):
        return written == "".join(cut_at_stop(recorded, earlier.stop_detail).split())
    parts = (response.get("reasoning_content"), response.get("content"))
    return all("".join(part.split()) in written for part in parts if part)


def _starts(prompt: Sequence[int], before: list[int], completion: list[int]) -> bool:
    """Whether `prompt` goes on from a completion, id by id."""
    a, b = len(before), len(before) + len(completion)
    return bool(completion) and b < len(prompt) and prompt[a:b] == completion and prompt[:a] == before
