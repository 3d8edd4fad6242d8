"""The smoke test's screen in every look and size, fed with what a session would tell: see snapshot.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rltui.screens.smoke.screen import SmokeScreen
from rltui.smoke.asked import Asked
from rltui.smoke.events import (
    Asks,
    Began,
    CallSeen,
    Done,
    EpisodeBegan,
    EpisodeEnded,
    Failed,
    Idle,
    Opened,
    StageBegan,
    StageEnded,
    Told,
    TurnSeen,
)
from rltui.smoke.policies.base import Call
from rltui.smoke.report import (
    TITLES,
    Episode,
    Exchange,
    Forecast,
    GroupForecast,
    Plan,
    Report,
    SeedSpread,
    Spread,
    Stage,
    Turn,
)
from rltui.smoke.settings import Settings
from tests.smoke.tool_app import TOOL
from tests.tui.test_snapshots import VARIANTS, Opening, Walk, world

__all__ = ["world"]
URL = "http://127.0.0.1:8765"
SETTINGS = Settings(
    URL, policy="self", seeds=(0, 1, 2, 3, 4, 5, 6, 7), group_size=4, plan=Plan(group_size=4, concurrency=32)
)
EVIL = "\x1b]52;c;QQ==\x07\x1b[2Jlow [red]"  # must be text, and nothing else
GUESS = {"id": "call_0_0", "type": "function", "function": {"name": "guess", "arguments": '{"number": 512}'}}
TURNS = (
    Turn(
        ({"role": "system", "content": "Find the number."}, {"role": "user", "content": "It is one of 1 to 1024."}),
        "Half of the range, so 512.",
        (GUESS,),
        0.214,
        18,
        prompt_tokens=40,
    ),
    Turn(({"role": "tool", "content": f"512 is too {EVIL}."},), "", (GUESS,), 1.2, 11, prompt_tokens=80),
)


def stage(id: str, verdict: str = "ok", message: str = "as it should be", fix: str = "", **more: object) -> Stage:
    return Stage(id, TITLES[id], verdict, 0.012 * int(id[1:]), message, fix, **more)  # type: ignore[arg-type]


def episode(n: int, seed: int, member: int, reward: float) -> Episode:
    return Episode(n, seed, member, TURNS, (0.0, reward), reward, reward, seconds=2.4, policy="self")


def said(screen: SmokeScreen, *told: Told, now: float = 0.0) -> None:
    for one in told:
        screen.model.apply(one, now)
        if isinstance(one, Asks):
            screen._ask(one)
    screen.show_all()


def begun(screen: SmokeScreen) -> None:
    """A test that has come to its groups."""
    warned = stage("S05", "warn", "all prompts are equal in task_info", "let the seed choose the task")
    early = [stage(id) if id != "S05" else warned for id in list(TITLES)[:8]]
    said(screen, Opened(SETTINGS), Began("all"), *map(StageEnded, early), StageBegan("S09", "groups", None))
    for n in range(8):
        seed, member = divmod(n, 4)
        reward = float(seed == 0 and member < 2)
        said(screen, EpisodeBegan(n, seed, member, "S09"), EpisodeEnded(episode(n, seed, member, reward)))
    said(screen, EpisodeBegan(8, 2, 0, "S09"), TurnSeen(8, TURNS[0]), CallSeen(8, TURNS[1].messages_tail), now=40.0)


def report(stages: list[Stage]) -> Report:
    seeds = (SeedSpread(0, (1.0, 1.0, 0.0, 0.0), 0.5, False), SeedSpread(1, (0.0,) * 4, 0.0, True))
    predicted = (GroupForecast(4, 0.57, 2), GroupForecast(8, 0.42, 2), GroupForecast(16, 0.28, 2))
    spread = Spread(seeds, 0.25, 0.43, 0.0, 1.0, predicted)
    forecast = Forecast(
        2.4, 6.1, 0.8, 6.2, 10, 318.0, 3.2, 1.1, 8.8, 24_000_000, "inference",
        inputs=("8 episodes: p50 2.4 s, p95 6.1 s, mean 2.9 s", "20 iterations x 192 s = 1.1 h at least"),
        warnings=("only 8 episodes were timed: take the numbers as a guess",),
    )  # fmt: skip
    episodes = tuple(episode(n, n // 4, n % 4, float(n < 2)) for n in range(8))
    failed = any(one.verdict == "fail" for one in stages)
    verdict = "not ready: S07 one episode: NaN" if failed else "ready with warnings: 1 warning (S05)"
    word = "not_ready" if failed else "ready_with_warnings"
    return Report("", "ab" * 32, {}, URL, "self", "tiny", tuple(stages), episodes, spread, forecast, word, verdict)  # type: ignore[arg-type]


@pytest.fixture(params=VARIANTS)
def opening(request: pytest.FixtureRequest, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Opening(request.param, Path("nothing"), smoke=Asked(config=Path("guess.toml"), url=URL, policy="self"))


async def ready(walk: Walk) -> SmokeScreen:
    await walk.until("127.0.0.1:8765")
    screen = walk.app.frame
    assert isinstance(screen, SmokeScreen)
    screen.clock = lambda: 41.0
    return screen


async def both(walk: Walk, name: str, wide: bool = False) -> None:
    """And where there is room for one of both alone, the other one."""
    await walk.snap(name, wide=wide)
    if walk.variant == "80x24":
        await walk.press("v")
        await walk.snap(f"{name}_second")
        await walk.press("v")


async def test_nothing_to_test(opening: Opening) -> None:
    opening._app.options = replace(opening._app.options, smoke=None)
    opening._app.config_path = None
    async with opening as walk:
        await walk.press("5")
        await walk.until("No task_url")
        await walk.snap("smoke_empty")


async def test_while_it_runs(opening: Opening) -> None:
    async with opening as walk:
        screen = await ready(walk)
        begun(screen)
        await both(walk, "smoke_running", wide=True)
        screen.model.paused = True
        screen.show_all()
        await walk.snap("smoke_paused", only=slice(0, 3))


async def test_the_verdict(opening: Opening) -> None:
    async with opening as walk:
        screen = await ready(walk)
        begun(screen)
        warned = stage("S05", "warn", "all prompts are equal in task_info", "let the seed choose the task")
        stages = [stage(id) if id != "S05" else warned for id in TITLES]
        said(screen, EpisodeEnded(episode(8, 2, 0, 1.0)), *map(StageEnded, stages), Done(report(stages)), Idle(URL))
        await both(walk, "smoke_done", wide=True)


async def test_a_stage_that_failed_with_what_went_over_the_wire(opening: Opening) -> None:
    async with opening as walk:
        screen = await ready(walk)
        exchange = Exchange(
            "POST",
            f"{URL}/rollout",
            200,
            0.31,
            '{"run_id": "smoke-1", "env": {"seed": 0}}',
            f'{{"o": "{EVIL}"}}',
            False,
        )
        failed = stage(
            "S07", "fail", "outcome_reward is NaN", "send a finite number", exchanges=(exchange,), notes=("n",)
        )
        missing = ("S09", "S10", "S11", "S12", "S14")
        stages = [
            failed if id == "S07" else stage(id, "skipped", "needs S07") if id in missing else stage(id)
            for id in TITLES
        ]
        said(screen, Opened(SETTINGS), Began("all"), *map(StageEnded, stages), Done(report(stages)), Idle(URL))
        await walk.until("outcome_reward is NaN")
        await walk.snap("smoke_failed")
        await walk.press("enter")
        await walk.until("< 200")
        await walk.snap("smoke_unfolded", only="#checklist")


async def test_a_person_is_asked(opening: Opening) -> None:
    async with opening as walk:
        screen = await ready(walk)
        said(screen, Opened(SETTINGS), Began("episode"), EpisodeBegan(0, 3, 0, "play"))
        said(screen, CallSeen(0, TURNS[0].messages_tail))
        said(screen, Asks(Call("c", 0, 3, 0, list(TURNS[0].messages_tail), [TOOL], {}), None))
        await walk.press("p", "tab", "tab")
        await walk.until("red, green, blue")
        await walk.snap("smoke_person")


async def test_it_could_not_begin(opening: Opening) -> None:
    async with opening as walk:
        screen = await ready(walk)
        said(screen, Failed("port 8765 is held by process 7 (nginx), which is not ours to end"))
        await walk.snap("smoke_refused", only="#checklist")
