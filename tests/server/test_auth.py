"""Who may come in: token, Host, Origin and size, at a real server and at the rule itself."""

import json
import stat
import subprocess

import httpx
import pytest
from starlette.datastructures import Headers

from rltui.cli.main import main
from rltui.server.answers import Refused
from rltui.server.auth import LEAST_TOKEN_CHARS, Access, hash_of, made_token
from tests.server.conftest import COMMAND, Server, environment

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("auth"), env={"RLTUI_API_KEY": TOKEN})
    yield found
    found.stop()


def test_wrong_tokens_all_get_one_answer(server):
    """Nothing in it tells how near a guess was, and no number of guesses keeps the right one out."""
    guesses = [TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "x" * 10_000, "ä", *(f"guess-{i}" for i in range(60))]
    seen = set()
    for guess in guesses:
        headers = [("authorization", f"Bearer {guess}".encode())]
        answer = server.http.get("/rl/jobs", headers=headers)
        seen.add((answer.status_code, answer.headers["www-authenticate"], answer.content))
    for header in (None, TOKEN, f"Basic {TOKEN}", "Bearer"):
        answer = server.http.get("/rl/jobs", headers={} if header is None else {"authorization": header})
        seen.add((answer.status_code, answer.headers["www-authenticate"], answer.content))
    ((status, scheme, content),) = seen
    assert (status, scheme) == (401, "Bearer")
    found = json.loads(content)
    assert found["error"]["code"] == "unauthorized"
    assert next(iter(found)) == "detail"
    assert server.http.get("/rl/jobs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_command_says_once_what_to_do_without_a_token(server, capsys, monkeypatch):
    for name in ("RLTUI_API_KEY", "SYNTH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for args in (["runs", server.url], ["show", f"{server.url}/rl/jobs/rl_{0:016x}"]):
        assert main(args) != 0
        told = "".join(capsys.readouterr())
        assert told.count("RLTUI_API_KEY") == 1 and "wants its token" in told


def test_health_and_version_need_no_token_and_everything_else_does(server):
    assert server.http.get("/health").json() == {"status": "ok"}
    assert server.http.get("/version").json()["api"] == 1
    for path in ("/system", "/rl/jobs/x/events", "/jobs/stream", "/models", "/nowhere", "/health/x"):
        assert server.http.get(path).status_code == 401, path


def test_no_secret_is_written_anywhere(server):
    for path in [*server.state.rglob("*"), *server.runs.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes(), path
    assert server.told["token"] is None
    assert server.told["needs_token"] is True


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "", "169.254.1.1", "[::2]"]
)
def test_a_foreign_host_is_refused_before_anything_else(server, host):
    answer = server.http.get("/health", headers={"host": host})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_web_pages_from_elsewhere_are_refused(server, origin):
    answer = server.http.post("/rl/jobs", json={}, headers={"origin": origin, "authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_the_server_itself_may_ask(server):
    host = f"127.0.0.1:{server.port}"
    assert server.http.get("/health", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_refused(server, chunked):
    data = b"x" * (6 << 20)
    parts = (data[i : i + 65_536] for i in range(0, len(data), 65_536))
    headers = {"authorization": f"Bearer {TOKEN}"}
    try:
        answer = server.http.post("/rl/jobs", content=parts if chunked else data, headers=headers)
    except httpx.WriteError:  # it is refused while we still write
        return
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


def test_names_by_which_a_server_for_others_may_be_called():
    access = Access.of("0.0.0.0", hash_of(TOKEN), ["gpu-box"])
    right = f"Bearer {TOKEN}"
    for host in ("127.0.0.1:8787", "[::1]:8787", "localhost", "10.0.0.7:8787", "GPU-box:1"):
        access.check("/api/x", Headers({"host": host, "authorization": right}))
    for host in ("rebound.example", "gpu-box.evil.example"):
        with pytest.raises(Refused, match="not called"):
            access.check("/api/x", Headers({"host": host, "authorization": right}))
    twice = Headers(raw=[(b"host", b"localhost"), (b"authorization", right.encode()), (b"authorization", b"Bearer x")])
    with pytest.raises(Refused, match="token"):
        access.check("/api/x", twice)


def test_a_generated_token_is_seen_once_and_kept_as_a_hash(tmp_path):
    file = tmp_path / "state" / "token.json"
    hashed, token = made_token(file)
    assert hashed == hash_of(token)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    assert made_token(file) == (hashed, None)
    renewed, other = made_token(file, renew=True)
    assert (renewed != hashed, other != token) == (True, True)
    file.write_text("{}")
    assert made_token(file)[1] is not None  # a damaged file lets nobody in


def test_other_machines_need_a_token_and_the_one_that_was_made_is_shown_once(tmp_path):
    first = Server(tmp_path, "--host", "0.0.0.0")
    token = first.told["token"]
    assert first.http.get("/rl/jobs").status_code == 401
    assert first.http.get("/rl/jobs", headers={"authorization": f"Bearer {token}"}).status_code == 200
    first.stop()
    again = Server(tmp_path, "--host", "0.0.0.0")
    assert again.told["token"] is None
    assert again.http.get("/rl/jobs", headers={"authorization": f"Bearer {token}"}).status_code == 200
    again.stop()
    for path in (tmp_path / "state").rglob("*"):
        assert path.is_dir() or token.encode() not in path.read_bytes()


def test_a_short_token_is_refused_where_other_machines_can_guess(tmp_path):
    env = environment(tmp_path, {"RLTUI_API_KEY": "x" * (LEAST_TOKEN_CHARS - 1)})
    done = subprocess.run([*COMMAND, "--host", "0.0.0.0", "--port", "0"], env=env, cwd=tmp_path, capture_output=True)
    assert done.returncode == 2
    assert b"too short" in done.stderr
