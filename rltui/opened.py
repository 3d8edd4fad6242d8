"""The run that is open: where it is, its model once it was read, requests to it, and the thread that does it all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rltui.launch.runs import find, is_address
from rltui.screens.messages import RunChanged, RunLost, RunOpened, SteerChanged
from rltui.sources.base import Unreadable
from rltui.watch import RunWatcher

if TYPE_CHECKING:
    from rltui.doctor.checkup import Checkup
    from rltui.model.run import Change, RunModel
    from rltui.model.steering import Request, Steering
    from rltui.sources.base import RunSource
    from rltui.state import Memory

POLL_S = 0.5  # while an answer is awaited
SEND_S = 10.0  # that a request which is on its way keeps the interface from ending


class OpenRun:
    """`where`: its folder, or its address at a job server. `did(command, answer)` is told of each request and each
    answer, in the watcher's thread."""

    def __init__(
        self, where: str, *, period_s: float, did: Callable[[str, str], None], memory: Memory | None = None
    ) -> None:
        self.where = where
        self.folder = None if is_address(where) else Path(where)
        self.period_s = period_s
        self.model: RunModel | None = None  # set by the watcher's thread, then only read
        self.steering: Steering | None = None  # likewise
        self.checkup: Checkup | None = None  # likewise
        self._memory = memory
        self._did = did
        self._watcher: RunWatcher | None = None
        self._failed = ""  # why it could not be opened
        self._unsent: deque[tuple[str, dict[str, Any] | None]] = deque()  # requests, until they are with the run
        self._post: Callable[[Any], Any] = lambda message: None

    @property
    def name(self) -> str:
        if self.folder is not None:
            return self.folder.name
        label = ((self.model.status if self.model is not None else None) or {}).get("label")
        job_id, host = self.where.rpartition("/")[2], urlsplit(self.where).netloc.rpartition("@")[2]
        return f"{host} {label}-{job_id}" if isinstance(label, str) and label else f"{host} {job_id}"

    @property
    def live(self) -> bool:
        """Whether it was seen to run: of what could never be read nobody knows."""
        return self.model is not None and self.model.status is not None and self.model.live

    @property
    def why(self) -> str:
        """Why it, or a part of it, cannot be read now; "" if it can."""
        return self._failed or (self.model.error if self.model is not None else None) or ""

    @property
    def state(self) -> str:
        """The word of its last status."""
        status = self.model.status if self.model is not None else None
        return str((status or {}).get("state") or ("unreadable" if self.why else "starting"))

    @property
    def key(self) -> str:
        """What the memory of places knows the run by."""
        status = self.model.status if self.model is not None else None
        return str((status or {}).get("job_id") or self.where)

    def begin(self, post: Callable[[Any], Any]) -> None:
        """Read it from now on, and `post` what is found. Only the first call counts."""
        if self._watcher is not None:
            return
        self._post = post
        self._watcher = RunWatcher(
            self._open,
            opened=lambda model: post(RunOpened(model)),
            changed=self._changed,
            failed=self._lost,
            also=self._poll,
            last=self._send,
            period_s=self.period_s,
        )
        self._watcher.start()

    def close(self) -> None:
        """Read it no more. What it was asked for is still sent."""
        if self._watcher is not None:
            self._watcher.stop()

    def finish(self) -> None:
        """Wait, after `close`, until what it was asked for has been sent, for SEND_S at most."""
        if self._watcher is not None and self._unsent:
            self._watcher.join(SEND_S)

    @property
    def unsent(self) -> list[str]:
        """What it was to be asked for and knows nothing of."""
        return [action for action, _ in self._unsent]

    def look_now(self) -> None:
        if self._watcher is not None:
            self._watcher.soon()

    def in_thread(self, job: Callable[[], None]) -> None:
        """Have `job` done in the watcher's thread."""
        if self._watcher is not None:
            self._watcher.do(job)

    def ask(self, action: str, args: dict[str, Any] | None = None) -> None:
        """Send a request to the run; its states come as SteerChanged."""
        self._unsent.append((action, args))
        self.in_thread(self._send)

    def mute(self, rule: str, reason: str) -> None:
        """Hear no more of a rule of the doctor, for this reason; "": let it speak again."""
        if self._memory is not None:
            from rltui.doctor.mutes import mute

            mute(self._memory, self.key, rule, reason)
        self.in_thread(self._examine)

    def _lost(self, why: str) -> None:
        self._failed = why
        self._post(RunLost(why))

    def _changed(self, change: Change) -> None:
        self._failed = ""
        self._post(RunChanged(change))
        if not change.more:
            self._examine()

    def _examine(self) -> None:
        """What the doctor says now. While the record is read for the first time it says nothing."""
        from rltui.model.run import Change

        if self.checkup is None or self.model is None:
            return
        if self._memory is not None:
            from rltui.doctor.mutes import muted

            self.checkup.mute(muted(self._memory, self.key))
        if self.checkup.look(self.model):
            self._post(RunChanged(Change(frozenset({"findings"}))))

    def _source(self) -> RunSource:
        """Raises Unreadable: its folder was there when it was chosen."""
        if self.folder is not None and not self.folder.is_dir():
            raise Unreadable(f"the run is gone: was {self.folder} moved or deleted?")
        return find(self.where).source

    def _open(self) -> RunModel:
        from rltui.doctor.checkup import Checkup
        from rltui.model.run import RunModel
        from rltui.model.steering import Steering

        source = self._source()
        self.steering = Steering(source)
        self.checkup = Checkup()
        self.model = RunModel(source)
        return self.model

    def _send(self) -> None:
        steering = self.steering
        while self._unsent and steering is not None:
            request = steering.ask(*self._unsent[0])
            self._unsent.popleft()
            self._tell([request])
            self.look_now()

    def _poll(self) -> float | None:
        """Seconds until answers are to be looked for again; None while none is awaited."""
        from rltui.model.run import Change

        if self._failed:  # of a job; the look after it has not failed, though nothing may be new
            self._changed(Change())
        steering = self.steering
        if steering is None or not steering.open:
            return None
        if changed := steering.poll():
            self._tell(changed)
        return POLL_S if steering.open else None

    def _tell(self, requests: list[Request]) -> None:
        assert self.steering is not None
        for request in requests:
            self._did(self.steering.command(request), self.steering.answer(request))
        self._post(SteerChanged(requests))
