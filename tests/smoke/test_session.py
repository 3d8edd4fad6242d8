"""A smoke test in a thread: jobs one after the other, a person asked across threads, and nothing left at the end."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import psutil

from rltui.smoke.asked import Asked
from rltui.smoke.events import PLAYED, Asks, Began, Done, EpisodeEnded, Failed, Idle, Opened, Told
from rltui.smoke.session import Session

APP = "tests/smoke/tool_app.py"
WAIT_S = 60.0


class Watched:
    """A session, and what it has told."""

    def __init__(self, asked: Asked) -> None:
        self.told: queue.Queue[Told] = queue.Queue()
        self.session = Session(asked, self.told.put)

    def until(self, kind: type) -> Told:
        while not isinstance(told := self.told.get(timeout=WAIT_S), kind):
            assert not isinstance(told, Failed), told
        return told


def test_stages_then_an_episode_by_hand_on_the_same_app_and_nothing_is_left() -> None:
    watched = Watched(Asked(url=APP, seeds=(0, 1), group_size=1))
    session = watched.session
    session.run({"S01", "S02", "S05"})
    session.play(1, by_hand=True)
    session.begin()
    assert watched.until(Opened).settings.seeds == (0, 1)  # type: ignore[union-attr]
    done = watched.until(Done)
    assert isinstance(done, Done) and [stage.id for stage in done.report.stages] == ["S01", "S02", "S05"]
    children = psutil.Process().children()
    asks = watched.until(Asks)
    assert isinstance(asks, Asks) and asks.call is not None and asks.call.seed == 1
    session.answer("press(mauve")
    while asks.problem is None:
        asks = watched.until(Asks)  # type: ignore[assignment]
    session.answer("press(green, 1)")
    ended = watched.until(EpisodeEnded)
    assert isinstance(ended, EpisodeEnded)
    assert (ended.episode.R, ended.episode.stage, ended.episode.policy) == (1.0, PLAYED, "human")
    watched.until(Idle)
    session.close()
    assert not session.alive and children and not any(child.is_running() for child in children)


def test_a_stop_while_a_person_is_asked_leaves_it_ready_for_the_next() -> None:
    watched = Watched(Asked(url=APP))
    session = watched.session
    session.play(0, by_hand=True)
    session.begin()
    watched.until(Asks)
    session.stop()
    watched.until(Idle)
    session.play(0, by_hand=True)
    watched.until(Began)
    asks = watched.until(Asks)
    while not (isinstance(asks, Asks) and asks.call is not None):
        asks = watched.until(Asks)
    session.answer("!give up")
    ended = watched.until(EpisodeEnded)
    assert isinstance(ended, EpisodeEnded) and ended.episode.excluded == "given_up"
    session.close()
    session.close()


def test_what_cannot_be_tested_is_said_and_ends_the_session(tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[algorithm]\nmethod = 1\n")
    for asked, words in (
        (Asked(), "neither a config nor a URL"),
        (Asked(url="builtin:nothing"), "there is no built-in task app"),
        (Asked(url=APP, policy="self"), "self plays with the model of a config"),
        (Asked(config=config), "rltui validate"),
    ):
        watched = Watched(asked)
        watched.session.run()
        watched.session.begin()
        while not isinstance(told := watched.told.get(timeout=WAIT_S), Failed):
            pass
        assert words in told.why
        watched.session.close()
        assert not watched.session.alive


def test_keys_of_one_config_do_not_outlive_its_session(tmp_path: Path) -> None:
    (tmp_path / "keys.env").write_text("RLTUI_TEST_KEY=secret-of-one-config\n")
    text = Path("sample_configs/demo.toml").read_text()
    (tmp_path / "my.toml").write_text(f'env_file_path = "keys.env"\n{text}')
    watched = Watched(Asked(config=tmp_path / "my.toml"))
    watched.session.run({"S01"})
    watched.session.begin()
    watched.until(Opened)
    watched.until(Idle)
    assert os.environ["RLTUI_TEST_KEY"] == "secret-of-one-config"
    watched.session.close()
    assert "RLTUI_TEST_KEY" not in os.environ
