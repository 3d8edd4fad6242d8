"""One run from its start to its end: faults, resumes, and what is found wrong on the way."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from tests.e2e.conftest import CONFIG
from tests.e2e.judge_server import ScriptedJudge
from tests.faults.answers import Faulty
from tests.faults.damage import damage_line, damaged, file_of
from tests.faults.ending import wrong_end
from tests.faults.machine import MARK, SHM, VLLM, WORDS, filled, has_words, marked, read_only, runs, until
from tests.faults.plan import COMMON, Injection, Plan
from tests.faults.record import Record
from tests.faults.seen import Seen

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
E = 8  # episodes an iteration, by CONFIG
START_S, END_S, STILL_S, ORPHAN_S = 400.0, 90.0, 150.0, 20.0  # on a busy machine
ENDS = ("kill:", "leave:", "sighup")
ENDLESS = 100_000  # iterations


@dataclass
class Outcome:
    seed: int
    injections: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    attempts: int = 0
    seconds: float = 0.0


class Story:
    """Plays a plan in `folder`, which is on a small disk of its own where mounts are allowed."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder, self.run_dir = plan, folder, folder / "run"
        self._seen = Seen(self.run_dir)
        self.outcome = Outcome(plan.seed)
        self.iterations = ENDLESS
        self._mark = f"{plan.seed}-{os.getpid()}"
        self._asks = {name: folder / f"ask_{name}" for name in ("app", "judge")}
        for asks in self._asks.values():
            asks.mkdir()
        (folder / "run.toml").write_text(CONFIG.replace(str(ROOT / "tests/e2e/digit_app.py"), str(HERE / "app.py")))
        self._env = {
            **os.environ,
            MARK: self._mark,
            "PYTHONPATH": f"{HERE / 'clock'}{os.pathsep}{ROOT}",
            "RLTUI_FAULTS_APP": str(self._asks["app"]),
            "RLTUI_FAULTS_CLOCK": str(folder / "clock"),
        }
        self._sets = [*COMMON, *plan.sets]
        self._made = 0  # faulty answers asked for
        self.damaged: set[tuple[str, int]] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = self._viewer = 0
        self._words = WORDS | VLLM if plan.on_vllm else WORDS
        self._met: list[str] = []  # kinds injected in this attempt
        self._stack = ExitStack()

    def play(self) -> Outcome:
        started = monotonic()
        with self._stack:
            try:
                if self.plan.judged:
                    self._serve_judge()
                self._play()
            except Exception as error:  # of ours: told as a loss, or nobody would look
                self._lose(f"the harness failed: {type(error).__name__}: {error}")
            finally:
                self._end_all()
        self.outcome.seconds = round(monotonic() - started, 1)
        return self.outcome

    def _play(self) -> None:
        for number, injections in enumerate(self.plan.attempts):
            if number + 1 == len(self.plan.attempts):
                self.iterations = self._seen.status().get("iteration", 0) + self.plan.more
            self._attempt(injections, by_terminal=number == 0 and self.plan.by_terminal)
            for rest in self.plan.rest[number : number + 1]:
                for injection in rest:
                    self._damage(injection)
        for _ in range(3):
            if self._done():
                break
            self._attempt([])
        self._check_record()

    # --- attempts -------------------------------------------------------------------------------------------

    def _attempt(self, injections: list[Injection], *, by_terminal: bool = False) -> None:
        self._met = []
        for asks in self._asks.values():
            for left in asks.glob("ask-*"):  # the attempt before ended by another answer
                left.unlink()
        newest, resumes = self._seen.newest(), len(self._seen.resumes())
        terminal = self._start_on_terminal() if by_terminal else self._start()
        try:
            for injection in injections:
                if not self._reach(injection):
                    break
                self._inject(injection, terminal)
                if not self._alive():
                    break
            self._await_end()
        finally:
            if terminal >= 0:
                with suppress(OSError):
                    os.close(terminal)
        self._check_end()
        self._check_from(newest, resumes)

    def _argv(self, *options: str, program: tuple[str, ...] = ("-m", "trainer", "run")) -> list[str]:
        return [sys.executable, *program, *options]

    def _start(self) -> int:
        self.outcome.attempts += 1
        begun = (self.run_dir / "status.json").is_file()
        config = self.run_dir / "config.toml" if begun else self.folder / "run.toml"
        words = self._argv(str(config), "--run-dir", str(self.run_dir))
        words += ["--resume", "--or-anew"] if begun else []
        for item in [*self._sets, f"training.iterations_per_epoch={self.iterations}"]:
            words += ["--set", item]
        with self._log("wb") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=self._env,
                cwd=self.folder,
            )  # fmt: skip
        self._pid = self._process.pid
        return -1

    def _start_on_terminal(self) -> int:
        """Gives the other end of the terminal on which `rltui train` follows the run."""
        self.outcome.attempts += 1
        words = self._argv(
            "train", str(self.folder / "run.toml"), "--run-dir", str(self.run_dir), program=("-m", "rltui")
        )
        for item in [*self._sets, f"training.iterations_per_epoch={self.iterations}"]:
            words += ["--set", item]
        self._viewer, terminal = pty.fork()
        if self._viewer == 0:
            os.chdir(self.folder)
            os.execve(words[0], words, self._env)
        self._process, self._pid = None, 0
        until(lambda: self._pid_of("coordinator"), START_S)
        self._pid = self._pid_of("coordinator") or 0
        return terminal

    def _log(self, mode: str) -> Any:
        return (self.folder / f"attempt-{self.outcome.attempts}.log").open(mode)

    def _alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return runs(self._pid)  # a child of the viewer's

    def _done(self) -> bool:
        status = self._seen.status()
        return status.get("state") == "succeeded" and status["iteration"] >= self.iterations

    def _reach(self, injection: Injection) -> bool:
        """Waits for the moment of a fault. False: the attempt ended before it."""
        ready: dict[str, Callable[[], object]] = {
            "lock": lambda: self._seen.holds_lock(self._pid),
            "starting": lambda: self._seen.holds_lock(self._pid),
            "training": lambda: self._seen.trains(self._pid),
            "checkpoint": lambda: self._seen.trains(self._pid) and any(self.run_dir.glob("checkpoints/.step_*.tmp")),
        }
        there = ready[injection.moment]
        if not until(lambda: there() or not self._alive(), START_S, every_s=0.002):
            self._hang(f"{injection.moment} was not reached")
            return False
        return not until(lambda: not self._alive(), injection.after_s) and self._alive()

    def _await_end(self) -> None:
        """However long it takes, as long as something moves."""
        seen: list[Any] = [None]

        def moved() -> bool:
            sizes = [self._seen.size(f"{name}.jsonl") for name in ("events", "rollouts/index", "rollouts/groups")]
            now = (self._seen.status().get("step"), *sizes)
            before, seen[0] = seen[0], now
            return now != before or not self._alive()

        while self._alive():
            soft = ("kill:viewer", "kill:core")
            hard = bool(self._met) and self._met[-1] not in soft and self._met[-1].startswith(ENDS)
            if hard and not until(lambda: not self._alive(), END_S):
                self._hang(f"it did not end within {END_S:.0f} s of {self._met[-1]}")
                return
            if not until(moved, STILL_S, every_s=0.2):
                self._hang(f"nothing moved for {STILL_S:.0f} s")
                return

    def _check_end(self) -> None:
        """How the attempt ended, and what it left running."""
        if not until(lambda: not self._processes(), ORPHAN_S, every_s=0.1):
            for pid, words in self._processes().items():
                self.outcome.orphans.append(f"attempt {self.outcome.attempts}: {pid} {' '.join(words)}"[:300])
            self._end_all()
        code = self._process.returncode if self._process is not None else None
        said = self._log("r").read() if self._process is not None else ""
        if "Traceback" in said:
            self._lose(f"a traceback reached the user: {said[-1500:]}")
        status = self._seen.status()
        hung_up_early = "sighup" in self._met and code == -signal.SIGHUP and status.get("pid") != self._pid
        if any(kind.startswith(("kill:coordinator", "leave:")) for kind in self._met) or hung_up_early:
            if code not in (None, -signal.SIGKILL, -signal.SIGHUP):
                self._lose(f"the killed coordinator ended with {code}")
        elif status.get("pid") != self._pid:
            self._lose(f"it never began: {said[-800:]}")
        else:
            for problem in wrong_end(self._met, code, status, said):
                self._lose(problem)
            if (self.run_dir / "lock").exists() and "readonly:run" not in self._met:
                self._lose("the lock is still there")

    def _check_from(self, newest: int, before: int) -> None:
        """It went on from the newest checkpoint that there was."""
        resumes = self._seen.resumes()
        if len(resumes) > before and resumes[-1] != newest:
            self._lose(f"it went on from step {resumes[-1]}, the newest checkpoint was of {newest}")

    # --- faults while it runs -------------------------------------------------------------------------------

    def _inject(self, injection: Injection, terminal: int) -> None:
        what, _, which = injection.kind.partition(":")
        step = int(self._seen.status().get("step") or 0)
        with suppress(ProcessLookupError):
            if what in ("kill", "leave") and which != "viewer":
                until(lambda: self._pid_of(which) or not self._alive(), START_S)  # not started yet
                pid = self._pid_of(which)
                if pid is None:
                    return
                self._note(injection)
                os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
                if what == "leave":
                    os.kill(self._pid, signal.SIGKILL)
                if which != "core":
                    return
            if what == "sighup":
                self._note(injection)
                os.kill(self._pid, signal.SIGHUP)
                return
        if what == "hangup":
            self._note(injection)
            os.close(terminal)
        elif which == "core":
            pass  # vLLM is started again
        elif which == "viewer":
            self._note(injection)
            os.kill(self._viewer, signal.SIGKILL)
            os.waitpid(self._viewer, 0)
        else:
            with self._present(injection, what, which) as made:
                if not made:
                    return
                self._note(injection)
                until(lambda: not self._alive(), injection.hold_s if what not in ("app", "judge", "second") else 0.0)
        limit_s = START_S if which == "core" else STILL_S
        if not until(lambda: int(self._seen.status().get("step") or 0) > step or not self._alive(), limit_s):
            self._hang(f"no step within {limit_s:.0f} s of {injection.kind}")

    @contextmanager
    def _present(self, injection: Injection, what: str, which: str) -> Iterator[bool]:
        """The fault, for as long as the block lasts; false where it could not be made."""
        if what in ("app", "judge"):
            yield self._spoil(what, which, 1 + int(injection.draw * 3))
        elif what == "stop":
            pid = self._pid_of(which)
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
            (self.folder / "clock").write_text(which)
            yield True  # it stays so
        elif what == "second":
            yield self._second(which)
        elif what == "readonly":
            with read_only(self.run_dir if which == "run" else self.run_dir / which):
                yield True
        else:
            with filled(SHM if what == "shm_full" else self.folder):
                yield True

    def _spoil(self, who: str, kind: str, count: int) -> bool:
        """True once a request met it."""
        asked = []
        for _ in range(count):
            self._made += 1
            asked.append(self._asks[who] / f"ask-{self._made:04d}-{kind}")
            asked[-1].touch()
        until(lambda: not all(ask.exists() for ask in asked) or not self._alive(), STILL_S)
        return not all(ask.exists() for ask in asked)

    def _second(self, which: str) -> bool:
        words = self._argv(str(self.folder / "run.toml"), "--run-dir", str(self.run_dir))
        done = subprocess.run(
            [*words, *(["--resume"] if which == "resume" else [])],
            capture_output=True, text=True, env={**self._env, MARK: "second"}, cwd=self.folder, timeout=END_S,
        )  # fmt: skip
        if not self._alive():
            return False  # the first one may have ended before
        if done.returncode != 2 or str(self._pid) not in done.stderr:
            self._lose(f"a second run on the folder ended with {done.returncode}: {done.stderr[-500:]}")
        return True

    # --- faults at rest -------------------------------------------------------------------------------------

    def _damage(self, injection: Injection) -> None:
        what, _, which = injection.kind.partition(":")
        if what in ("corrupt", "cut"):
            self._corrupt(injection, which, cut=what == "cut")
            return
        place = damage_line(self.run_dir, f"{which}.jsonl", injection.draw, torn=what == "torn")
        if place is None:
            return
        if what == "garbage":
            self.damaged.add(place)
        self.outcome.injections.append(injection.kind)

    def _corrupt(self, injection: Injection, which: str, *, cut: bool) -> None:
        """A resume refuses it, names it and changes nothing; once it is whole again the run can go on."""
        newest = self._seen.newest()
        folder = self.run_dir / f"checkpoints/step_{newest}"
        if not newest or self._seen.status().get("state") == "succeeded":
            return
        path = file_of(folder, which)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, injection.draw, cut=cut))
        before = self._seen.size("events.jsonl")
        words = self._argv(str(self.run_dir / "config.toml"), "--run-dir", str(self.run_dir), "--resume")
        done = subprocess.run(words, capture_output=True, text=True, env=self._env, cwd=self.folder, timeout=END_S)
        if done.returncode != 2 or path.name not in done.stderr or "Traceback" in done.stderr:
            self._lose(f"a damaged {path.name} was met with {done.returncode}: {done.stderr[-500:]}")
        if self._seen.size("events.jsonl") > before:
            self._lose("a refused resume wrote into the record")
        path.write_bytes(whole)
        self.outcome.injections.append(injection.kind)

    # --- what is seen ---------------------------------------------------------------------------------------

    def _processes(self) -> dict[int, list[str]]:
        return marked(self._mark, self._pid)

    def _pid_of(self, role: str) -> int | None:
        found = (pid for pid, words in self._processes().items() if has_words(words, self._words[role]))
        return min(found, default=None)

    def _check_record(self) -> None:
        record = Record(self.run_dir, self.damaged)
        for problem in record.check(iterations=self.iterations, episodes=E, updates=self.plan.updates):
            self._lose(problem)

    def _note(self, injection: Injection) -> None:
        self._met.append(injection.kind)
        self.outcome.injections.append(injection.kind)

    def _lose(self, what: str) -> None:
        self.outcome.losses.append(f"attempt {self.outcome.attempts} after {self._met}: {what}")

    def _hang(self, what: str) -> None:
        status = self._seen.status()
        told = {name: status.get(name) for name in ("state", "phase", "step", "waiting", "paused", "pipeline")}
        self.outcome.hangs.append(f"attempt {self.outcome.attempts} after {self._met}: {what}: {told}")
        self._end_all()

    def _end_all(self) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def _serve_judge(self) -> None:
        judge = ScriptedJudge()
        self._stack.enter_context(judge.serving(lambda app: Faulty(app, self._asks["judge"], "/chat/completions")))
        self._sets += [*judge.sets, "judge.timeout_s=3"]
