"""Keys of the server's machine go to nobody whom its operator did not name."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rltui.server.keys import UNREADABLE, keys_for, trusted_origins
from rltui.server.record import read_values
from rltui.server.serve import CannotServe, Options, serve
from rltui.server.table import STARTED
from tests.server.conftest import Server, body
from tests.waiting import until
from trainer.rundir import RunReader

APP = "http://10.0.0.7:8001"
OWN = {
    "ENVIRONMENT_API_KEY": "own",
    "ENVIRONMENT_API_KEY_ALIASES": "own2",
    "dev_environment_api_key": "own3",
    "SYNTH_API_KEY": "synth",
    "JUDGE_API_KEY": "judge",
    "OPENAI_API_KEY": "openai",
    "VLLM_API_KEY": "engine",
    "PATH": "/bin",
}


def names(values, key=None, trusted=()):
    environ, told = keys_for(OWN, values, key, trusted)
    return set(OWN) - set(environ), told


def test_a_run_that_calls_nobody_keeps_what_its_provider_needs():
    values = {"services.task_url": "builtin:facts", "judge.options.api_key_env": "OPENAI_API_KEY"}
    assert names(values) == (set(), [])


def test_the_own_key_goes_to_a_named_task_app_alone():
    held, (told,) = names({"services.task_url": f"{APP}/x"})
    assert held == {"ENVIRONMENT_API_KEY", "ENVIRONMENT_API_KEY_ALIASES", "dev_environment_api_key"}
    assert f"--trust {APP}" in told
    assert "X-Environment-API-Key" in told
    assert "own" not in told.split()
    for trusted in (trusted_origins([APP], {}), trusted_origins([], {"TASK_APP_URL": f"{APP}/"})):
        assert names({"services.task_url": f"{APP}/x"}, trusted=trusted) == (set(), [])
    others = trusted_origins(["https://10.0.0.7:8001", "http://10.0.0.7", "http://10.0.0.7.evil:8001"], {})
    assert len(names({"services.task_url": APP}, trusted=others)[0]) == 3


def test_the_key_that_came_with_a_job_takes_the_place_of_the_own():
    environ, told = keys_for(OWN, {"services.task_url": APP}, "theirs", trusted_origins([APP], {}))
    assert environ["ENVIRONMENT_API_KEY"] == "theirs"
    assert not {"ENVIRONMENT_API_KEY_ALIASES", "dev_environment_api_key"} & environ.keys()
    assert told == []


def test_judges_and_engines_that_were_not_named_get_no_key():
    assert names({"services.judge_url": "http://127.0.0.1:5"})[0] == {"SYNTH_API_KEY"}
    base = {"judge.options.base_url": "http://127.0.0.1:5/v1"}
    assert names(base)[0] == {"JUDGE_API_KEY"}
    assert names({**base, "judge.options.api_key_env": "OPENAI_API_KEY"})[0] == {"OPENAI_API_KEY"}
    assert names({"inference.url": "http://127.0.0.1:5"})[0] == {"VLLM_API_KEY"}
    assert set(OWN) - names(UNREADABLE)[0] == {"OPENAI_API_KEY", "PATH"}


def test_an_address_that_is_none_is_said(tmp_path):
    options = Options("127.0.0.1", 0, tmp_path, False, 1, (), False, ("10.0.0.7:8001",))
    with pytest.raises(CannotServe, match="--trust takes an http") as error:
        serve(options, lambda *_: None)
    assert error.value.usage
    assert options.argv()[-2:] == ["--trust", "10.0.0.7:8001"]


@pytest.mark.parametrize("named", [False, True])
def test_a_job_is_started_with_the_own_key_only_where_its_app_was_named(make_jobs, named):
    url = "http://127.0.0.1:9"
    jobs = make_jobs("deaf", trusted=[url] if named else [])
    jobs.house.environ.update(OWN, FAKE_STEPS="4000")
    jobs.open()
    row, _ = jobs.create(body({"services": {"task_url": url}}), idempotency_key=None, key=None)
    until(lambda: row.stage == STARTED)
    with open(f"/proc/{row.pid}/environ") as file:
        environ = dict(item.partition("=")[::2] for item in file.read().split("\0"))
    assert environ.get("ENVIRONMENT_API_KEY") == ("own" if named else None)
    events = RunReader(jobs.folder(row.job_id)).events()
    assert any(event["data"].get("code") == "key_held_back" for event in events) is not named
    assert read_values(jobs.folder(row.job_id))["services.task_url"] == url


class _App(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.headers.get("x-api-key"))
        self.send_response(200 if self.headers.get("x-api-key") else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def app():
    with HTTPServer(("127.0.0.1", 0), _App) as server:
        server.seen, server.url = [], f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("named", [False, True])
def test_an_app_is_verified_with_the_own_key_only_where_it_was_named(tmp_path, app, named):
    options = ["--trust", f"{app.url}/some/path"] if named else []
    server = Server(tmp_path, *options, env={"ENVIRONMENT_API_KEY": "own"})
    asked = {"endpoint_base_url": app.url}
    found = server.post("/rl/verify_task_app", asked)
    assert (found["any_ok"], set(app.seen)) == (named, {"own" if named else None})
    if not named:
        assert (
            f"set ENVIRONMENT_API_KEY where the client runs, or start the server with --trust {app.url}"
            in (found["attempts"][0]["error"])
        )
    app.seen.clear()
    assert server.post("/rl/verify_task_app", asked, X_Environment_API_Key="theirs")["any_ok"]
    assert set(app.seen) == {"theirs"}
    for url in (f"{app.url}?key=x", f"{app.url}/#x", app.url.replace("//", "//me:pw@")):
        assert server.post("/rl/verify_task_app", {"endpoint_base_url": url}, 422)["error"]["code"] == "url_not_allowed"
    server.stop()
