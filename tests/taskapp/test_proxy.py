import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainer.taskapp.proxy import ProxyConfig, with_hint
from trainer.taskapp.server import create_task_app

from .conftest import KEY, serving
from .test_server import config

VENDOR_KEY = "vendor-key-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def vendor():
    """(URL, what it was asked): a vendor that answers 200, or 429 for the model `busy`, and repeats the key."""
    asked = []

    async def complete(request: Request):
        body = await request.json()
        asked.append((request.headers["authorization"], body))
        status = 429 if body["model"] == "busy" else 200
        return JSONResponse({"choices": [], "echo": request.headers["authorization"]}, status)

    with serving(Starlette(routes=[Route("/c", complete, methods=["POST"])])) as url:
        yield f"{url}/c", asked


@pytest.fixture
def post(key):
    def send(proxy, path, body=BODY, headers=None):
        with serving(create_task_app(config(proxy=proxy))) as url:
            return httpx.post(url + path, json=body, headers={"X-API-Key": KEY} if headers is None else headers)

    return send


def test_calls_are_relayed_with_the_servers_key_which_never_comes_back(post, vendor, monkeypatch):
    url, asked = vendor
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR_KEY)
    monkeypatch.setenv("GROQ_API_KEY", VENDOR_KEY)
    for path in ("/proxy/v1/chat/completions", "/proxy/groq/v1/chat/completions", "/proxy/groq/chat/completions"):
        answer = post(ProxyConfig(openai_url=url, groq_url=url), path)
        assert answer.status_code == 200 and answer.json() == {"choices": [], "echo": "Bearer ***"}
    assert asked == [(f"Bearer {VENDOR_KEY}", BODY)] * 3
    assert post({"openai_url": url}, "/proxy/v1/chat/completions", BODY | {"model": "busy"}).status_code == 429


def test_it_is_served_only_where_asked_for_and_behind_the_key(post, vendor, monkeypatch):
    url, asked = vendor
    monkeypatch.setenv("OPENAI_API_KEY", VENDOR_KEY)
    assert post(None, "/proxy/v1/chat/completions").status_code == 404
    assert post(ProxyConfig(enable_openai=False), "/proxy/v1/chat/completions").status_code == 404
    assert post(ProxyConfig(openai_url=url), "/proxy/v1/chat/completions", headers={}).status_code == 400
    assert post(ProxyConfig(openai_url=url), "/proxy/v1/chat/completions", body=[]).status_code == 400
    assert asked == []


@pytest.mark.parametrize(
    ("vendor_key", "status", "code"), [("", 503, "missing_openai_api_key"), ("k" * 9, 502, "vendor_unreachable")]
)
def test_what_the_proxy_cannot_do_it_says(post, monkeypatch, vendor_key, status, code):
    monkeypatch.setenv("OPENAI_API_KEY", vendor_key)
    answer = post(ProxyConfig(openai_url="http://127.0.0.1:1/c"), "/proxy/v1/chat/completions")
    assert answer.status_code == status and answer.json()["detail"]["error"]["code"] == code


def test_a_hint_goes_before_the_system_message_and_leaves_the_request_alone():
    hinted = with_hint(BODY, "be kind")
    assert hinted["messages"] == [{"role": "system", "content": "be kind"}, *BODY["messages"]]
    assert len(BODY["messages"]) == 1
    assert with_hint(hinted, "first")["messages"][0]["content"] == "first\n\nbe kind"
