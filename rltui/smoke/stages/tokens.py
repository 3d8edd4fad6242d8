"""S11 tokens and what the app asks of the sampler."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rltui.smoke.bench import Bench, Played
from rltui.smoke.policies.base import functions_of
from rltui.smoke.stages.base import Findings, Found, listed, skipped
from trainer.taskapp.codes import clean
from trainer.taskapp.reading import listing, mapping

# What training forces to its own value or drops (WIRE 2.3); the neutral values ask for nothing.
_NEUTRAL = {"top_p": (1, None), "top_k": (-1, 0, None), "min_p": (0, None), "repetition_penalty": (1, None)}
_NEUTRAL |= {"frequency_penalty": (0, None), "presence_penalty": (0, None), "best_of": (1, None)}
_DROPPED = ("logit_bias", "response_format", "min_tokens", "bad_words", "allowed_token_ids", "guided_json", "seed")


async def tokens(bench: Bench) -> Found:
    """The calls of all episodes so far: do they join into one sequence, and are they sampled plainly?"""
    played = [p for p in (bench.first, *bench.played) if p is not None and p.arrivals]
    if not played:
        return skipped("no model call was recorded")
    found = Findings()
    _check_sampling(played, found)
    _check_history(played, found)
    if images := sum(_holds_image(p) for p in played):
        found.fail(f"{images} episodes have images in their prompts", "send text: the learner reads nothing else")
    if tools := _unparsed_calls(played):
        found.warn(f"the policy called tools that were not offered: {listed(tools)}", "offer all tools in every call")
    kept = [p.tokens for p in played if p.tokens is not None]
    if not kept:
        found.note("token ids and logprobs are recorded by --policy self only")
        return found.found("messages extend each other, sampling is plain")
    return _check_recorded(played, found)


def _check_sampling(played: list[Played], found: Findings) -> None:
    asked: Counter[str] = Counter()
    for arrival in (a for p in played for a in p.arrivals):
        body = arrival.body
        asked.update(name for name, neutral in _NEUTRAL.items() if name in body and body[name] not in neutral)
        asked.update(name for name in _DROPPED if body.get(name) is not None)
        if body.get("temperature") == 0:
            asked["temperature 0"] += 1
        if body.get("tool_choice") not in (None, "auto", "none"):
            asked["tool_choice"] += 1
    if asked:
        found.warn(
            f"the app asks for other sampling than training allows: {listed(asked)}",
            "leave these out: training samples the plain distribution, and forces or drops them",
        )


def _check_history(played: list[Played], found: Findings) -> None:
    """Whether each call goes on from the one before: else its tokens make another training sequence."""
    pairs = [(a, b) for p in played for a, b in zip(p.arrivals, p.arrivals[1:], strict=False)]
    broken = 0
    for before, after in pairs:
        old, new = listing(before.body.get("messages")), listing(after.body.get("messages"))
        broken += new[: len(old)] != old
    if broken:
        found.warn(
            f"in {broken} of {len(pairs)} calls the message history was rewritten",
            "only append to the messages: a rewritten history splits an episode into sequences of less weight",
        )


def _holds_image(played: Played) -> bool:
    messages = [m for a in played.arrivals for m in listing(a.body.get("messages"))]
    parts = [mapping(part).get("type") for m in messages for part in listing(mapping(m).get("content"))]
    return any(kind in ("image_url", "image", "input_image") for kind in parts)


def _unparsed_calls(played: list[Played]) -> list[str]:
    names: set[str] = set()
    for arrival, reply in ((a, a.reply) for p in played for a in p.arrivals if a.reply is not None):
        offered = {f["name"] for f in functions_of(listing(arrival.body.get("tools")))}
        called = [mapping(mapping(call).get("function")).get("name") for call in reply.tool_calls]
        if offered:
            names |= {str(name) for name in called if name not in offered}
    return sorted(names)


def _check_recorded(played: list[Played], found: Findings) -> Found:
    """What the own model's gateway recorded, against what arrived here."""
    counts: Counter[str] = Counter()
    forced: set[str] = set()
    for one in played:
        kept: Any = one.tokens
        if kept is None:
            continue
        counts.update(kept.counts)
        forced |= set(kept.forced)
        if kept.broken is not None:
            found.fail(f"training could not use the tokens: {clean(kept.broken)}", "report this: a fault of ours")
        if not kept.logprobs:
            found.fail("calls were recorded without logprobs", "choose an engine that gives processed logprobs")
        answered = sum(a.status == 200 for a in one.arrivals)
        if kept.calls != answered:
            found.fail(f"{answered} calls were answered, {kept.calls} recorded", "report this: a fault of ours")
    if counts["fork"]:
        found.warn(
            f"{counts['fork']} calls did not extend the tokens before them (fork)",
            "only append to the messages, and send the policy's own messages back as they came",
        )
    unread = [p for p in played for a in p.arrivals if a.reply and not a.reply.tool_calls and _wanted(a.body)]
    if unread:
        found.warn(
            f"{len(unread)} answers to calls with tools hold no tool call that could be read",
            "look at the texts: a small model may not call tools; else set vllm.tool_call_parser",
        )
    if forced:
        found.note(f"forced or dropped: {listed(sorted(forced))}")
    joined = ", ".join(f"{name} {counts[name]}" for name in ("clean", "realign", "fork", "drift"))
    return found.found(f"ids and logprobs recorded; calls joined: {joined}")


def _wanted(body: Any) -> bool:
    return bool(listing(mapping(body).get("tools"))) and mapping(body).get("tool_choice") != "none"
