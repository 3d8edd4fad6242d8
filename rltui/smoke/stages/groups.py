"""S09 groups of episodes, S10 many at once."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from rltui.smoke.bench import Bench, Played
from rltui.smoke.fixes import fix_of
from rltui.smoke.play import play
from rltui.smoke.policies.endpoint import EndpointPolicy
from rltui.smoke.policies.mock import MockPolicy
from rltui.smoke.rewards import with_advantages
from rltui.smoke.spread import spread_of
from rltui.smoke.stages.base import Findings, Found, listed
from rltui.smoke.stages.single import prompt_of
from trainer.taskapp.codes import WARNINGS, clean

MOST_AT_ONCE = 128
SERIAL_FROM_S = 1.0  # shorter bursts say nothing about how the app shares its time


async def groups(bench: Bench) -> Found:
    """G episodes for each seed, one at a time: rewards, advantages, exclusions, warnings."""
    settings, bench.played = bench.settings, []
    plays = settings.plays
    if bench.policy.plays_by_hand and len(plays) == 1 and bench.first is not None:
        bench.played, plays = [bench.first], []  # a person is not asked for the same episode twice
    for seed, member in plays:
        bench.played.append(await play(bench, seed, member))
        if member == settings.group_size - 1:
            _close_group(bench)
    episodes = bench.episodes
    bench.spread = spread_of(episodes, settings.group_size)
    finished = [episode.R for episode in episodes if episode.R is not None]
    found = Findings()
    for text in bench.spread.warnings:
        found.warn(text, "see the rewards of each seed: a run learns from their differences alone")
    _count_warnings(bench.played, found)
    excluded = Counter(episode.excluded for episode in episodes if episode.excluded is not None)
    for code, number in excluded.most_common():
        example = next(episode for episode in episodes if episode.excluded == code)
        text = f"{number} of {len(episodes)} episodes excluded ({code}): {clean(example.sentence, 300)}"
        over = number > settings.max_excluded_fraction * len(episodes)
        (found.fail if over or not finished else found.warn)(text, fix_of(str(code)))
    mean = f", mean R {statistics.fmean(finished):.3g}" if finished else ""
    return found.found(f"{len(finished)} of {len(episodes)} episodes finished{mean}")


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
    began = time.monotonic()
    seeds = settings.seeds
    tasks = [
        asyncio.create_task(play(bench, seeds[i % len(seeds)], i // len(seeds), policy=policy)) for i in range(number)
    ]
    try:
        played = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    seconds = time.monotonic() - began
    finished = [p for p in played if p.episode.excluded is None]
    if not stands_in:
        bench.burst = (len(finished), seconds)
    found = Findings()
    excluded = Counter(p.episode.excluded for p in played if p.episode.excluded is not None)
    for code, times in excluded.most_common():
        example = next(p.episode for p in played if p.episode.excluded == code)
        text = f"{times} of {number} episodes at once excluded ({code}): {clean(example.sentence, 300)}"
        over = times > settings.max_excluded_fraction * number
        if code == "no_recorded_call":  # alone, in S07, the calls came
            what = f"{times} of {number} episodes at once made no call under their own address"
            found.fail(what, "keep the address and the state of an episode in its request's handler: they are shared")
            continue
        fix = f"{fix_of(str(code))}; or lower rollout.max_concurrent_rollouts"
        (found.fail if over or code == "cid_mismatch" else found.warn)(text, fix)
    if mixed := _mixed_up(bench, finished):
        found.fail(
            f"seeds {listed(mixed)} began otherwise than when they were played alone",
            "keep the state of an episode in the request's handler, not in the module",
        )
    _check_serial(bench, number, seconds, stands_in, found)
    with_mock = " with mock answers" if stands_in else ""
    return found.found(f"{number} at once{with_mock} in {seconds:.2f} s")


def _mixed_up(bench: Bench, played: Sequence[Played]) -> list[int]:
    """Seeds whose first observation is another than alone. Says nothing of an app that does not repeat itself."""
    if bench.verdicts.get("S06") == "fail":
        return []
    alone = {p.episode.seed: prompt_of(p) for p in bench.played if p.arrivals}
    return sorted({p.episode.seed for p in played if prompt_of(p) != alone.get(p.episode.seed, prompt_of(p))})


def _check_serial(bench: Bench, number: int, seconds: float, stands_in: bool, found: Findings) -> None:
    alone = [e.seconds - e.policy_seconds for e in bench.episodes if e.excluded is None]
    if not alone or number < 4 or seconds < SERIAL_FROM_S:
        return
    one = statistics.median(alone)
    if one * number * 0.8 < seconds and one > 0.05:
        found.warn(
            f"the app plays one episode after the other: {number} took {seconds:.1f} s, one takes {one:.2f} s",
            "make the rollout handler async, or a plain function that our server runs in a thread",
        )
