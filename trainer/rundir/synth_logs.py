"""Logs of a synthetic run: our own lines, and children that draw progress bars as real ones do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainer.rundir.jsonl import iso
from trainer.rundir.layout import RunPaths
from trainer.rundir.logs import LogFile

_BAR = 20


class SynthLogs:
    """coordinator (plain lines), learner-0 (a bar per step, with CR), inference-0 (two bars, with cursor up)."""

    def __init__(self, paths: RunPaths, attempt: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._files = {
            name: LogFile(paths.log(name)) for name in ("coordinator", "gateway", "learner-0", "inference-0", "taskapp")
        }
        for log in self._files.values():
            log.write(f"==== attempt {attempt} {iso(clock())} ====\n".encode())
        self._line("gateway", "INFO", "gateway: listens on 127.0.0.1:8801")
        self._line("taskapp", "INFO", "app: ready")

    def step(self, step: int, values: Mapping[str, float]) -> None:
        loss = values["gspo/loss"]
        self._line("coordinator", "INFO", f"pipeline: step {step} loss {loss:+.4f}")
        if step % 50 == 0:
            self._line("coordinator", "WARNING", "gateway: 1 of 32 calls was tried again")
        self._put("learner-0", "".join(f"\r{_bar(part, 4)} micro-batches" for part in range(5)) + "\n")
        self._put("learner-0", f"step {step} done\n")
        two = (f"prefill {_bar(part, 2)}\x1b[K\ndecode  {_bar(part, 2)}\x1b[K\n" for part in range(3))
        self._put("inference-0", "\x1b[2A".join(two))

    def close(self) -> None:
        for log in self._files.values():
            log.close()

    def _line(self, name: str, level: str, text: str) -> None:
        self._put(name, f"{iso(self._clock())} {level} {text}\n")

    def _put(self, name: str, text: str) -> None:
        self._files[name].write(text.encode())


def _bar(done: int, total: int) -> str:
    filled = _BAR * done // total
    return f"{100 * done // total:3d}%|{'#' * filled}{' ' * (_BAR - filled)}| {done}/{total}"
