"""S09 groups of episodes, S10 many at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from rltui.smoke.bench import Bench, Played
from rltui.smoke.causes import GIVEN_UP
from rltui.smoke.fixes import fix_of
from rltui.smoke.play import play
from rltui.smoke.policies.endpoint import EndpointPolicy
from rltui.smoke.policies.mock import MockPolicy
from rltui.smoke.rewards import with_advantages
from rltui.smoke.spread import spread_of
from rltui.smoke.stages.base import Findings, Found, counted, listed
from rltui.smoke.stages.single import prompt_of
from trainer.taskapp.codes import WARNINGS, clean

MOST_AT_ONCE = 128
SENSELESS = ("mock", "scripted")  # policies that do not read what they answer
MOST_COMPUTING = 0.4  # of the time of many at once, which a busy machine stretches: more is no waiting
SERIAL_FROM_S = 1.0  # shorter bursts say nothing about how the app shares its time


async def groups(bench: Bench) -> Found:
    """G episodes for each seed, one at a time: rewards, advantages, exclusions, warnings."""
    settings, bench.played = bench.settings, []
    plays = settings.plays
    if bench.policy.plays_by_hand and len(plays) == 1 and bench.first is not None:
        bench.played, plays = [bench.first], []  # a person is not asked for the same episode twice
    computed = _computed(bench)
    for seed, member in plays:
        bench.played.append(await play(bench, seed, member))
        if member == settings.group_size - 1:
            _close_group(bench)
    bench.computed = (_computed(bench) - computed) / max(len(plays), 1)
    episodes = bench.episodes
    bench.spread = spread_of(episodes, settings.group_size, could_earn=_could_earn(bench))
    finished = [episode.R for episode in episodes if episode.R is not None]
    found = Findings()
    for text in bench.spread.warnings:
        found.warn(text, "see the rewards of each seed: a run learns from their differences alone")
    if finished and not any(finished) and not bench.spread.warnings:
        found.note(f"all rewards are 0: {bench.policy.name} answers cannot earn here; play with --policy self")
    _count_warnings(bench.played, found)
    excluded = Counter(episode.excluded for episode in episodes if episode.excluded is not None)
    if given_up := excluded.pop(GIVEN_UP, 0):
        found.note(f"{counted(given_up, 'episode')} given up by hand")
    for code, number in excluded.most_common():
        example = next(one for one in bench.played if one.episode.excluded == code)
        text = f"{number} of {len(episodes)} episodes excluded ({code}): {clean(example.episode.sentence, 300)}"
        over = number > settings.max_excluded_fraction * len(episodes)
        (found.fail if over or not finished else found.warn)(text, example.fix or fix_of(str(code)))
    mean = f", mean R {statistics.fmean(finished):.3g}" if finished else ""
    return found.found(f"{len(finished)} of {len(episodes)} episodes finished{mean}")


def _could_earn(bench: Bench) -> bool:
    """Words without sense earn nothing where text is asked for; tools are at least called as they want it."""
    tools = any(
        arrival.body.get("tools") or arrival.body.get("functions") for p in bench.played for arrival in p.arrivals
    )
    return tools or bench.policy.name not in SENSELESS


def _close_group(bench: Bench) -> None:
    """Writes the advantages of the seed that was just played."""
    size = bench.settings.group_size
    group = bench.played[-size:]
    closed = with_advantages([p.episode for p in group], size, bench.settings.advantage_std)
    for played, episode in zip(group, closed, strict=True):
        played.episode = episode
    if closed[0].A is not None:
        bench.group_closed(closed)


def _count_warnings(played: Sequence[Played], found: Findings) -> None:
    counts = Counter(kind for one in played for kind in one.episode.warnings)
    found.note(*(f"{WARNINGS.get(kind, kind)} ({number} episodes)" for kind, number in counts.most_common()))


async def concurrent(bench: Bench) -> Found:
    """As many at once as a run would play, with no mix-up between them."""
    settings = bench.settings
    number = min(settings.concurrency, MOST_AT_ONCE)
    # A vendor's limits are not those of a run, and its calls cost money; a person answers one at a time.
    stands_in = bench.policy.plays_by_hand or isinstance(bench.policy, EndpointPolicy)
    policy = MockPolicy() if stands_in else bench.policy
    began, computed = time.monotonic(), _computed(bench)
    seeds = settings.seeds
    tasks = [
        asyncio.create_task(play(bench, seeds[i % len(seeds)], i // len(seeds), policy=policy)) for i in range(number)
    ]
    try:
        played = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    seconds, computed = time.monotonic() - began, _computed(bench) - computed
    finished = [p for p in played if p.episode.excluded is None]
    if not stands_in:
        bench.burst = (len(finished), seconds)
    found = Findings()
    excluded = Counter(p.episode.excluded for p in played if p.episode.excluded is not None)
    for code, times in excluded.most_common():
        example = next(p for p in played if p.episode.excluded == code)
        text = f"{times} of {number} episodes at once excluded ({code}): {clean(example.episode.sentence, 300)}"
        over = times > settings.max_excluded_fraction * number
        if code == "no_recorded_call":  # alone, in S07, the calls came
            what = f"{times} of {number} episodes at once made no call under their own address"
            found.fail(what, "keep the address and the state of an episode in its request's handler: they are shared")
            continue
        fix = f"{example.fix or fix_of(str(code))}; or lower rollout.max_concurrent_rollouts"
        (found.fail if over or code == "cid_mismatch" else found.warn)(text, fix)
    if mixed := _mixed_up(bench, finished):
        found.fail(
            f"seeds {listed(mixed)} began otherwise than when they were played alone",
            "keep the state of an episode in the request's handler, not in the module",
        )
    alone = [e.seconds - e.policy_seconds for e in bench.episodes if e.excluded is None]
    if alone:
        check_serial(number, seconds, computed, found, one=statistics.median(alone), one_computed=bench.computed)
    with_mock = " with mock answers" if stands_in else ""
    return found.found(f"{number} at once{with_mock} in {seconds:.2f} s")


def _mixed_up(bench: Bench, played: Sequence[Played]) -> list[int]:
    """Seeds whose first observation is another than alone. Says nothing of an app that does not repeat itself."""
    if bench.verdicts.get("S06") == "fail":
        return []
    alone = {p.episode.seed: prompt_of(p) for p in bench.played if p.arrivals}
    return sorted({p.episode.seed for p in played if prompt_of(p) != alone.get(p.episode.seed, prompt_of(p))})


def _computed(bench: Bench) -> float:
    """Seconds of CPU that this process and the app, where it is served here, have taken by now."""
    return time.process_time() + bench.target.cpu_seconds()


def check_serial(
    number: int, seconds: float, computed: float, found: Findings, *, one: float, one_computed: float
) -> None:
    """Episodes that wait one after the other. Computing takes its turn in any app, and is not counted as waiting.

    `number` at once took `seconds` of wall time and `computed` of CPU; alone, one takes `one` and `one_computed`.
    """
    if number < 4 or seconds < SERIAL_FROM_S:
        return
    waits = one - one_computed
    if computed > MOST_COMPUTING * seconds:
        found.note(f"{computed:.1f} s of computing in {seconds:.1f} s: so many at once are bound by the CPU here")
    elif waits * number * 0.8 < seconds - computed and waits > 0.05:
        found.warn(
            f"the app plays one episode after the other: {number} took {seconds:.1f} s, one takes {one:.2f} s",
            "in an async rollout handler await all that takes time, hold no lock meanwhile, and make no HTTP client "
            "for each episode: one for all; or make it a plain function, which our server runs in a thread",
        )
