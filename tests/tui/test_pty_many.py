"""A run of 100,000 episodes that goes on, in a pseudo-terminal: little for a key, nothing for what is hidden."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tui.pty_app import RLTUI, SIZE
from tests.tui.test_pty_bytes import KEY_BYTES, NO_REST, bytes_of_a_move, planted
from trainer.rundir.synth import SynthConfig, play

EPISODES = 100_000
GROWN = ("metrics.jsonl", "rollouts/index.jsonl", "rollouts/groups.jsonl", "rollouts/text-00000.jsonl")


class Live(NamedTuple):
    run: Path
    ahead: Path  # the same run, some iterations later
    more: Iterator[int]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    folder = tmp_path_factory.mktemp("many")
    ahead, run = folder / "ahead" / "many-rl_0000000000000001", folder / "runs" / "many-rl_0000000000000001"
    config = SynthConfig(
        kind="running", episodes=EPISODES + 1000, eval_every=10_000, checkpoint_every=10_000, learner_blocks=False
    )
    more = play(ahead, config)
    while next(more) * config.per_iteration < EPISODES:
        pass
    shutil.copytree(ahead, run)
    return Live(run, ahead, more)


@pytest.mark.slow
def test_a_move_among_100_000_episodes_sends_little(terminal, live, tmp_path):
    env = planted(tmp_path / "plant", "rltui.screens.monitor.rollouts", NO_REST)
    session = terminal([*RLTUI, "attach", live.run], env=env, **SIZE)
    session.wait_for("step ")
    session.send("R")
    session.wait_for(re.compile(r"100 ?\d\d\d episodes"))
    session.wait_for(re.compile(r"█ +\d"))  # the rewards are counted last
    session.drain_until_quiet(800)
    assert bytes_of_a_move(session, "j") <= KEY_BYTES


@pytest.mark.slow
def test_what_hidden_tabs_show_sends_nothing(terminal, live):
    """Episodes and metrics come while the logs are looked at, after every tab has been seen once."""
    session = terminal([*RLTUI, "attach", live.run], **SIZE)
    session.wait_for("step ")
    session.send("R")
    session.wait_for(re.compile(r"100 ?\d\d\d episodes"))
    before = session.screen()
    for key in "OMJIL":
        session.send(key)
        session.drain_until_quiet(800)
    session.drain_until_quiet(3000, timeout=120)
    sent = len(session.raw)
    for _ in range(4):
        next(live.more)
    for name in GROWN:
        have = live.run / name
        with have.open("ab") as file:
            file.write((live.ahead / name).read_bytes()[have.stat().st_size :])
    session.drain_until_quiet(5000, timeout=120)
    assert len(session.raw) == sent, session.raw[sent:]
    session.send("R")
    count = re.compile(r"(100 ?\d\d\d) episodes")
    old = count.search(before)[1]
    session.wait_for(lambda session: (found := count.search(session.screen())) and found[1] != old)  # it was there
