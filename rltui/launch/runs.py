"""A run that a person means, wherever it lives: a folder, a job of a server, or ssh://user@host/JOB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from rltui.sources.base import Json, RunSource
from rltui.sources.find import NoAnswer, NoSuchRun
from rltui.text import clean

if TYPE_CHECKING:
    from rltui.backend import Backend, BackendError
    from rltui.launch.base import Started

SCHEMES = ("http://", "https://", "ssh://")
PAGE = 200  # jobs asked for at a time
LISTED = 200  # jobs among which a beginning is looked for
NAMED = 5  # jobs that are listed where one was not found


@dataclass(frozen=True)
class RunAt:
    name: str  # its folder's, or its job id
    place: str  # the folder, or the address: each names the run in a command
    source: RunSource
    folder: Path | None = None  # None: it lives elsewhere
    backend: Backend | None = None  # of a job server: its files can be fetched from there

    def __str__(self) -> str:
        return self.place


def in_folder(folder: Path) -> RunAt:
    from rltui.sources.local import LocalRunSource

    return RunAt(folder.name, str(folder), LocalRunSource(folder), folder)


def with_job(run: RunAt) -> RunAt:
    """The same, where a batch system is asked too for what the folder does not tell: why a run waits, and its end."""
    job: Started | None = None
    if run.folder is not None and (run.folder / "slurm.json").exists():
        from rltui.launch import slurm

        job = slurm.adopted(run.folder)
    elif run.folder is not None and (run.folder / "ray.json").exists():
        from rltui.launch import ray

        job = ray.adopted(run.folder)
    return run if job is None else replace(run, source=job.source)


def is_address(text: str) -> bool:
    return text.startswith(SCHEMES)


def find(where: str) -> RunAt:
    """The run in a folder or at an address; for a folder nothing is looked at yet. Raises NoSuchRun."""
    return run_at(where) if is_address(where) else with_job(in_folder(Path(where)))


def run_at(address: str) -> RunAt:
    """The run at an address. Raises NoSuchRun: it is no address, nothing answers there, or there is no such job.

    An ssh one holds a tunnel from now on, until the program ends.
    """
    server, job_id = split(address)
    return _job(server_at(server), job_id, server)


def runs_at(server: str) -> list[tuple[RunAt, Json]]:
    """The runs of a job server, http(s)://… or ssh://user@host, newest first, each with what a status says of it.
    Raises NoSuchRun."""
    from rltui.backend import BackendError

    server = server.rstrip("/")
    backend, found, after = server_at(server), [], None
    try:
        while True:
            page = backend.get("/rl/jobs", limit=PAGE, after=after)
            found += [(_run(backend, str(job["job_id"]), server), _status(job)) for job in page["jobs"]]
            after = page.get("next_cursor")
            if not page.get("has_more") or after is None:
                return found
    except BackendError as error:
        raise _failed(server, error) from error


def server_at(server: str) -> Backend:
    """Raises NoSuchRun: it is no address of one, or there is no way to it."""
    from rltui.launch.base import LaunchError
    from rltui.launch.server import backend_at
    from rltui.launch.ssh import tunnel_to

    try:
        return tunnel_to(server).backend() if server.startswith("ssh://") else backend_at(server)
    except LaunchError as error:
        raise (NoSuchRun if error.refused else NoAnswer)(f"{error}\n{error.hint}".rstrip()) from error


def split(address: str) -> tuple[str, str]:
    """(server, job id) of http://host:port/api/rl/jobs/ID or ssh://user@host/ID. Raises NoSuchRun."""
    head, _, job_id = address.rstrip("/").rpartition("/")
    wanted = "http://HOST:PORT/api/rl/jobs/ID" if address.startswith("http") else "ssh://USER@HOST/ID"
    try:
        parts = urlsplit(head)
        usable = bool(parts.hostname) and parts.port != 0 and bool(job_id)
    except ValueError:
        usable = False
    if address.startswith("ssh://"):
        usable = usable and not parts.path
    else:
        head, found, _ = head.rpartition("/jobs") if head.endswith("/jobs") else (head, "", "")
        usable = usable and bool(found or (job_id.startswith("rl_") and urlsplit(head).path in ("", "/api")))
        head = head.removesuffix("/rl").removesuffix("/learning").removesuffix("/orchestration")
    if not usable:
        raise NoSuchRun(f"{clean(address, 300)} names no job; it is {wanted}")
    return head, job_id


def config_of(where: str) -> Path:
    """The config of a run, as a file of this machine; that of a job is fetched. Raises NoSuchRun."""
    if not is_address(where):
        return Path(where) / "config.toml"
    from rltui.backend import BackendError
    from rltui.places import state_folder

    run = run_at(where)
    assert run.backend is not None
    try:
        text = run.backend.get(f"/rl/jobs/{run.name}/config", view="original").get("config")
    except BackendError as error:
        raise NoSuchRun(f"{where}: {clean(error.detail, 300)}") from error
    if not isinstance(text, str):
        raise NoSuchRun(f"{where}: its config is not there")
    folder = state_folder() / "configs" / clean(run.name, 100).replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def server_name(text: str) -> str:
    """The one name of a server: http(s)://HOST:PORT/api or ssh://USER@HOST. Raises NoSuchRun: it is no address."""
    from rltui.backend import normal_url

    if not text.startswith("ssh://"):
        try:
            return normal_url(text)
        except ValueError as error:
            raise NoSuchRun(str(error)) from error
    parts = urlsplit(text)
    if not parts.hostname or parts.path.strip("/"):
        raise NoSuchRun(f"{clean(text, 300)} names no server; it is ssh://USER@HOST")
    return text.rstrip("/")


def job_at(server: str, job_id: str) -> str:
    """The address of a job at a server of this name."""
    return f"{server}/{job_id}" if server.startswith("ssh://") else f"{server}/rl/jobs/{job_id}"


def _job(backend: Backend, job_id: str, server: str) -> RunAt:
    from rltui.backend import BackendError

    try:
        backend.get(f"/rl/jobs/{quote(job_id, safe='')}")
    except BackendError as error:
        if error.status != 404:
            raise _failed(server, error) from error
        newest = _newest(backend)
        begins = [found for found in newest or () if found.startswith(job_id)]
        if job_id and len(begins) == 1:
            return _job(backend, begins[0], server)
        raise NoSuchRun(f"there is no job {clean(job_id, 100)!a} at {server}{_others(newest)}") from error
    return _run(backend, job_id, server)


def _run(backend: Backend, job_id: str, server: str) -> RunAt:
    from rltui.sources.http import HttpRunSource

    source = HttpRunSource(backend, job_id)
    if server.startswith("ssh://"):  # not the port of this machine that leads there
        source.place = f"{server}/{job_id}"
    return RunAt(job_id, source.place, source, backend=backend)


def _status(job: Json) -> Json:
    """A job object (WIRE 3.4) in the words of a run's status (5.4)."""
    progress = job.get("progress") or {}
    names = ("job_id", "label", "phase", "end_reason", "attempt", "created_at", "updated_at", "error", "results")
    return {
        **{name: job.get(name) for name in names},
        "state": job.get("status"),
        "step": progress.get("updates"),
        "iteration": progress.get("completed"),
        "totals": {"steps": progress.get("total_updates"), "iterations": progress.get("total")},
        "eta_s": progress.get("eta_s"),
        "latest": job.get("metrics") or {},
    }


def _failed(server: str, error: BackendError) -> NoSuchRun:
    """Of a server that gives no jobs, with what to do."""
    if error.status is None:
        return NoAnswer(f"{clean(error.detail, 600)}\n`rltui serve` starts a server there; is the address right?")
    kind = NoAnswer if error.passing else NoSuchRun
    return kind(f"{server}: {clean(error.detail, 600)}{_advice(error.status)}")


def _advice(status: int | None) -> str:
    return "; put the server's token in the variable RLTUI_API_KEY" if status == 401 else ""


def _newest(backend: Backend) -> list[str] | None:
    """Ids of the jobs that a beginning may mean, the newest first; None: they are not told."""
    from rltui.backend import BackendError

    try:
        jobs = backend.get("/rl/jobs", limit=LISTED).get("jobs") or []
    except BackendError:
        return None
    return [str(job.get("job_id")) for job in jobs]


def _others(newest: list[str] | None) -> str:
    """The newest ones that are there, in words."""
    if newest is None:
        return ""
    return f"; there are {', '.join(clean(job_id, 40) for job_id in newest[:NAMED])}" if newest else "; it has none"
