"""A checkpoint of the coordinator: what state.json holds, room for it, and how a full disk is met."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.config.texts import SMALL
from trainer import control_room, saving
from trainer.config import load_text
from trainer.control_room import ControlRoom
from trainer.learner.client import LearnerError
from trainer.learner.protocol import LearnerInfo
from trainer.recorder import Recorder
from trainer.resume import another_world, read_restored, take_up
from trainer.rundir import RunReader, answer, ask, list_checkpoints
from trainer.rundir.attempts import Earlier
from trainer.rundir.checkpoints import Checkpoint, finish_checkpoint, verify_checkpoint
from trainer.rundir.jsonl import encode
from trainer.rundir.patient import PatientWriter
from trainer.rundir.resumable import NotResumable
from trainer.saving import CheckpointSaver, Need, _to_its_end, estimate

LOADED = load_text(SMALL, "run.toml", environ={}, device="cpu")
EVALUATED = """
[evaluation]
instances = 1
every_n_iters = 3
seeds = [7]
"""


class Learner:
    """Writes what a learner would; the first `failures` times its disk is full."""

    ranks = 2

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures

    async def checkpoint(self, path: Path, state: dict) -> None:
        if self.failures:
            self.failures -= 1
            raise LearnerError("no space left", "", "", "disk_full")
        (path / "state.json").write_bytes(encode(state))
        (path / "adapter_model.safetensors").write_bytes(b"weights")
        (path / "optimizer").mkdir()
        (path / "optimizer" / "rank_0.safetensors").write_bytes(b"moments")


class World:
    def __init__(self, root: Path, failures: int = 0, need: Need | None = None) -> None:
        self.writer = PatientWriter(root, job_id="rl_0", label="x")
        self.recorder = Recorder(self.writer, LOADED.derived, LOADED.config)
        self.room = ControlRoom(LOADED, self.recorder, self.writer, lambda _: LOADED, lambda *_: None)
        self.recorder.status(state="running", phase="training")
        model = {"name": "m", "revision": None, "sha256": "0"}
        need = need or Need(1, 1)
        self.saver = CheckpointSaver(self.recorder, self.writer, self.room, Learner(failures), model, need)

    async def save(self, step: int, reward: float, evaluated: float | None = None) -> None:
        self.recorder.step = self.recorder.iteration = step
        await self.saver.save(
            iteration=step,
            reward={"train": reward, "eval": evaluated},
            cursor={"seed": 10 * step, "group": step, "wraps": 0, "again": [[3, 7]]},
            evaluations={0: 0.25, step: 0.5},
            last_reward=reward,
            canary={"noise": 0.1},
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "run"


def earlier(world: World) -> Earlier:
    nothing = {"config_text": "", "config_name": "", "cwd": None, "allow_unknown": False, "values": {}, "resumes": []}
    return Earlier(paths=world.writer.paths, attempt=1, job_id="rl_0", label="x", state="failed", **nothing)


async def test_what_is_saved_is_taken_up_again(root: Path) -> None:
    world = World(root)
    recorder = world.recorder
    recorder.accepted, recorder.excluded, recorder.sampled_tokens = 32, {"http_error": 2}, 99
    recorder.weight_version, recorder.weight_updates = 7, 3
    world.room.live["training.learning_rate"] = 3e-5
    await world.save(4, 0.5)
    restored = read_restored(list_checkpoints(world.writer.paths.checkpoints)[-1], earlier(world))
    assert (restored.attempt, restored.from_attempt, restored.step, restored.iteration) == (2, 1, 4, 4)
    assert (restored.weight_version, restored.weight_updates) == (8, 4)  # step 4 had not been synced
    assert restored.cursor == {"seed": 40, "group": 4, "wraps": 0, "again": [[3, 7]]}
    assert restored.evaluations == {0: 0.25, 4: 0.5} and restored.live == {"training.learning_rate": 3e-5}
    assert (restored.last_reward, restored.canary, restored.best["step"]) == (0.5, {"noise": 0.1}, 4)

    assert another_world(restored.checkpoint, 2) is None
    assert "2 rank(s), and 1 go on" in (another_world(restored.checkpoint, 1) or "")

    world.recorder = Recorder(world.writer, LOADED.derived, LOADED.config)
    take_up(world.recorder, restored, {"training.num_epochs": 2})
    taken = world.recorder
    assert (taken.step, taken.accepted, taken.excluded, taken.sampled_tokens) == (4, 32, {"http_error": 2}, 99)
    (event,) = [e for e in RunReader(root).events() if e["type"] == "rl.resumed"]
    assert event["data"] == {
        "attempt": 2,
        "from_step": 4,
        "from_iteration": 4,
        "overrides": {"training.num_epochs": 2},
    }


async def test_a_state_that_lacks_something_is_named(root: Path) -> None:
    world = World(root)
    await world.save(2, 0.5)
    checkpoint = list_checkpoints(world.writer.paths.checkpoints)[-1]
    state = json.loads((checkpoint.path / "state.json").read_text())
    del state["cursor"]
    (checkpoint.path / "state.json").write_text(json.dumps(state))
    with pytest.raises(NotResumable, match="cursor"):
        read_restored(checkpoint, earlier(world))


async def test_best_and_newest_stay_and_no_step_is_saved_twice(root: Path) -> None:
    world = World(root)
    for step, reward in ((1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, 0.4), (6, 0.5)):
        await world.save(step, reward)
        await world.save(step, reward)
    assert [c["step"] for c in world.saver.checkpoints] == [2, 4, 5, 6]
    assert world.saver.best["step"] == 2
    saved = [e for e in RunReader(root).events() if e["type"] == "rl.checkpoint.saved"]
    assert [e["data"]["is_best"] for e in saved] == [True, True, False, False, False, False]


async def test_a_checkpoint_whose_step_is_evaluated_later_takes_up_the_reward(root: Path) -> None:
    """A run is stopped in its last evaluation; the resume makes up for that."""
    world = World(root)
    world.room._loaded = load_text(SMALL + EVALUATED, "run.toml", environ={}, device="cpu")
    await world.save(3, 0.5)
    folder = world.writer.paths.checkpoints
    assert world.saver.best is None and not (folder / "best.json").exists()

    restored = read_restored(list_checkpoints(folder)[-1], earlier(world))
    need, learner = Need(1, 1), Learner()
    world.saver = CheckpointSaver(world.recorder, world.writer, world.room, learner, {}, need, restored=restored)
    await world.save(3, 0.5, 0.898)
    [checkpoint] = list_checkpoints(folder)
    assert verify_checkpoint(checkpoint.path) == []
    assert (checkpoint.reward, checkpoint.is_best, checkpoint.resumable) == (0.898, True, True)
    assert json.loads((folder / "best.json").read_text()) == {"step": 3, "reward": 0.898, "path": "step_3"}
    document = world.writer.document
    assert document.best.reward == document.last_checkpoint.reward == 0.898 and document.best.step == 3
    again = read_restored(checkpoint, earlier(world))
    assert again.best == world.saver.best and again.step == 3


async def test_a_checkpoint_that_was_asked_for_stays(root: Path) -> None:
    world = World(root)

    def asks() -> str:
        control_id = ask(root, "checkpoint", {}, client="test")
        world.room.look()
        return control_id

    first = asks()
    for step in range(1, 7):
        await world.save(step, 1.0 - 0.1 * step)
    second = asks()  # of a step that has been saved
    await world.save(6, 0.4)
    for step in range(7, 11):
        await world.save(step, 0.0)
    assert [(c.step, c.asked) for c in list_checkpoints(world.writer.paths.checkpoints)] == [
        (1, True),
        (6, True),
        (8, False),
        (9, False),
        (10, False),
    ]
    answers = [answer(RunReader(root).events(), one) for one in (first, second)]
    assert [(state, data["path"]) for state, data in answers] == [
        ("done", "checkpoints/step_1"),
        ("done", "checkpoints/step_6"),
    ]


async def test_what_fails_while_a_run_is_killed_is_nobodys_to_read() -> None:
    begun, go_on, told = threading.Event(), threading.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))

    def fails() -> None:
        begun.set()
        go_on.wait()
        raise OSError("no space left")

    leaving = asyncio.ensure_future(_to_its_end(fails))
    await asyncio.to_thread(begun.wait)
    leaving.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([leaving])
    assert leaving.cancelled()
    del leaving
    gc.collect()
    assert told == []


async def test_a_run_that_ends_while_a_checkpoint_is_finished_leaves_it_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Checkpoint:
        begun.set()
        go_on.wait()
        return finish_checkpoint(*args)

    monkeypatch.setattr(saving, "finish_checkpoint", slowly)
    world = World(root)
    saved = asyncio.ensure_future(world.save(2, 0.5))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        saved.cancel()
        await asyncio.sleep(0.01)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await saved
    assert verify_checkpoint(world.writer.paths.checkpoints / "step_2") == []


async def test_a_full_disk_is_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_room, "LOOK_S", 0.01)
    world = World(root, failures=2)
    await world.save(2, 0.5)
    assert [c.step for c in list_checkpoints(world.writer.paths.checkpoints)] == [2]
    assert not list(world.writer.paths.checkpoints.glob(".step*")) and world.room.admitting


async def test_a_checkpoint_that_cannot_fit_is_not_begun(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_room, "LOOK_S", 0.01)
    free = iter([10, 10, 10, 10, 10, 10, 1000, 1000])
    world = World(root, need=Need(100, 200))
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free, 1000)))
    world.saver.warn_of_room()
    await world.save(2, 0.5)
    warned = {entry.code for entry in world.writer.document.warnings}
    assert warned == {"disk_short"} and [c.step for c in list_checkpoints(world.writer.paths.checkpoints)] == [2]
    reasons = [e["data"].get("reason") for e in RunReader(root).events() if e["type"] == "rl.phase"]
    assert reasons.count("disk_full") == 1


def test_the_estimate_counts_weights_and_two_moments() -> None:
    info = LearnerInfo(parameters=1000, trainable=10, device="cpu", dtype="float32")
    assert estimate(info, LOADED.config) == Need(40, 80)
    full = load_text(SMALL, "r", sets=["policy.trainer_mode=full", "training.dtype=float32"], environ={}, device="cpu")
    everything = LearnerInfo(parameters=1000, trainable=1000, device="cpu", dtype="float32")
    assert estimate(everything, full.config) == Need(4000, 12000)
