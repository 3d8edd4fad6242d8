"""The jobs of one job server as rows, beside those of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rltui.launch.runs import job_at
from rltui.sources.base import Json, Unreachable, Unreadable
from rltui.sources.folder import RunRow, epoch, number, text, whole
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.backend import Backend

MOST = 200  # jobs that are listed, the newest


class JobsOfServer:
    """`name`: as `server_name` gives it; the tunnel of an ssh one stays open. Belongs to one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backend: Backend | None = None

    def rows(self) -> list[RunRow]:
        """The newest jobs. Raises Unreachable (a later look may get an answer) or Unreadable."""
        from rltui.backend import BackendError

        try:
            jobs = self._connected().get("/rl/jobs", limit=MOST).get("jobs")
        except BackendError as error:
            advice = "; its token goes in the variable RLTUI_API_KEY" if error.status == 401 else ""
            raise (Unreachable if error.passing else Unreadable)(f"{clean(error.detail, 300)}{advice}") from None
        if not isinstance(jobs, list):
            raise Unreadable(f"{self.name} answers, but not as an rltui server does")
        return [self._row(job) for job in jobs if isinstance(job, dict) and isinstance(job.get("job_id"), str)]

    def failed(self, why: str) -> RunRow:
        """A row that stands for the server itself while it gives no answer."""
        return RunRow(self.host, self.name, "", None, "unreadable", host=self.host, problem=clean(why, 300))

    @property
    def host(self) -> str:
        return clean(urlsplit(self.name).netloc.rpartition("@")[2], 100)

    def _connected(self) -> Backend:
        from rltui.launch.base import LaunchError
        from rltui.launch.server import backend_at
        from rltui.launch.ssh import tunnel_to

        if self._backend is None:
            try:
                self._backend = (
                    tunnel_to(self.name).backend() if self.name.startswith("ssh://") else backend_at(self.name)
                )
            except LaunchError as error:
                raise Unreachable(f"{error}. {error.hint}".rstrip()) from error
        return self._backend

    def _row(self, job: Json) -> RunRow:
        progress, latest, error = (_object(job.get(name)) for name in ("progress", "metrics", "error"))
        state, phase = text(job.get("state"), 20) or "starting", text(job.get("phase"), 20)
        label, job_id = text(job.get("label"), 100), clean(job["job_id"], 100)
        shown = phase if state == "running" and phase in ("starting", "paused", "stopping") else state
        return RunRow(
            name=f"{label}-{job_id}" if label else job_id,
            path=job_at(self.name, job["job_id"]),
            job_id=job_id,
            label=label,
            state=shown or state,
            phase=phase,
            step=whole(progress.get("updates")),
            steps=whole(progress.get("total_updates")) or None,
            reward=number(latest.get("reward/mean")),
            eval_reward=number(latest.get("eval/reward_mean")),
            created=epoch(job.get("created_at")),
            updated=epoch(job.get("updated_at")),
            eta_s=number(progress.get("eta_s")),
            host=self.host,
            error=text(error.get("message"), 300),
            hint=text(error.get("hint"), 300),
            tags=tags(job.get("tags")),
        )


def tags(found: Any) -> tuple[str, ...]:
    """`name=value`, cleaned; of a tag that is a list each item."""
    pairs = found.items() if isinstance(found, dict) else ()
    return tuple(
        clean(f"{name}={item}", 100)
        for name, value in pairs
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, str | int | float | bool)
    )


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
