"""Faults while a run goes: each at its moment, for as long as it lasts, and what the run makes of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.faults.door import Door
from tests.faults.machine import MARK, SHM, filled, read_only, until
from tests.faults.plan import Injection
from tests.faults.scene import END_S, START_S, STILL_S, Scene

SERVED = ("app", "judge")


class Running:
    """`doors`: of the servers that are ours, by who is behind them."""

    def __init__(self, scene: Scene, doors: dict[str, Door]) -> None:
        self._scene, self._doors = scene, doors
        self._made = 0  # faulty answers asked for

    def reach(self, injection: Injection) -> bool:
        """Waits for the moment of a fault. False: the attempt ended before it."""
        scene, seen, run = self._scene, self._scene.seen, self._scene.run_dir

        def trains() -> bool:
            return seen.trains(scene.pid)

        ready: dict[str, Callable[[], object]] = {
            "lock": lambda: seen.holds_lock(scene.pid),
            "starting": lambda: seen.holds_lock(scene.pid),
            "training": trains,
            "evaluation": lambda: trains() and seen.evaluates(),
            "checkpoint": lambda: trains() and any(run.glob("checkpoints/.step_*.tmp")),
            "sync": lambda: trains() and seen.status()["pipeline"]["sync"] != "idle",
            "ending": lambda: seen.status()["state"] == "stopping",
        }
        there = ready[injection.moment]
        if injection.moment == "ending":
            if not until(lambda: trains() or not scene.alive(), START_S) or not scene.alive():
                return False
            scene.asked_to_end = True
            with suppress(ProcessLookupError):
                os.kill(scene.pid, signal.SIGTERM)
        if not until(lambda: there() or not scene.alive(), START_S, every_s=0.002):
            scene.hang(f"{injection.moment} was not reached")
            return False
        return not until(lambda: not scene.alive(), injection.after_s) and scene.alive()

    def inject(self, injection: Injection, terminal: int) -> None:
        scene = self._scene
        what, _, which = injection.kind.partition(":")
        step = int(scene.seen.status().get("step") or 0)
        if injection.kind == "kill:viewer":
            scene.note(injection)
            os.kill(scene.viewer, signal.SIGKILL)
            os.waitpid(scene.viewer, 0)
        elif what in ("kill", "leave"):
            if not self._kill(injection, what, which) or which not in ("inference", "core") or what == "leave":
                return
        elif what == "sighup":
            scene.note(injection)
            with suppress(ProcessLookupError):
                os.kill(scene.pid, signal.SIGHUP)
            return
        elif what == "hangup":
            scene.note(injection)
            os.close(terminal)
        else:
            with self._present(injection, what, which) as made:
                if not made:
                    return
                scene.note(injection)
                at_once = (what in SERVED and which != "gone") or what in ("second", "clock", "steer")
                until(lambda: not scene.alive(), 0.0 if at_once else injection.hold_s)
            if what == "clock":
                self._pause_and_resume()
        limit_s = START_S if which in ("core", "inference") else STILL_S
        if not until(lambda: int(scene.seen.status().get("step") or 0) > step or not scene.alive(), limit_s):
            scene.hang(f"no step within {limit_s:.0f} s of {injection.kind}")

    def _kill(self, injection: Injection, what: str, which: str) -> bool:
        """False: there was no such process."""
        scene = self._scene
        until(lambda: scene.pid_of(which) or not scene.alive(), START_S)  # not started yet
        pid = scene.pid_of(which)
        if pid is None:
            return False
        scene.note(injection)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what == "leave":
                os.kill(scene.pid, signal.SIGKILL)
        return True

    @contextmanager
    def _present(self, injection: Injection, what: str, which: str) -> Iterator[bool]:
        """The fault, for as long as the block lasts; false where it could not be made."""
        scene = self._scene
        if which == "gone":
            with self._doors[what].away():
                yield True
        elif what in SERVED:
            yield self._spoil(what, which, 1 + int(injection.draw * 3))
        elif what == "stop":
            pid = scene.pid_of(which)
            if pid is None:
                yield False
                return
            os.kill(pid, signal.SIGSTOP)
            try:
                yield True
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        elif what == "clock":
            (scene.folder / "clock").write_text(which)
            yield True  # it stays so
        elif what == "steer":
            yield self._steer("checkpoint") if which == "checkpoint" else self._pause_and_resume()
        elif what == "second":
            yield self._second(which)
        elif what == "readonly":
            with read_only(scene.run_dir if which == "run" else scene.run_dir / which):
                yield True
        else:
            with filled(SHM if what == "shm_full" else scene.folder):
                yield True

    def _spoil(self, who: str, kind: str, count: int) -> bool:
        """True once a request met it."""
        asked = []
        for _ in range(count):
            self._made += 1
            asked.append(self._scene.asks[who] / f"ask-{self._made:04d}-{kind}")
            asked[-1].touch()
        until(lambda: not all(ask.exists() for ask in asked) or not self._scene.alive(), STILL_S)
        return not all(ask.exists() for ask in asked)

    # --- what is asked of it --------------------------------------------------------------------------------

    def _pause_and_resume(self) -> bool:
        if not self._steer("pause"):
            return False
        if (now := self._scene.seen.status())["paused"] is None and self._scene.alive():
            self._scene.lose(f"a pause is done, and its state is {now['state']}")
        return self._steer("resume")

    def _steer(self, verb: str) -> bool:
        """By a viewer whose clock is right, whatever that of the run says. False: the run has ended meanwhile."""
        scene = self._scene
        words = ["steer", str(scene.run_dir), verb, "--timeout", f"{END_S / 2:.0f}", "--json"]
        done = scene.call(scene.argv(*words, program=("-m", "rltui")), RLTUI_FAULTS_CLOCK="", **{MARK: "viewer"})
        if done.returncode and scene.alive():
            scene.lose(f"{verb} was answered with {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
        return scene.alive()

    def _second(self, which: str) -> bool:
        scene = self._scene
        words = scene.argv(str(scene.config), "--run-dir", str(scene.run_dir))
        done = scene.call([*words, *(["--resume"] if which == "resume" else [])], **{MARK: "second"})
        if not scene.alive():
            return False  # the first one may have ended before
        if done.returncode != 2 or str(scene.pid) not in done.stderr:
            scene.lose(f"a second run on the folder ended with {done.returncode}: {done.stderr[-500:]}")
        return True
