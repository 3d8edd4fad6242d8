"""Keys, escape sequences, pastes, the mouse and sizes, at random, against the real app on synthetic runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser

from rltui.actions.keynames import NAMED
from rltui.driver import NOISE, TolerantDriver
from rltui.samples import samples
from tests.fuzz.effort import RANDOM, examples, within
from tests.fuzz.mutate import torn
from tests.tui.app_driver import build, run_in, screen_text, type_at_once
from tests.tui.configured_run import configured

WAIT_S = 60.0
KEYS = [chr(i) for i in range(33, 127)] * 2 + sorted(NAMED) * 4
keys = st.one_of(
    st.sampled_from(KEYS),
    st.sampled_from(["enter", "escape", "tab", "down", "right", "pagedown", "space", *"1234567"]),
    st.tuples(
        st.sampled_from(["ctrl+", "alt+", "shift+"]), st.sampled_from([*"abcdefghijklmnopqrstuvwxyz", "up", "f1"])
    ).map("".join),
)
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["R > 0 and", "(" * 400, "é漢👩‍👩‍👧\u202e\x1b[2J\x00", "x\n" * 200, "[bold", "9" * 400]),
)
SEQUENCES = [
    b"\x1b[A",
    b"\x1b[1;5C",
    b"\x1b[Z",
    b"\x1bOP",
    b"\x1b[3~",
    b"\x1b[200~p\x1b[31m\x1b[201~",
    b"\x1b[<0;10;5M",
    b"\x1b[<0;10;5m",
    b"\x1b[<64;3;3M",
    b"\x1b[<35;-5;99999M",
    b"\x1b[I",
    b"\x1b[O",
    b"\x1b[97;5u",
    b"\x1b[57399;1:3u",
    b"\x1b[48;30;100;600;800t",
    b"\x1b[?2048;0$y",
    b"\x1b[24;80R",
    b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1bP1$r0m\x1b\\",
    b"\x1b[M   ",
    b"\x1b[?62;22c",
]
raw = st.one_of(
    st.lists(st.sampled_from(SEQUENCES), min_size=1, max_size=4)
    .map(b"".join)
    .flatmap(lambda data: torn(data, 2) | st.just(data)),
    st.binary(max_size=12),
)
sizes = st.tuples(st.integers(1, 300), st.integers(1, 100)) | st.sampled_from(
    [(1, 1), (2, 1), (300, 100), (80, 24), (1, 100), (300, 1)]
)
acts = st.one_of(
    st.tuples(st.just("keys"), st.lists(keys, min_size=1, max_size=8)),
    st.tuples(st.just("keys"), st.lists(keys, min_size=1, max_size=8)),
    st.tuples(st.just("paste"), texts),
    st.tuples(st.just("raw"), raw),
    st.tuples(st.just("mouse"), st.tuples(st.integers(0, 130), st.integers(0, 45), st.integers(0, 3))),
    st.tuples(st.just("size"), sizes),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    configured(folder, "alpha", 1, episodes=64, judge=True, turns=2)
    run_in(folder, "beta", kind="resumed", number=2)
    run_in(folder, "gamma", kind="stalled", number=3)
    return folder


def nobody(*_: Any, **__: Any) -> Any:
    raise FileNotFoundError(2, "No such file or directory", "nothing is started here")


def no_process(*_: Any) -> Any:
    raise ProcessLookupError(3, "No such process")


def click(app: Any, x: int, y: int, kind: int) -> None:
    made = [events.MouseDown, events.MouseUp, events.MouseScrollDown, events.MouseMove][kind]
    buttons = (events.MouseDown, events.MouseUp) if kind < 2 else (made,)
    for each in buttons:
        app._driver.process_message(each(None, x, y, 0, 0, 1 if kind < 2 else 0, False, False, False, x, y))


async def settled(app: Any, pilot: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        await pilot.pause()
    assert app.failure is None


async def driven(
    folder: Path, size: tuple[int, int], opened: bool, readonly: bool, what: list[tuple[str, Any]]
) -> None:
    run = sorted(folder.iterdir())[0] if opened else None
    app = build(folder, run_dir=run, readonly=readonly)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for kind, given_ in what:
            if not app.is_running or app._exit:
                break
            if kind == "keys":
                type_at_once(app, *given_)
            elif kind == "paste":
                app.post_message(events.Paste(given_))
            elif kind == "mouse":
                click(app, *given_)
            elif kind == "size":
                await asyncio.wait_for(pilot.resize_terminal(*given_), WAIT_S)
            else:
                with contextlib.suppress(*NOISE):
                    for message in XTermParser().feed(given_.decode(errors="replace") or " "):
                        app._driver.process_message(message)
            await settled(app, pilot)
            if app.screen_stack and not app._exit:
                screen_text(app)
    assert app.failure is None, app.failure
    assert not app._exception, app._exception


@examples(12)
@given(
    size=sizes | st.just((120, 40)),
    opened=st.booleans(),
    readonly=st.booleans(),
    what=st.lists(acts, min_size=3, max_size=25 if RANDOM else 8),
)
def test_the_app_stands_whatever_is_typed(
    runs: Path, size: tuple[int, int], opened: bool, readonly: bool, what: list[tuple[str, Any]]
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place, within(300):
        home = Path(place)
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
            patch.setenv(name, str(home / name.lower()))
        shutil.copytree(runs, home / "runs")
        shutil.copy(samples()["demo"], home / "demo.toml")
        patch.chdir(home)
        for owner, name in ((subprocess, "Popen"), (subprocess, "run"), (asyncio, "create_subprocess_exec")):
            patch.setattr(owner, name, nobody)
        for name in ("kill", "killpg"):
            patch.setattr(os, name, no_process)
        asyncio.run(driven(home / "runs", size, opened, readonly, what))


class Drained:
    """Set once all that came was read."""

    def __init__(self, fd: int) -> None:
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def is_set(self) -> bool:
        return not any(what & select.POLLIN for _, what in self._poll.poll(0))


@examples(60)
@given(data=raw)
def test_no_bytes_end_the_reading_of_the_terminal(data: bytes) -> None:
    """An exception in the driver's thread would leave an app that hears nothing more, and a traceback."""
    there, here = os.pipe()
    driver = TolerantDriver.__new__(TolerantDriver)
    driver.fileno, driver._debug, driver.exit_event = there, False, Drained(there)  # type: ignore[assignment]
    driver.process_message = lambda message: None  # type: ignore[method-assign]
    with os.fdopen(here, "wb") as pipe:
        pipe.write(data)
    try:
        with within(60):
            driver.run_input_thread()
    finally:
        os.close(there)
