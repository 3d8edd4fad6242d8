"""A job server as a target: a real one, with fake runs; faults are injected on the way to it."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from rltui.backend import Backend, BackendError
from rltui.cli.main import main
from rltui.job_post import APP_KEY_HEADER
from rltui.launch.base import LaunchError
from rltui.launch.server import ServerLauncher
from rltui.smoke.kept import kept_file, write_report
from tests.waiting import free_port
from trainer.config import load


class Faulty(Backend):
    """`lost`: so many answers to a POST of a job get lost, though it was done. Keeps the headers."""

    def __init__(self, url, lost=0):
        super().__init__(url)
        self.lost, self.headers = lost, []

    def post(self, path, body=None, *, headers=None, timeout_s=None):
        answer = super().post(path, body, headers=headers, timeout_s=timeout_s)
        if path == "/rl/jobs":
            self.headers.append(headers)
            if self.lost:
                self.lost -= 1
                raise BackendError("no answer")
        return answer


def faulty(server, lost=0):
    launcher = ServerLauncher(server.url)
    launcher._client = Faulty(server.url, lost)
    return launcher


def jobs(server):
    return server.get("/rl/jobs")["jobs"]


def job_id(started):
    return started.source.place.rsplit("/", 1)[1]


def test_the_same_key_starts_one_job_whoever_asks_and_however_often(server, job, monkeypatch):
    job = replace(job, key="mine")
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda _: ServerLauncher(server.url).start(job), range(4)))
    assert len({job_id(one) for one in started}) == 1 == len(jobs(server))
    with pytest.raises(LaunchError) as error:
        ServerLauncher(server.url).start(replace(job, sets=("training.seed=5",)))
    assert error.value.refused and job_id(started[0]) in str(error.value)
    assert len(jobs(server)) == 1


def test_an_answer_that_is_lost_starts_no_second_job(server, job, monkeypatch):
    monkeypatch.setattr("rltui.job_post.TRIES_S", (0.01, 0.01))
    started = faulty(server, lost=2).start(job)
    assert [job_id(started)] == [one["job_id"] for one in jobs(server)]
    faulty(server).start(job)  # without a key each start is one of its own
    assert len(jobs(server)) == 2
    with pytest.raises(LaunchError) as error:
        faulty(server, lost=3).start(job)
    assert not error.value.refused


def test_the_task_apps_key_goes_in_a_header_and_is_shown_nowhere(server, job):
    job = replace(job, environ={"ENVIRONMENT_API_KEY": "sk_env_0123456789abcdef"})
    launcher = faulty(server)
    launcher.start(job)
    assert launcher._client.headers[0][APP_KEY_HEADER] == "sk_env_0123456789abcdef"
    assert "sk_env" not in launcher.shown(job)
    told = b"".join(path.read_bytes() for path in server.folder.rglob("*") if path.is_file())
    assert b"sk_env_0123456789abcdef" not in told


def test_what_a_server_refuses_is_told_with_what_to_do(server, job, monkeypatch):
    refused = {"services.task_url=mine.py": "code", "compute.gpu_count=0": "", "services.task_url=builtin:nothing": ""}
    for item, word in refused.items():
        with pytest.raises(LaunchError) as error:
            ServerLauncher(server.url).start(replace(job, sets=(item,)))
        assert error.value.refused and word in str(error.value), item
        assert error.value.hint == ""  # the sentence has it
    with pytest.raises(LaunchError) as error:
        ServerLauncher(server.url).start(replace(job, sets=("services.task_url=mine.py", 'checkpoint.dir="/srv"')))
    told = f"{error.value}\n{error.value.hint}"
    assert told.count("checkpoint.dir") == told.count("services.task_url") == 1 and "; to mend it: " in told
    monkeypatch.setattr("rltui.job_post.TRIES_S", (3600.0,))  # or this test never ends
    with pytest.raises(LaunchError) as error:
        ServerLauncher("http://127.0.0.1:9").start(job)
    assert not error.value.refused and "no answer from http://127.0.0.1:9" in str(error.value)
    assert "rltui serve" in error.value.hint
    fact = ServerLauncher("http://127.0.0.1:9").facts()[0]
    assert fact.ok is False and fact.fix


def test_an_app_that_wants_a_key_is_told_once_with_the_variable(server, job):
    class Keyed(Backend):
        def post(self, path, body=None, *, headers=None, timeout_s=None):
            assert path == "/rl/verify_task_app"
            error = {"status": 401, "ok": False, "error": "status 401: no key was sent"}
            return {"any_ok": False, "attempts": [error, error]}

    launcher = ServerLauncher(server.url)
    launcher._client = Keyed(server.url)
    facts = launcher.facts(replace(job, sets=('services.task_url="http://127.0.0.1:9"',)))
    (fact,) = [fact for fact in facts if fact.name == "task app"]
    assert fact.text.count("status 401") == 1 and "ENVIRONMENT_API_KEY" in fact.fix


def test_code_that_the_server_would_refuse_is_a_fact_beforehand(server, job):
    facts = ServerLauncher(server.url).facts(replace(job, sets=("services.task_url=mine.py",)))
    (fact,) = [fact for fact in facts if fact.ok is False]
    assert "services.task_url" in fact.text and "--allow-code" in fact.fix


def test_facts_and_the_request_that_is_shown(server, job):
    facts = {fact.name: fact for fact in ServerLauncher(server.url).facts(job)}
    assert facts["reachable"].ok and facts["queue"].text == "0 running, 0 queued"
    with_app = replace(job, sets=(f'services.task_url="{server.url}"',))  # which answers, and is none
    facts = {fact.name: fact for fact in ServerLauncher(server.url).facts(with_app)}
    assert facts["task app"].ok is False and server.url in facts["task app"].text
    head, _, body = ServerLauncher(server.url).shown(job).partition("\n\n")
    assert head.startswith(f"POST {server.url}/rl/jobs")
    server.post("/rl/jobs", json.loads(body), status=201)


def test_a_clock_that_is_not_ours_is_told(server, monkeypatch):
    assert "clock" not in {fact.name for fact in ServerLauncher(server.url).facts()}
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    (fact,) = [fact for fact in ServerLauncher(server.url).facts() if fact.name == "clock"]
    assert fact.ok is None and "-3600 s off ours" in fact.text.replace("-3601", "-3600")


def test_a_job_of_a_server_is_followed_in_the_interface(server, here, monkeypatch):
    opened = []

    def leave_at_its_end(options, run):
        opened.append(run)
        server.until(run.rsplit("/", 1)[1], "succeeded")
        return 0

    monkeypatch.setattr("rltui.cli.train.on_a_terminal", lambda: True)
    monkeypatch.setattr("rltui.cli.watch.open_app", leave_at_its_end)
    assert main(["train", "my.toml", "--backend", server.url, "--tui"]) == 0
    assert opened == [f"{server.url}/rl/jobs/{jobs(server)[0]['job_id']}"]


def test_a_config_for_another_machine_is_not_judged_by_the_gpus_of_this_one(here, monkeypatch, capsys):
    monkeypatch.setattr("trainer.config.machine.count_gpus", lambda environ: 0)
    sets = ["--set", "compute.gpu_count=8", "--set", "vllm.gpu_memory_utilization=0.8"]
    sets += ["--set", "policy.model_name=Qwen/Qwen3-4B"]
    assert main(["train", "my.toml", "--dry-run", *sets]) == 0
    assert "no GPU" in "".join(capsys.readouterr())
    for target in ("http://127.0.0.1:9", "ssh://nowhere"):
        assert main(["train", "my.toml", "--dry-run", "--target", target, *sets]) == 0
        told = "".join(capsys.readouterr())
        assert "GPU" not in told and "local engine" not in told and '"gpu_count": 8' in told


def test_a_smoke_test_of_this_machine_counts_for_a_job_elsewhere(server, here, monkeypatch, capsys):
    monkeypatch.setattr("trainer.config.machine.count_gpus", lambda environ: 0)
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    asked = ["my.toml", "--set", "policy.model_name=Qwen/Qwen3-4B"]
    report = {"created": "2026-01-01T00:00:00+00:00", "policy": "mock", "verdict": "ready", "verdict_text": ""}
    write_report(kept_file(load(here / "my.toml", sets=asked[2:]).config_hash), report)
    assert main(["preflight", *asked, "--target", server.url, "--json"]) == 0
    checks = {one["id"]: one["message"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert "ready, " in checks["smoke"]


def test_a_resume_is_asked_for_once_with_its_step_and_live_keys(server, job, monkeypatch):
    asked = []

    class Silent(Backend):
        def post(self, path, body=None, *, headers=None, timeout_s=None):
            asked.append((path, body, headers))
            raise BackendError("no answer")

    launcher = ServerLauncher(server.url)
    launcher._client = Silent(server.url)
    environ = {"ENVIRONMENT_API_KEY": "app-key"}
    more = {"from_step": 4, "sets": ("training.learning_rate=1e-4",), "environ": environ}
    again = replace(job, job_id="rl_7", resume=True, **more)
    with pytest.raises(LaunchError):
        launcher.start(again)
    body = {"from": 4, "overrides": {"training.learning_rate": 1e-4}}
    assert asked == [("/rl/jobs/rl_7/resume", body, {APP_KEY_HEADER: "app-key"})]


def test_stop_and_kill_are_asked_of_the_server(server, job):
    server_job = ServerLauncher(server.url).start(job)
    server.until(job_id(server_job), "running", "succeeded")
    assert server_job.exit_code() in (None, 0)
    server_job.kill()
    done = server.until(job_id(server_job), "cancelled", "succeeded")
    assert server_job.exit_code() == (0 if done["status"] == "succeeded" else 3)


def test_train_follows_a_job_of_a_server_and_a_key_finds_it_again(server, here, capsys):
    asked = ["train", "my.toml", "--backend", server.url, "--idempotency", "k", "--poll-interval", "0.1", "--json"]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["state"] == "succeeded" and found["run_dir"] is None
    assert found["run"] == f"{server.url}/rl/jobs/{found['job_id']}"
    assert "step 4/4" in err and "next" in err and f"show {found['run']}" in err
    assert main([*asked, "--stream-format", "chart"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["job_id"] == found["job_id"]
    assert "step 4/4" not in err and "reward" in err and any("⠀" <= sign <= "⣿" for sign in err)
    assert main(["runs", server.url, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["step"], row["path"]) == ("succeeded", 4, found["run"])
    assert main(["train", "--resume", found["run"]]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_following_ends_after_its_time_and_the_job_goes_on(here, server, capsys):
    server.stop()
    server.env["FAKE_STEPS"] = "1000000"  # it ends when it is asked to
    server.start()
    asked = ["train", "my.toml", "--backend", server.url, "--poll-interval", "0.1", "--poll-timeout", "1.5"]
    assert main(asked) == 3
    assert "goes on" in capsys.readouterr().out
    (one,) = jobs(server)
    server.until(one["job_id"], "running")
    address = f"{server.url}/rl/jobs/{one['job_id']}"
    assert main(["train", "my.toml", "--backend", server.url, "--detach", "--json"]) == 0  # one at a time: it waits
    waiting = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert waiting["state"] == "queued"
    assert main(["stop", waiting["run"]]) == 0
    server.until(waiting["job_id"], "cancelled")
    assert [one["status"] for one in jobs(server)] == ["cancelled", "running"]
    assert main(["steer", address, "checkpoint"]) == 0  # a fake run ends at any request
    server.until(one["job_id"], "cancelled")
    assert main(["steer", address, "pause"]) == 3


def test_preflight_asks_the_target(here, server, capsys):
    assert main(["preflight", "my.toml", "--target", server.url, "--json"]) == 0
    out, _ = capsys.readouterr()
    checks = {one["id"]: one for one in json.loads(out)["checks"]}
    assert checks["target"]["verdict"] == "ok" and any("queued" in note for note in checks["target"]["notes"])
    assert "gpus" not in checks
    assert main(["preflight", "my.toml", "--target", "http://127.0.0.1:9"]) == 3
    assert "no answer from http://127.0.0.1:9" in capsys.readouterr().out


def test_a_server_that_is_gone_for_a_while_is_waited_for(here, server, capsys):
    server.stop()
    server.env |= {"FAKE_STEPS": "40", "FAKE_HOLD": f"20:{here}/go-on"}
    server.start(free_port())
    command = [sys.executable, "-m", "rltui", "train", "my.toml", "--backend", server.url, "--poll-interval", "0.05"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("step 8/"):
            server.kill()
        if "trying again" in line:
            server.start(server.port)
        if "it answers again" in line:
            (here / "go-on").touch()
    assert process.wait(60) == 0
    assert "it answers again\n" in lines
    told = [line.split()[1] for line in lines if line.startswith("step ")]
    assert told == [f"{step}/40" for step in range(1, 41)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--target", "nowhere"], "is no target"),
        (["--target", "local", "--backend", "http://x"], "give it or --target"),
        (["--backend", "ftp://x"], "not the address of a job server"),
        (["--target", "http://127.0.0.1:9", "--run-dir", "x"], "names its runs itself"),
        (["--idempotency", "k"], "is for a job server"),
        (["--target", "http://127.0.0.1:9", "--resume", "x"], "without --target"),
        (["--env", "nothing.env"], "no such file"),
        (["--poll-timeout", "-1"], "no number of seconds"),
    ],
)
def test_options_that_do_not_fit_are_told(here, capsys, args, words):
    assert main(["train", "my.toml", *args]) == 2
    assert words in capsys.readouterr().err


def test_variables_of_a_file_are_the_runs(here, monkeypatch, capsys):
    monkeypatch.setenv("SET_ALREADY", "here")
    monkeypatch.setenv("TASK_APP_URL", "x")
    monkeypatch.delenv("TASK_APP_URL")  # so that it is taken back at the end
    (here / "my.env").write_text("TASK_APP_URL=http://127.0.0.1:7\nSET_ALREADY=there\n")
    assert main(["train", "my.toml", "--env", "my.env", "--target", "http://127.0.0.1:9", "--dry-run", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "http://127.0.0.1:7" in json.loads(out)["command"]
    assert "SET_ALREADY of my.env stay here: set them where the server runs" in err
    assert main(["train", "my.toml", "--env", "my.env", "--dry-run"]) == 0
    assert "stay here" not in "".join(capsys.readouterr())
