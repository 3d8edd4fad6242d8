"""RLJob against a small server that keeps what it is told and fails as it is told."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import subprocess
import threading
from pathlib import Path

import pytest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rltui import InProcessTaskApp, RLJob, RLJobConfig, job_post
from rltui.backend import BackendError
from rltui.sdk.api.train import polling
from trainer.config import ConfigError, load_mapping

EXAMPLE = Path(__file__).parent.parent / "config" / "sdk_example.toml"
NAME = "checkpoints/step_4/adapter_model.safetensors"
NOWHERE = "http://127.0.0.1:9/api"


class Jobs:
    """`answers`: what GET gives, one after the other; the last one again and again."""

    def __init__(self, serving):
        self.bodies, self.headers, self.posts, self.ranges = [], [], [], []
        self.answers = [{"status": "succeeded", "results": {"final_reward": 0.5}}]
        self.refusals = []
        self.created = {"job_id": "rl_1", "id": "rl_1"}
        self.asked = 0
        routes = [
            Route("/api/rl/jobs", self.create, methods=["POST"]),
            Route("/api/rl/jobs/rl_1", self.get),
            Route("/api/rl/jobs/rl_1/{what:path}", self.act, methods=["POST"]),
            Route("/api/rl/jobs/rl_1/{what:path}", self.read),
            Route("/health", lambda request: JSONResponse({"healthy": True})),
            Route("/task_info", lambda request: JSONResponse({"taskset": {}})),
        ]
        self.app = serving(routes)
        self.url = f"{self.app}/api"

    async def create(self, request):
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        if self.refusals:
            status, body = self.refusals.pop(0)
            return JSONResponse(body, status)
        return JSONResponse(self.created, 201)

    async def get(self, request):
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return JSONResponse({"detail": "sorry"}, answer) if isinstance(answer, int) else JSONResponse(answer)

    async def act(self, request):
        self.posts.append((request.path_params["what"], await request.json()))
        self.headers.append(dict(request.headers))
        return JSONResponse({"control_id": "C1", "status": "running"})

    async def read(self, request):
        query, what = request.query_params, request.path_params["what"]
        if what == "metrics":
            step = int(query["after_step"]) + 1
            point = {"name": query.get("name"), "step": step}
            return JSONResponse({"points": [point], "next_after": {"attempt": 1, "step": step}, "has_more": step < 2})
        if what == "events":
            seq = int(query["since_seq"]) + 1
            return JSONResponse({"events": [{"seq": seq}], "next_seq": seq, "has_more": seq < 3})
        if what == "artifacts":
            about = {"name": NAME, "bytes": 4, "sha256": hashlib.sha256(b"data").hexdigest()}
            return JSONResponse({"artifacts": [{**about, "url": f"/api/rl/jobs/rl_1/artifacts/{NAME}"}]})
        if what.startswith("artifacts/"):
            had = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            self.ranges.append(had)
            headers = {"Content-Range": f"bytes {had}-3/4"} if had else {}
            return Response(b"data"[had:], 206 if had else 200, headers)
        return JSONResponse({"checkpoints": [{"step": 4}]})


@pytest.fixture
def jobs(serving):
    return Jobs(serving)


def job_of(jobs, **more):
    return RLJob.from_config(EXAMPLE, jobs.url, "key", task_app_url=jobs.app, **more)


def test_the_documented_signatures():
    def parameters(function):
        return {name: item.default for name, item in inspect.signature(function).parameters.items() if name != "self"}

    given = ["backend_url", "api_key", "task_app_url", "task_app_api_key", "allow_experimental", "overrides"]
    none = dict.fromkeys([*given, "idempotency_key"])
    assert parameters(RLJob.from_config) == {"config_path": inspect.Parameter.empty, **none}
    assert list(parameters(RLJobConfig)) == ["config_path", *given, "idempotency_key"]
    assert list(parameters(RLJob.from_job_id)) == ["job_id", "backend_url", "api_key"]
    assert list(parameters(RLJob)) == ["config", "job_id", "skip_health_check"]
    polling = {"timeout": 7200.0, "interval": 10.0, "on_status": None}
    assert parameters(RLJob.poll_until_complete) == parameters(RLJob.wait) == polling
    assert {name: value for name, value in parameters(InProcessTaskApp).items() if value is not None} == {
        "port": 8114,
        "host": "127.0.0.1",
        "tunnel_mode": "quick",
        "health_check_timeout": 30.0,
        "auto_find_port": True,
        "skip_tunnel_verification": True,
        "force_new_tunnel": False,
    }


def test_submit_sends_what_was_given_and_what_was_overridden(jobs, caplog, monkeypatch):
    monkeypatch.setenv("TASK_APP_URL", "http://127.0.0.1:9")  # beaten by the argument
    overrides = {"training": {"lora": {"r": 8}}, "training.group_size": 8, "model": "builtin:tiny"}
    job = job_of(jobs, overrides=overrides, task_app_api_key="app-key", idempotency_key="mine")
    assert job.job_id is None
    with caplog.at_level(logging.WARNING):
        assert job.submit() == job.job_id == "rl_1"
    (body,), (headers,) = jobs.bodies, jobs.headers
    config = body["data"]["config"]
    assert body["job_type"] == "rl" and body["data"]["endpoint_base_url"] == config["services"]["task_url"] == jobs.app
    assert config["training"]["lora"] == {"r": 8, "alpha": 32, "dropout": 0.1}
    assert config["training"]["group_size"] == 8 and config["policy"]["model_name"] == "builtin:tiny"
    assert config["compute"]["topology"]["gpus_for_vllm"] == 1  # as given, whatever this machine has
    assert "inference" not in config and "gamma" not in config["training"]
    assert load_mapping(config, environ={}).config.training.group_size == 8
    assert headers["authorization"] == "Bearer key" and headers["idempotency-key"] == "mine"
    assert headers["x-environment-api-key"] == "app-key" and "app-key" not in str(body)
    assert "http://127.0.0.1:9" in caplog.text and jobs.app in caplog.text  # the conflict, with both
    with pytest.raises(RuntimeError, match="Job already submitted: rl_1"):
        job.submit()


def test_overrides_win_over_the_argument_for_the_task_url(jobs):
    job = RLJob.from_config(EXAMPLE, jobs.url, task_app_url=NOWHERE, overrides={"task_url": jobs.app})
    job.submit()
    assert jobs.bodies[0]["data"]["config"]["services"]["task_url"] == jobs.app
    assert "x-environment-api-key" not in jobs.headers[0]


def test_a_lost_answer_never_makes_a_second_job(jobs, serving, monkeypatch):
    """The first try is not answered, the second one met by a server that ends; each carries the same key."""
    monkeypatch.setattr(job_post, "TRIES_S", (0.0, 0.0))
    job = job_of(jobs)
    real, tried = job._backend.post, []

    def post(path, body, *, headers, timeout_s):
        tried.append(headers["Idempotency-Key"])
        answer = real(path, body, headers=headers, timeout_s=timeout_s)
        if len(tried) == 1:
            raise BackendError("no answer from there")
        if len(tried) == 2:
            raise BackendError("the server is shutting down", 503, "shutting_down")
        return answer

    monkeypatch.setattr(job._backend, "post", post)
    assert job.submit() == "rl_1"
    assert len(tried) == 3 and len({*tried}) == 1 and job_of(jobs)._key != tried[0]


def test_what_submit_refuses(jobs, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"group_size") as wrong:
        job_of(jobs, overrides={"training.group_size": 5}).submit()
    assert isinstance(wrong.value, ValueError)
    with pytest.raises(ConfigError, match="your-tunnel"):  # the file's own address is a template's
        RLJob.from_config(EXAMPLE, jobs.url).submit()
    with pytest.raises(ValueError, match=r"Task app health check failed: /health=404, /task_info=404"):
        RLJob.from_config(EXAMPLE, jobs.url, task_app_url=f"{jobs.app}/api").submit()
    assert jobs.bodies == []
    RLJob(RLJobConfig(EXAMPLE, jobs.url, "key", f"{jobs.app}/api"), skip_health_check=True).submit()
    assert len(jobs.bodies) == 1

    jobs.refusals = [(422, {"detail": "policy.model_name is unknown", "error": {"code": "invalid"}})]
    with pytest.raises(RuntimeError, match=r"Job submission failed with status 422: policy.model_name is unknown"):
        job_of(jobs).submit()
    jobs.created = {}
    with pytest.raises(RuntimeError, match="Response missing job ID"):
        job_of(jobs).submit()
    with pytest.raises(RuntimeError, match="Cannot build payload: config_path is required for new jobs"):
        job = RLJob.from_job_id("rl_1", jobs.url)
        job._job_id = None
        job.submit()


def test_what_a_config_of_a_job_refuses(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Config file not found"):
        RLJobConfig(tmp_path / "none.toml", NOWHERE, "key")
    with pytest.raises(ValueError, match="backend_url is required"):
        RLJobConfig(EXAMPLE, "", "key")
    with pytest.raises(ValueError, match="api_key is required"):
        RLJobConfig(EXAMPLE, NOWHERE, "")
    with pytest.raises(ValueError, match="api_key is required"):
        RLJob.from_config(EXAMPLE, "http://10.0.0.1:8787")
    assert RLJob.from_config(EXAMPLE).config.api_key == "local"
    monkeypatch.setenv("SYNTH_API_KEY", "S")
    monkeypatch.setenv("TASK_APP_URL", "http://app")
    monkeypatch.setenv("ENVIRONMENT_API_KEY", "E")
    config = RLJob.from_config(str(EXAMPLE), "http://10.0.0.1:8787").config
    assert (config.api_key, config.task_app_url, config.task_app_api_key) == ("S", "http://app", "E")
    assert "'S'" not in repr(config) and "'E'" not in repr(config)
    assert RLJob.from_job_id("rl_7").job_id == "rl_7"


def test_polling_asks_at_once_tells_every_status_and_ends_with_the_last_one(jobs, caplog):
    jobs.answers = [
        {"status": "queued"},
        500,
        {"status": "running", "phase": "paused"},
        {"status": "running", "metrics": {}},
        {"status": "failed", "error": {"message": "m"}},
    ]
    told = []

    def on_status(status):
        told.append(status["status"])
        raise ValueError("mine")

    job = RLJob.from_job_id("rl_1", jobs.url)
    assert job.poll_until_complete(interval=0.0, on_status=on_status)["error"] == {"message": "m"}
    assert told == ["queued", "running", "running", "failed"] and jobs.asked == 5
    assert caplog.text.count("on_status raised ValueError: mine") == 4
    with pytest.raises(RuntimeError, match="Job not complete: failed"):
        job.get_results()
    assert RLJob.from_job_id("rl_1", jobs.url).poll_until_complete()["status"] == "failed"  # no interval is waited


def test_polling_gives_up_on_time_on_an_unknown_job_and_after_ten_failures(jobs):
    job = RLJob.from_job_id("rl_1", jobs.url)
    jobs.answers = [{"status": "running"}]
    with pytest.raises(TimeoutError, match=r"rl_1 .* 0 s.* running"):
        job.poll_until_complete(timeout=0.0)
    jobs.answers = [404]
    with pytest.raises(BackendError, match="sorry"):
        job.poll_until_complete(interval=0.0)
    jobs.answers, jobs.asked = [*[503] * 9, {"status": "running"}, *[500] * 10, {"status": "succeeded"}], 0
    with pytest.raises(BackendError, match="sorry"):
        job.poll_until_complete(interval=0.0)
    assert jobs.asked == 20
    unsubmitted = RLJob.from_config(EXAMPLE, jobs.url)
    for name in ("get_status", "poll_until_complete", "get_results", "cancel"):
        with pytest.raises(RuntimeError, match="Job not yet submitted"):
            getattr(unsubmitted, name)()


async def test_everything_works_inside_a_running_event_loop(jobs):
    job = job_of(jobs)
    job.submit()
    assert job.get_status()["status"] == "succeeded" and job.poll_until_complete()["status"] == "succeeded"
    assert job.get_results() == {"final_reward": 0.5}
    jobs.answers = [{"status": "running"}] * 3 + [{"status": "cancelled"}]
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    assert (await job.wait(interval=0.0))["status"] == "cancelled"
    assert ticks > 10
    ticking.cancel()
    with pytest.raises(TimeoutError):
        jobs.answers = [{"status": "running"}]
        await job.wait(timeout=0.0)


async def test_a_blocking_poll_ends_when_its_task_is_cancelled(jobs):
    """Ctrl-C under asyncio.run cancels the task, and a task that never gives its loop back hears of it here."""
    jobs.answers = [{"status": "running"}]
    job, loop = RLJob.from_job_id("rl_1", jobs.url), asyncio.get_running_loop()

    async def body():
        task = asyncio.current_task()
        threading.Timer(0.1, task.cancel).start()
        job.poll_until_complete(interval=60.0)

    with pytest.raises(asyncio.CancelledError):
        await loop.create_task(body())
    assert polling.LOOK_S < 1


def test_the_rest_of_a_job(jobs):
    job = RLJob.from_job_id("rl_1", jobs.url)
    job.cancel()
    assert job.control("set", **{"training.learning_rate": 1e-6}) == "C1"
    job.resume(from_step=0)
    job.resume(overrides={"training.num_epochs": 2})
    assert jobs.posts == [
        ("cancel", {"mode": "graceful"}),
        ("control", {"action": "set", "args": {"training.learning_rate": 1e-6}}),
        ("resume", {"from": 0, "overrides": {}}),
        ("resume", {"overrides": {"training.num_epochs": 2}}),
    ]
    assert [point["step"] for point in job.metrics("reward/mean")] == [0, 1, 2]
    assert [event["seq"] for event in job.events(since_seq=1)] == [2, 3]
    assert job.checkpoints() == [{"step": 4}]


def test_a_resume_brings_the_task_apps_key_again(jobs, tmp_path, monkeypatch):
    """As no server keeps it: that of the submit, also of a file of variables, else the environment's."""

    def sent(job):
        job.resume()
        return jobs.headers[-1].get("x-environment-api-key")

    assert sent(RLJob.from_job_id("rl_1", jobs.url)) is None
    (tmp_path / "my.env").write_text("ENVIRONMENT_API_KEY=of-the-file\n")
    submitted = job_of(jobs, overrides={"env_file_path": str(tmp_path / "my.env")})
    submitted.submit()
    job = RLJob.from_job_id("rl_1", jobs.url)
    monkeypatch.setenv("ENVIRONMENT_API_KEY", "of-the-app")  # InProcessTaskApp puts it there, at any time
    assert (sent(submitted), sent(job)) == ("of-the-file", "of-the-app")
    job.config.task_app_api_key = "mine"
    assert sent(job) == "mine"


def test_the_override_backend_is_the_server_and_beats_the_argument_and_the_environment(jobs, caplog, monkeypatch):
    overrides = {"backend": jobs.app}
    assert RLJob.from_config(EXAMPLE, overrides=overrides).config.backend_url == jobs.url
    assert RLJob.from_config(EXAMPLE, jobs.url, overrides=overrides).config.backend_url == jobs.url
    assert caplog.text == ""
    job = RLJob.from_config(EXAMPLE, NOWHERE, task_app_url=jobs.app, overrides=overrides)
    assert (job.submit(), len(jobs.bodies)) == ("rl_1", 1)
    assert caplog.text.count(NOWHERE) == 1 and jobs.url in caplog.text
    monkeypatch.setenv("BACKEND_BASE_URL", "http://10.0.0.1:1")
    assert RLJobConfig(EXAMPLE, NOWHERE, "key", overrides=overrides).backend_url == jobs.url
    assert RLJob.from_config(EXAMPLE, overrides=overrides).config.api_key == "local"  # of the server that is meant
    assert "http://10.0.0.1:1/api" in caplog.text
    with pytest.raises(ValueError, match="not the address of a job server"):
        RLJob.from_config(EXAMPLE, overrides={"backend": "nowhere"})


def test_no_server_is_started_but_at_the_default_address(jobs, monkeypatch):
    monkeypatch.setattr(job_post, "TRIES_S", ())
    monkeypatch.setattr(subprocess, "run", None)
    job = RLJob.from_config(EXAMPLE, NOWHERE, task_app_url=jobs.app)
    with pytest.raises(RuntimeError, match=r"Job submission failed: no answer from http://127.0.0.1:9/api: connection"):
        job.submit()


def test_an_artifact_is_fetched_by_its_name_and_one_that_broke_off_is_gone_on_with(jobs, tmp_path):
    job = RLJob.from_job_id("rl_1", jobs.url)
    assert [one["name"] for one in job.artifacts()] == [NAME]
    (tmp_path / "adapter_model.safetensors.part").write_bytes(b"da")
    found = job.download_artifact(NAME, tmp_path)
    assert found == tmp_path / "adapter_model.safetensors" and found.read_bytes() == b"data"
    assert job.download_artifact(NAME, tmp_path / "mine").read_bytes() == b"data" and jobs.ranges == [2, 0]
    with pytest.raises(KeyError, match="artifacts\\(\\) lists"):
        job.download_artifact("step_4", tmp_path)


def test_a_rubric_beside_the_config_goes_with_the_job_and_a_broken_one_is_refused(jobs, tmp_path):
    config = tmp_path / "my.toml"
    config.write_text(f"{EXAMPLE.read_text()}\n".replace("judge_url", "# judge_url"))
    (tmp_path / "rubrics").mkdir()
    rubric = tmp_path / "rubrics" / "brief.toml"
    rubric.write_text('[[outcome.criteria]]\nid = "brief"\n')
    overrides = {"judge.enabled": True, "judge.options.rubric_id": "brief"}

    def job():
        return RLJob.from_config(config, jobs.url, "key", task_app_url=jobs.app, overrides=overrides)

    job().submit()
    options = jobs.bodies[-1]["data"]["config"]["judge"]["options"]
    assert options["rubric_overrides"]["outcome"]["criteria"][0]["id"] == "brief" and "rubric_id" not in options
    rubric.write_text("criteria = 3")
    with pytest.raises(ValueError, match=r"brief\.toml cannot be used"):
        job().submit()
