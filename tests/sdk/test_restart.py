"""A stream and a poll over a restart of the job server. The run is a stand-in, and goes on meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from rltui import RLJob, backend
from rltui.backend import Backend
from rltui.sdk.api.train import polling
from rltui.sdk.task.hosting import HostedApp, listen
from rltui.server.app import job_server
from rltui.server.auth import Access
from tests.server.conftest import body, make_jobs  # noqa: F401 (a fixture)
from tests.waiting import until


def test_nothing_is_lost_and_nothing_comes_twice(make_jobs, monkeypatch):  # noqa: F811
    monkeypatch.setenv("FAKE_STEPS", "100000")
    monkeypatch.setattr(backend, "WAITS_S", (0.05,))
    monkeypatch.setattr(polling, "MOST_FAILURES", 300)  # its usual interval bridges as long a time
    listener = listen("127.0.0.1", 24000, find=True)
    port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = HostedApp(job_server(make_jobs(), Access()), listener)
    server.start()
    with Backend(url) as http:
        job = RLJob.from_job_id(http.post("/rl/jobs", body())["job_id"], url)
    events, told, training = [], [], threading.Event()

    def follow():
        for event in job.stream():
            events.append(event["seq"])
            if len(events) == 3:
                training.set()

    with ThreadPoolExecutor() as threads:
        streaming = threads.submit(follow)
        polls = threads.submit(job.poll_until_complete, interval=0.3, on_status=lambda s: told.append(s["status"]))
        assert training.wait(60)
        server.stop()
        server = HostedApp(job_server(make_jobs(), Access()), listen("127.0.0.1", port, find=False))
        server.start()
        try:
            until(lambda: told and told[-1] == "running")
            until(lambda: job.get_status()["status"] == "running")
            job.cancel()
            assert polls.result(60)["status"] == "cancelled"
            streaming.result(60)
            assert events == list(range(1, job.get_status()["last_seq"] + 1)) and len(events) > 3
        finally:
            server.stop()
