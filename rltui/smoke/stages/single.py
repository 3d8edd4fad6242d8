"""S06 same seed, same episode; S07 one episode; S08 the policy is called where it was said."""

from __future__ import annotations

import json
from typing import Any

from rltui.smoke.bench import Bench, Played
from rltui.smoke.causes import GIVEN_UP
from rltui.smoke.fixes import WARNING_FIXES, fix_of
from rltui.smoke.net import is_loopback
from rltui.smoke.play import play
from rltui.smoke.policies.scripted import ScriptedPolicy
from rltui.smoke.report import Episode
from rltui.smoke.stages.base import Findings, Found, counted, listed, skipped
from trainer.taskapp.codes import WARNINGS, clean
from trainer.taskapp.reading import cid_of_url

LARGE_BYTES = 4 * 2**20  # of an answer: the record cuts longer texts (WIRE 5.6)
SLOW_TURN_S = 2.0  # of the app alone
MOST_EVALUATION = 8
NOT_PLAYED = ("auth", "route", "request", "redirect")
VARIANTS = 3  # of the scripted answers


async def repeatable(bench: Bench) -> Found:
    """Two plays of one seed with the same answers, then another seed; with --full, evaluation seeds as well."""
    seeds, scripted = bench.settings.seeds, ScriptedPolicy()
    one, two = [await play(bench, seeds[0], member, policy=scripted) for member in (0, 1)]
    for played in (one, two):
        if played.episode.excluded is not None:
            return skipped(f"the episodes did not finish ({played.episode.excluded}): see S07")
    found = Findings()
    if (difference := first_difference(one, two)) is not None:
        where, values = difference
        message = f"seed {seeds[0]} played twice with the same answers differs: {where} ({values})"
        if where == "the first observation":
            found.fail(message, "let env.seed alone decide the task: members of a group must play the same one")
        else:
            found.warn(message, "draw every random number of the environment from env.seed")
    if len(seeds) > 1:
        await _others(bench, one, found)
    return found.found(f"seed {seeds[0]} is the same episode twice")


async def _others(bench: Bench, one: Played, found: Findings) -> None:
    """Other seeds must differ somewhere. An answer may hide it, so where they do not, others are tried."""
    first, *others = bench.settings.seeds[:4]
    prompts = {prompt_of(one)}
    for variant in range(VARIANTS):
        scripted = ScriptedPolicy(variant=variant)
        alone = one if variant == 0 else await play(bench, first, 0, policy=scripted)
        played = [await play(bench, seed, 0, policy=scripted) for seed in others]
        whole = [p for p in played if p.episode.excluded is None]
        prompts |= {prompt_of(p) for p in whole}
        if not whole or any(first_difference(alone, p) is not None for p in whole):
            break
    else:
        found.warn(
            f"seeds {listed([first, *others])} give the same observations and rewards",
            "make env.seed choose the task, or the run learns one task alone",
        )
    evaluation = bench.settings.evaluation_seeds[:MOST_EVALUATION] if bench.settings.full else ()
    held_out = {seed: await play(bench, seed, 0, policy=ScriptedPolicy()) for seed in evaluation}
    equal = [s for s, p in held_out.items() if p.episode.excluded is None and prompt_of(p) in prompts]
    if equal:
        found.warn(
            f"evaluation seeds {listed(equal)} begin as training seeds do",
            "choose evaluation.seeds whose tasks do not occur in training",
        )


def prompt_of(played: Played) -> str:
    return json.dumps(played.arrivals[0].body.get("messages"), sort_keys=True) if played.arrivals else ""


def first_difference(one: Played, two: Played) -> tuple[str, str] | None:
    """(where, both values) of the first difference in observations, rewards and outcome; None: none."""
    pairs: list[tuple[str, Any, Any]] = []
    for k in range(max(len(one.arrivals), len(two.arrivals))):
        name = "the first observation" if k == 0 else f"the observation of turn {k + 1}"
        pairs.append((name, _messages(one, k), _messages(two, k)))
    steps = max(len(one.episode.step_rewards), len(two.episode.step_rewards))
    pairs += [(f"the reward of step {k + 1}", _step(one.episode, k), _step(two.episode, k)) for k in range(steps)]
    pairs.append(("the outcome", one.episode.outcome, two.episode.outcome))
    for where, a, b in pairs:
        if a != b:
            return where, f"{clean(_differing(a, b), 60)} against {clean(_differing(b, a), 60)}"
    return None


def _messages(played: Played, k: int) -> Any:
    return played.arrivals[k].body.get("messages") if k < len(played.arrivals) else "no call"


def _step(episode: Episode, k: int) -> Any:
    return episode.step_rewards[k] if k < len(episode.step_rewards) else "no step"


def _differing(a: Any, b: Any) -> str:
    """The part of `a` that is not in `b`, as text."""
    if isinstance(a, list) and isinstance(b, list):
        a = next((x for x, y in zip(a, b, strict=False) if x != y), a)
        a = a.get("content", a) if isinstance(a, dict) else a
    return a if isinstance(a, str) else json.dumps(a, default=str)


async def one_episode(bench: Bench) -> Found:
    """The chosen policy plays one episode, and the answer is read as a run reads it."""
    played = bench.first = await play(bench, bench.settings.seeds[0], 0)
    episode, parsed, found = played.episode, played.parsed, Findings()
    found.note(*(clean(note, 300) for note in bench.client.new_notes()))
    if episode.excluded == GIVEN_UP:
        return skipped("the episode was given up by hand, which says nothing of the app")
    if episode.excluded is not None:
        found.fail(clean(episode.sentence, 400), played.fix or fix_of(episode.excluded))
        found.note(f"counted as error/{episode.excluded}; {counted(len(played.arrivals), 'model call')} recorded")
        found.note(*(f"its log: {clean(line, 300)}" for line in played.log))
        return found.found("")
    assert parsed is not None
    for kind in parsed.warnings:
        found.warn(WARNINGS.get(kind, kind), WARNING_FIXES.get(kind, "see the answer"))
    if parsed.steps and not (parsed.steps[-1].done or parsed.steps[-1].truncated):
        found.warn("the last step is neither done nor truncated", "set trajectories[0].steps[-1].done")
    if not parsed.steps:
        found.note("the answer has no steps: rewards of single turns are not known")
    if played.answer_bytes is not None and played.answer_bytes > LARGE_BYTES:
        size = played.answer_bytes / 2**20
        found.warn(f"the answer has {size:.1f} MB", "leave out what no one reads: over 4 MB the record cuts its texts")
    if played.content_type is not None and "json" not in played.content_type:
        kind = clean(played.content_type, 60) or "none"
        found.warn(f"the answer has content type {kind}", "send application/json")
    turns = max(len(played.arrivals), 1)
    own = (episode.seconds - episode.policy_seconds) / turns
    if own > SLOW_TURN_S and not bench.policy.plays_by_hand:
        found.warn(f"the app itself takes {own:.1f} s a turn", "see what it waits for: the GPU waits meanwhile")
    if episode.trace is not None:
        found.note(f"trace: {episode.trace}")
    return found.found(f"R {episode.R:g} from {parsed.outcome_path}, {counted(len(episode.turns), 'turn')}")


async def policy_called(bench: Bench) -> Found:
    """Where the calls of S07's episode went, and what they asked for."""
    played = bench.first
    if played is None:
        return skipped("no episode was played")
    if not played.arrivals and (bench.target.died is not None or played.episode.excluded in NOT_PLAYED):
        return skipped("the app did not play the episode: see S07")
    found, server = Findings(), bench.server
    if played.strays:
        lost = [stray for stray in played.strays if cid_of_url(f"http://x{stray.url}") is None]
        if lost:
            found.fail(
                f"{len(lost)} calls came without the query string: {clean(lost[0].url)}",
                "keep ?cid=... of policy.config.inference_url in every model call",
            )
        else:
            found.fail(
                f"{len(played.strays)} calls named another episode: {clean(played.strays[0].url)}",
                "use the inference_url of the request that is being answered, and keep none from before",
            )
    elif not played.arrivals:
        found.fail(f"no model call came to the address that was given, {server.public_url}", _way_to_us(bench))
    if refused := [a for a in played.arrivals if a.status >= 400]:
        found.warn(f"{len(refused)} calls were refused with {refused[0].status}", "see the episode's turns")
    odd = [a.url for a in played.arrivals if not _well_formed(a.url)]
    if odd:
        found.warn(f"the address is built wrongly: {clean(odd[0])}", "take the URL as it stands, and append nothing")
    actions = sum(bool(a.reply and (a.reply.tool_calls or a.reply.text)) for a in played.arrivals)
    if played.arrivals and not actions:
        found.warn("no call was answered with an action", "offer tools, or ask for text")
    streamed = sum(a.body.get("stream") is True for a in played.arrivals)
    if streamed:
        found.note(f"{streamed} calls were streamed")
    return found.found(f"{counted(len(played.arrivals), 'call')}, {counted(actions, 'action')}")


def _way_to_us(bench: Bench) -> str:
    if is_loopback(bench.server.public_url) and not is_loopback(bench.target.url):
        return (
            "the app runs on another host and cannot reach this one's loopback address: set inference.gateway_host "
            "or inference.public_url in the CONFIG"
        )
    return "post to policy.config.inference_url, with its query, not to an address of the app's own"


def _well_formed(url: str) -> bool:
    path = url.partition("?")[0]
    return path.endswith("/completions") and not path.endswith("/chat/completions/chat/completions")
