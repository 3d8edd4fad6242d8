"""The control room without a run: who waits for whom, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.config.texts import SMALL
from trainer import control_room
from trainer.config import load_text
from trainer.control_room import ControlRoom, NoRoom
from trainer.errors import RunError
from trainer.recorder import Recorder
from trainer.rundir import RunReader, answer, ask
from trainer.rundir.patient import PatientWriter


class Room:
    """A control room on a run folder of its own."""

    def __init__(self, root: Path) -> None:
        def load(values):
            sets = [f"{key}={value}" for key, value in values.items()]
            return load_text(SMALL, "run.toml", sets=sets, environ={}, device="cpu")

        self.writer = PatientWriter(root, job_id="rl_0", label="x")
        loaded = load({})
        self.recorder = Recorder(self.writer, loaded.derived, loaded.config)
        self.ends: list[str] = []
        self.room = ControlRoom(loaded, self.recorder, self.writer, load, lambda verb, by: self.ends.append(verb))
        self.recorder.status(state="running", phase="training")

    def ask(self, action: str, **args) -> str:
        control_id = ask(self.writer.paths.root, action, args, client="test")
        self.room.look()
        return control_id

    def answer(self, control_id: str) -> str:
        state, data = answer(RunReader(self.writer.paths.root).events(), control_id)
        return data.get("reason") or state


@pytest.fixture
def world(root) -> Room:
    return Room(root)


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "run"


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pause_waits_for_the_step_that_is_going_and_lets_no_other_begin(world):
    room, order = world.room, []
    work = asyncio.ensure_future(room.run())
    finish = asyncio.Event()

    async def step(name: str) -> None:
        async with room.step():
            order.append(name)
            await finish.wait()

    first = asyncio.ensure_future(step("first"))
    await settle()
    pause = world.ask("pause")
    await settle()
    assert world.answer(pause) == "accepted" and not room.admitting  # no episode begins from now on
    second = asyncio.ensure_future(step("second"))
    finish.set()
    await first
    await settle()
    assert world.answer(pause) == "done" and order == ["first"]
    assert world.writer.document.state == "paused"
    resume = world.ask("resume")
    await second
    assert world.answer(resume) == "done" and order == ["first", "second"] and room.admitting
    assert (world.writer.document.state, world.writer.document.phase) == ("running", "training")
    work.cancel()


async def test_a_checkpoint_is_made_while_the_run_is_paused_between_two_iterations(world):
    room, saved = world.room, []
    work = asyncio.ensure_future(room.run())

    async def save() -> None:
        saved.append(world.recorder.step)
        room.done("checkpoint")

    world.ask("pause")
    await settle()
    early = world.ask("checkpoint")  # there is no step yet
    assert not room.saves_in_pause and world.answer(world.ask("evaluate")) == "wrong_state"
    world.recorder.step = 4
    resting = asyncio.ensure_future(room.iteration_ended(save))
    await settle()
    assert saved == [4] and world.answer(early) == "done"
    woken = []
    room.on_change(lambda: woken.append(room.saves_in_pause))
    late = world.ask("checkpoint")
    await settle()
    assert saved == [4, 4] and world.answer(late) == "done" and woken == [True]  # who waits elsewhere hears of it
    assert not resting.done() and world.writer.document.state == "paused"
    world.ask("resume")
    await resting
    assert saved == [4, 4]
    work.cancel()


async def test_on_a_full_disk_no_checkpoint_is_asked_for(world):
    world.writer.disk_full = True
    world.room.look()
    assert world.answer(world.ask("checkpoint")) == "wrong_state" and not world.room.saves_in_pause


async def test_a_pause_and_its_end_in_one_look_are_both_done(world):
    root = world.writer.paths.root
    pause = ask(root, "pause", client="test")
    while (resume := ask(root, "resume", client="test")) < pause:  # within a millisecond names have no order
        (root / "control" / f"{resume}.json").unlink()
    world.room.look()
    work = asyncio.ensure_future(world.room.run())
    await settle()
    assert world.answer(pause) == world.answer(resume) == "done" and world.room.admitting
    work.cancel()


async def test_values_change_between_two_steps_or_not_at_all(world):
    room = world.room
    work = asyncio.ensure_future(room.run())
    woken = []
    room.on_change(lambda: woken.append(room.config.training.learning_rate))
    async with room.step():
        asked = world.ask("set", **{"training.learning_rate": 3e-5, "policy.temperature": 0.7})
        await settle()
        assert room.config.training.learning_rate == 1e-5
    await settle()
    assert world.answer(asked) == "done" and room.config.policy.temperature == 0.7 and woken[-1] == 3e-5
    bad = world.ask("set", **{"training.learning_rate": 1e-4, "training.clip_eps_low": 2.0})
    await settle()
    assert world.answer(bad) == "invalid" and room.config.training.learning_rate == 3e-5
    assert room.live == {"training.learning_rate": 3e-5, "policy.temperature": 0.7}
    work.cancel()


async def test_what_cannot_be_done_is_refused_with_its_reason(world):
    assert world.answer(world.ask("set", **{"training.group_size": 2})) == "not_live"
    assert world.answer(world.ask("set")) == "invalid"
    assert world.answer(world.ask("resume")) == "wrong_state"
    assert world.answer(world.ask("evaluate")) == "wrong_state"  # the config has no [evaluation]
    world.room.ending()
    assert world.answer(world.ask("pause")) == "wrong_state"


async def test_nothing_stays_without_an_answer_at_the_end(world):
    checkpoint, stop = world.ask("checkpoint"), world.ask("stop")
    assert world.ends == ["stop"] and world.room.wants("checkpoint") and world.answer(stop) == "accepted"
    late = world.ask("kill"), world.ask("pause")  # not looked at: a signal was quicker
    world.room.close()
    assert world.answer(checkpoint) == "wrong_state" and world.answer(stop) == "done"
    assert [world.answer(request) for request in late] == ["done", "wrong_state"]
    assert not list(world.writer.paths.control.glob("*.json"))


async def test_a_full_disk_pauses_and_the_work_is_done_again_when_there_is_room(world, monkeypatch):
    monkeypatch.setattr(control_room, "LOOK_S", 0.01)
    tries = []

    async def write() -> str:
        tries.append(world.writer.document.phase)
        if len(tries) < 3:
            raise RunError("disk_full", "no room")
        return "written"

    assert await world.room.with_room(write) == "written" and tries == ["training", "paused", "paused"]
    assert world.room.admitting and world.writer.document.phase == "training"
    reasons = [e["data"].get("reason") for e in RunReader(world.writer.paths.root).events() if e["type"] == "rl.phase"]
    assert reasons == ["disk_full", None]

    async def broken() -> None:
        raise RunError("engine_failed", "no")

    with pytest.raises(RunError, match="no"):
        await world.room.with_room(broken)


async def test_stop_ends_a_pause_so_that_the_run_can_end(world):
    work = asyncio.ensure_future(world.room.run())
    world.ask("pause")
    await settle()
    assert not world.room.admitting
    world.room.ending()
    async with world.room.step():
        pass
    work.cancel()


async def test_stop_ends_a_wait_for_room_after_one_last_try(world, monkeypatch):
    monkeypatch.setattr(control_room, "LOOK_S", 3600.0)
    tries, waiting = [], asyncio.Event()

    async def write() -> None:
        tries.append(world.writer.document.phase)
        waiting.set()
        raise RunError("disk_full", "no room")

    saving = asyncio.ensure_future(world.room.with_room(write))
    await waiting.wait()
    await settle()
    assert not saving.done() and not world.room.admitting
    world.room.ending()
    with pytest.raises(NoRoom, match="stopped on a full disk"):
        await saving
    assert tries == ["training", "paused"]
    with pytest.raises(NoRoom):  # nothing waits any more, and what is going may end
        await world.room.wait_for_room(lambda: False)
    world.writer.disk_full = True
    world.room.look()
    async with world.room.step():
        pass


async def test_a_last_try_that_finds_room_is_as_good_as_any(world, monkeypatch):
    monkeypatch.setattr(control_room, "LOOK_S", 3600.0)
    tries = []

    async def write() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise RunError("disk_full", "no room")
        return "written"

    saving = asyncio.ensure_future(world.room.with_room(write))
    await settle()
    world.room.ending()
    assert await saving == "written"
