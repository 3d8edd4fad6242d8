import contextlib
import logging

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trainer.taskapp.client import TaskAppClient
from trainer.taskapp.errors import RolloutFailure, TaskAppError, TaskAppRejected
from trainer.taskapp.server import TaskAppConfig, check_bind, create_task_app, refuse, run_task_app

from .conftest import KEY, request_body, serving


def config(rollout=lambda request, http: {"metrics": {"outcome_reward": 0.5}}, **changes):
    values = {
        "app_id": "toy",
        "name": "Toy",
        "description": "A toy.",
        "base_task_info": {"task": {"id": "toy", "version": "2"}, "limits": {"max_turns": 3}},
        "describe_taskset": lambda: {"sizes": {"train": 5}},
        "provide_task_instances": lambda seeds: [{"task_metadata": {"seed": s}} for s in seeds],
        "rollout": rollout,
        "rubrics": {"outcome": {"name": "o", "criteria": []}, "events": None},
    }
    return TaskAppConfig(**(values | changes))


TOY = config()


@pytest.fixture(scope="module")
def servers():
    """servers(app_config) -> URL; each config is served once."""
    running = {}
    with contextlib.ExitStack() as stack:

        def url_of(app_config):
            key = id(app_config)
            if key not in running:
                url = stack.enter_context(serving(create_task_app(app_config)))
                running[key] = (url, app_config)  # kept alive, so that no other config gets its id
            return running[key][0]

        yield url_of


@pytest.fixture
def call(key, servers):
    """call(config, method, path, **httpx options) -> response of a real server."""

    def send(app_config, method, path, headers=None, **options):
        headers = {"X-API-Key": KEY} if headers is None else headers
        return httpx.request(method, servers(app_config) + path, headers=headers, **options)

    return send


def test_root_is_open_and_health_is_not(call):
    assert call(TOY, "GET", "/", headers={}).json() == {"status": "ok", "service": "toy"}
    assert call(TOY, "HEAD", "/", headers={}).status_code == 200
    healthy = {"healthy": True, "auth": {"required": True, "expected_prefix": None}}
    assert call(TOY, "GET", "/health").json() == healthy


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": KEY},
        {"X-API-Keys": f"other, {KEY}"},
        {"Authorization": f"bearer {KEY}"},
        {"X-API-Key": "an-alias-of-it"},
    ],
)
def test_any_header_and_alias_opens(call, monkeypatch, headers):
    monkeypatch.setenv("ENVIRONMENT_API_KEY_ALIASES", "an-alias-of-it,second")
    assert call(TOY, "GET", "/health", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"X-API-Key": "wrong"}, {"X-API-Key": KEY[:-1]}, {"Authorization": f"Basic {KEY}"}]
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("POST", "/rollout"), ("GET", "/task_info")])
def test_a_wrong_key_is_400_and_leaks_nothing(call, headers, method, path):
    response = call(TOY, method, path, headers=headers)
    error = response.json()["detail"]["error"]
    assert response.status_code == 400 and error["code"] == "unauthorised"
    assert error["allowed_count"] == 1 and error["allowed_first15"] == error["got_first15"] == []
    assert KEY[:4] not in response.text and "wrong" not in response.text


def test_a_server_without_a_key_says_so(call, monkeypatch):
    for name in ("ENVIRONMENT_API_KEY", "dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    response = call(TOY, "GET", "/health")
    assert response.status_code == 503
    assert response.json()["detail"]["error"]["code"] == "missing_environment_api_key"
    assert call(config(require_api_key=False), "GET", "/health", headers={}).status_code == 200
    monkeypatch.setenv("dev_environment_api_key", KEY)
    assert call(TOY, "GET", "/health").status_code == 200


def test_info_and_task_info(call):
    info = call(TOY, "GET", "/info").json()
    assert info["service"] == {"task": {"id": "toy", "version": "2"}, "version": "2"}
    assert info["rubrics"]["outcome"]["name"] == "o" and info["limits"] == {"max_turns": 3}
    assert call(TOY, "GET", "/task_info").json() == {"taskset": {"sizes": {"train": 5}}}
    one = call(TOY, "GET", "/task_info?seed=3").json()
    assert one["task_metadata"] == {"seed": 3} and one["task"]["id"] == "toy"
    for query in ("seed=1&seed=2", "seeds=1&seeds=2"):
        infos = call(TOY, "GET", f"/task_info?{query}").json()
        assert [i["task_metadata"]["seed"] for i in infos] == [1, 2]
    assert call(TOY, "GET", "/task_info?seed=x").status_code == 422
    finite = config(provide_task_instances=lambda seeds: [{} for s in seeds if s < 5])
    missing = call(finite, "GET", "/task_info?seed=5")
    assert missing.status_code == 422 and missing.json()["detail"]["error"]["code"] == "seed_out_of_range"
    assert len(call(finite, "GET", "/task_info?seed=4&seed=5").json()) == 1


def test_info_of_an_app_whose_parts_are_broken_strings(call):
    broken = config(base_task_info="<circular TaskInfo>")
    assert call(broken, "GET", "/info").json()["service"] == {"task": None, "version": None}
    assert call(broken, "GET", "/task_info?seed=3").json() == {"task_metadata": {"seed": 3}}
    half = config(base_task_info={"task": "<circular TaskDescriptor>"})
    assert call(half, "GET", "/info").json()["service"]["task"] == "<circular TaskDescriptor>"


def test_done_debug_and_own_routes(call):
    async def extra(_):
        return JSONResponse({"own": 1})

    own = config(routers=[Route("/own", extra)], expose_debug_env=True)
    assert call(own, "POST", "/done").json() == {"ok": True, "service": "toy"}
    assert call(own, "GET", "/own").json() == {"own": 1}
    assert call(own, "GET", "/own", headers={}).status_code == 400
    debug = call(own, "GET", "/debug/env")
    assert debug.json()["ENVIRONMENT_API_KEY"] is True and KEY[:4] not in debug.text
    assert call(TOY, "GET", "/debug/env").status_code == 404


async def test_client_and_server_play_an_episode(key):
    async def rollout(request, http_request):
        assert isinstance(http_request, Request) and http_request.app.state.colour == "red"
        assert http_request.app.state.dataset_registry == {"toy": 1}
        return {
            "metrics": {"outcome_reward": request.env.seed / 4},
            "trajectories": [{"steps": [{"reward": 1}]}],
        }

    hooks = []
    app = create_task_app(
        config(
            rollout,
            app_state={"colour": "red"},
            dataset_registry={"toy": 1},
            startup_hooks=[lambda: hooks.append("up")],
            shutdown_hooks=[lambda: hooks.append("down")],
        )
    )
    with serving(app) as url:
        async with TaskAppClient(url, api_key=key) as client:
            assert (await client.health_gate()).sizes == {"train": 5}
            assert (await client.info()).limits.max_turns == 3
            parsed = await client.rollout(request_body(seed=3))
    assert parsed.outcome == 0.75 and parsed.warnings == [] and parsed.num_steps == 1
    assert hooks == ["up", "down"]


async def test_client_with_a_wrong_key_stops(key):
    with serving(create_task_app(config())) as url:
        async with TaskAppClient(url, api_key="wrong-wrong-wrong") as client:
            with pytest.raises(TaskAppRejected) as caught:
                await client.rollout(request_body())
    assert caught.value.reason == "auth" and "wrong-wrong" not in str(caught.value)


async def test_a_failing_handler_is_a_json_500_with_its_traceback_in_the_log_only(key, caplog):
    def rollout(request, http_request):
        raise ZeroDivisionError("secret cause")

    with serving(create_task_app(config(rollout))) as url, caplog.at_level(logging.ERROR, "trainer.taskapp"):
        async with TaskAppClient(url, api_key=key) as client:
            with pytest.raises(RolloutFailure) as caught:
                await client.rollout(request_body())
    assert caught.value.code == "http_error" and caught.value.detail["status"] == 500
    assert "internal_error" in caught.value.evidence and "secret cause" not in caught.value.evidence
    error_id = caplog.records[0].args[0]
    assert str(caught.value).endswith(f"once: the task app failed; its log has the cause under {error_id}")
    assert error_id in caught.value.evidence and "secret cause" in caplog.text


def test_an_invalid_result_names_its_fields(call):
    bad = config(lambda request, http: {"metrics": {"outcome_reward": float("nan")}})
    response = call(bad, "POST", "/rollout", json=request_body())
    error = response.json()["detail"]["error"]
    assert response.status_code == 500 and error["code"] == "invalid_rollout_response"
    assert error["fields"] == [{"path": "metrics.outcome_reward", "message": "nan is not a JSON number"}]
    assert error["message"].endswith("an invalid answer: metrics.outcome_reward: nan is not a JSON number")


def test_bad_requests(call):
    assert call(TOY, "POST", "/rollout", content=b"{").status_code == 400
    response = call(TOY, "POST", "/rollout", json={"env": {}, "policy": {}})
    assert response.status_code == 422 and response.json()["detail"][0]["loc"][0] == "body"
    assert call(TOY, "GET", "/rollout").status_code == 405
    assert call(TOY, "GET", "/nothing").status_code == 404


def test_a_handler_may_refuse(call):
    def rollout(request, http_request):
        raise refuse(422, "seed_out_of_range", "no such seed")

    response = call(config(rollout), "POST", "/rollout", json=request_body())
    assert response.status_code == 422
    assert response.json() == {"detail": {"error": {"code": "seed_out_of_range", "message": "no such seed"}}}


def test_cors_only_where_asked(call):
    headers = {"Origin": "http://a", "X-API-Key": KEY}
    allowed = call(config(cors_origins=["http://a"]), "GET", "/health", headers=headers)
    assert allowed.headers["access-control-allow-origin"] == "http://a"
    plain = call(TOY, "GET", "/health", headers=headers)
    assert "access-control-allow-origin" not in plain.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_other_addresses_than_loopback_need_a_key(host, monkeypatch):
    with pytest.raises(TaskAppError, match="without a key"):
        check_bind(host, has_key=False)
    check_bind(host, has_key=True)
    for name in ("ENVIRONMENT_API_KEY", "dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TaskAppError):
        run_task_app(config, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_loopback_needs_none(host):
    check_bind(host, has_key=False)
