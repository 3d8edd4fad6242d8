"""What is said while nothing happens."""

import asyncio
from collections.abc import AsyncIterator

from rltui.cli.smoke_waiting import Waiting, ticking
from rltui.smoke.events import CallSeen, EpisodeBegan, Event, StageBegan, TurnSeen
from rltui.smoke.report import Turn


def test_it_says_who_is_waited_for_soon_and_then_rarely() -> None:
    waiting = Waiting(120.0)
    waiting.seen(StageBegan("S05", "task info of seeds", 60.0), 100.0)
    assert waiting.line(104.0) is None
    assert waiting.line(105.0) == "        S05 waits 5 s for the app: task info of seeds (limit 60 s)"
    waiting.seen(StageBegan("S06", "same seed, same episode", None), 110.0)
    waiting.seen(EpisodeBegan(0, 3, 0, "S06"), 111.0)
    waiting.seen(CallSeen(0, ()), 112.0)
    assert waiting.line(118.0) == "        S06 waits 6 s for the policy to answer a call of seed 3 (limit 120 s)"
    waiting.seen(TurnSeen(0, Turn((), "x", (), 1.0)), 119.0)
    assert waiting.line(124.0) == "        S06 waits 5 s for the app to answer POST /rollout of seed 3 (limit 120 s)"
    assert [second for second in range(125, 260) if waiting.line(float(second))] == [184, 244]


async def test_ticks_come_between_events_and_a_cancelled_wait_ends_the_source() -> None:
    go, ended = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncIterator[Event]:
        try:
            await go.wait()
            yield StageBegan("S01", "reachable", None)
            await asyncio.Event().wait()
        finally:
            ended.set()

    source = ticking(events(), 0.01)
    assert await anext(source) is None
    go.set()
    while (event := await anext(source)) is None:
        pass
    assert isinstance(event, StageBegan)
    task = asyncio.create_task(anext(source))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert ended.is_set()
