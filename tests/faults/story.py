"""One run from its start to its end: faults, resumes, and what is found wrong on the way."""

from __future__ import annotations

import logging
import os
import pty
import signal
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from tests.e2e.digit_app import build_config
from tests.e2e.judge_server import ScriptedJudge
from tests.faults.answers import Faulty
from tests.faults.door import Door
from tests.faults.ending import wrong_end
from tests.faults.machine import until
from tests.faults.plan import Injection, Plan
from tests.faults.record import Record
from tests.faults.rest import AtRest
from tests.faults.running import Running
from tests.faults.scene import END_S, ORPHAN_S, START_S, STILL_S, Outcome, Scene
from tests.taskapp.conftest import serving
from trainer.taskapp.server import create_task_app
from trainer.taskapp.server import log as taskapp_log

E = 8  # episodes an iteration, by CONFIG
ENDS = ("kill:", "leave:", "sighup")
GOES_ON = ("kill:viewer", "kill:core", "kill:inference")  # as a rule
ENDLESS = 100_000  # iterations


class Story:
    """Plays a plan in `folder`, which is on a small disk of its own where mounts are allowed."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.iterations = plan, ENDLESS
        self.scene = Scene(plan, folder)
        self._doors: dict[str, Door] = {}
        self._running, self._rest = Running(self.scene, self._doors), AtRest(self.scene)
        self._stack = ExitStack()

    def play(self) -> Outcome:
        started, outcome = monotonic(), self.scene.outcome
        with self._stack:
            try:
                if self.plan.judged:
                    self._serve_judge()
                if self.plan.elsewhere:
                    self._serve_app()
                self._play()
            except Exception as error:  # of ours: told as a loss, or nobody would look
                self.scene.lose(f"the harness failed: {type(error).__name__}: {error}")
            finally:
                self.scene.end_all()
        outcome.seconds = round(monotonic() - started, 1)
        return outcome

    def _play(self) -> None:
        scene = self.scene
        for number, injections in enumerate(self.plan.attempts):
            if number + 1 == len(self.plan.attempts):
                self.iterations = scene.seen.status().get("iteration", 0) + self.plan.more
            self._attempt(injections, by_terminal=number == 0 and self.plan.by_terminal)
            for rest in self.plan.rest[number : number + 1]:
                for injection in rest:
                    self._rest.damage(injection)
        for _ in range(3):
            if self._done():
                break
            self._attempt([])
        self._check_record()

    # --- attempts -------------------------------------------------------------------------------------------

    def _attempt(self, injections: list[Injection], *, by_terminal: bool = False) -> None:
        scene = self.scene
        scene.met, scene.asked_to_end = [], False
        for asks in scene.asks.values():
            for left in asks.glob("ask-*"):  # the attempt before ended by another answer
                left.unlink()
        newest, resumes = scene.seen.newest() if scene.from_step is None else scene.from_step, len(scene.seen.resumes())
        options, scene.from_step = self._resuming(), None
        began = monotonic()
        terminal = self._start_on_terminal() if by_terminal else self._start(options)
        try:
            for injection in injections:
                if not self._running.reach(injection):
                    break
                self._running.inject(injection, terminal)
                if not scene.alive():
                    break
            self._await_end()
        finally:
            if terminal >= 0:
                with suppress(OSError):
                    os.close(terminal)
        scene.seconds += monotonic() - began
        self._check_end()
        self._check_from(newest, resumes)
        self._check_left_over()

    def _resuming(self) -> list[str]:
        if not (self.scene.run_dir / "status.json").is_file():
            return []
        step = self.scene.from_step
        return ["--resume", "--or-anew"] if step is None else ["--resume", "--from", str(step)]

    def _words(self) -> list[str]:
        """Options of the run's settings."""
        return [
            word
            for item in (*self.scene.sets, f"training.iterations_per_epoch={self.iterations}")
            for word in ("--set", item)
        ]

    def _start(self, resuming: list[str]) -> int:
        scene = self.scene
        scene.outcome.attempts += 1
        config = scene.run_dir / "config.toml" if resuming else scene.config
        words = scene.argv(str(config), "--run-dir", str(scene.run_dir), *resuming, *self._words())
        with self._log("wb") as log:
            scene.process = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=scene.env,
                cwd=scene.folder,
            )  # fmt: skip
        scene.pid = scene.process.pid
        return -1

    def _start_on_terminal(self) -> int:
        """Gives the other end of the terminal on which `rltui train` follows the run."""
        scene = self.scene
        scene.outcome.attempts += 1
        options = ("train", str(scene.config), "--run-dir", str(scene.run_dir))
        words = scene.argv(*options, *self._words(), program=("-m", "rltui"))
        scene.viewer, terminal = pty.fork()
        if scene.viewer == 0:
            os.chdir(scene.folder)
            os.execve(words[0], words, scene.env)
        scene.process, scene.pid = None, 0
        until(lambda: scene.pid_of("coordinator"), START_S)
        scene.pid = scene.pid_of("coordinator") or 0
        return terminal

    def _log(self, mode: str) -> Any:
        return (self.scene.folder / f"attempt-{self.scene.outcome.attempts}.log").open(mode)

    def _done(self) -> bool:
        status = self.scene.seen.status()
        return status.get("state") == "succeeded" and status["iteration"] >= self.iterations

    def _await_end(self) -> None:
        """However long it takes, as long as something moves."""
        scene = self.scene
        seen: list[Any] = [None]

        def moved() -> bool:
            sizes = [scene.seen.size(f"{name}.jsonl") for name in ("events", "rollouts/index", "rollouts/groups")]
            now = (scene.seen.status().get("step"), *sizes)
            before, seen[0] = seen[0], now
            return now != before or not scene.alive()

        while scene.alive():
            last = scene.met[-1] if scene.met else ""
            hard = scene.asked_to_end or (last not in GOES_ON and last.startswith(ENDS))
            if hard and not until(lambda: not scene.alive(), END_S):
                scene.hang(f"it did not end within {END_S:.0f} s of {last}")
                return
            if not until(moved, STILL_S, every_s=0.2):
                scene.hang(f"nothing moved for {STILL_S:.0f} s")
                return

    # --- what is found --------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        """How the attempt ended, and what it left running."""
        scene = self.scene
        if not until(lambda: not scene.processes(), ORPHAN_S, every_s=0.1):
            for pid, words in scene.processes().items():
                scene.outcome.orphans.append(f"attempt {scene.outcome.attempts}: {pid} {' '.join(words)}"[:300])
            scene.end_all()
        code = scene.process.returncode if scene.process is not None else None
        said = self._log("r").read() if scene.process is not None else ""
        status = scene.seen.status()
        hung_up_early = "sighup" in scene.met and code == -signal.SIGHUP and status.get("pid") != scene.pid
        if any(kind.startswith(("kill:coordinator", "leave:")) for kind in scene.met) or hung_up_early:
            if code not in (None, -signal.SIGKILL, -signal.SIGHUP):
                scene.lose(f"the killed coordinator ended with {code}")
        elif status.get("pid") != scene.pid:
            scene.lose(f"it never began: {said[-800:]}")
        else:
            for problem in wrong_end(scene.met, code, status, said, asked=scene.asked_to_end):
                scene.lose(problem)
            if (scene.run_dir / "lock").exists() and "readonly:run" not in scene.met:
                scene.lose("the lock is still there")

    def _check_from(self, newest: int, before: int) -> None:
        """It went on from the newest checkpoint that there was."""
        resumes = self.scene.seen.resumes()
        if len(resumes) > before and resumes[-1] != newest:
            self.scene.lose(f"it went on from step {resumes[-1]}, the newest checkpoint was of {newest}")

    def _check_left_over(self) -> None:
        """A request that was asked of the attempt before is refused, once this one looks at requests at all."""
        answers = self.scene.seen.answers()
        for control_id in self.scene.left_over:
            if (answer := answers.get(control_id)) not in (None, ("refused", "expired")):
                self.scene.lose(f"a request of before this attempt was answered with {answer}")

    def _check_record(self) -> None:
        scene = self.scene
        record = Record(scene.run_dir, scene.damaged)
        for problem in record.check(
            iterations=self.iterations, episodes=E, updates=self.plan.updates, lived_s=scene.seconds
        ):
            scene.lose(problem)
        for control_id in set(scene.left_over) - set(scene.seen.answers()):
            scene.lose(f"the request {control_id} of before the last attempt was never answered")

    # --- servers of ours ------------------------------------------------------------------------------------

    def _serve_judge(self) -> None:
        judge, asks = ScriptedJudge(), self.scene.asks["judge"]
        self._stack.enter_context(judge.serving(lambda app: Faulty(app, asks, "/chat/completions")))
        door = self._doors["judge"] = Door(judge.url.removesuffix("/v1"))
        self._stack.callback(door.shut)
        judge.url = f"{door.url}/v1"
        self.scene.sets += [*judge.sets, "judge.timeout_s=3"]

    def _serve_app(self) -> None:
        taskapp_log.setLevel(logging.CRITICAL)  # its failures are ours, and many
        app = create_task_app(replace(build_config(), require_api_key=False))
        faulty = Faulty(app, self.scene.asks["app"], "/rollout")
        door = self._doors["app"] = Door(self._stack.enter_context(serving(faulty)))
        self._stack.callback(door.shut)
        self.scene.sets.append(f"services.task_url={door.url}")
