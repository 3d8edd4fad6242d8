import pytest

from trainer.config import load
from trainer.errors import RunError
from trainer.inference.gateway import Gateway
from trainer.way_back import ReachableGateway, address_towards, check_way_back, is_loopback, own_url


def config(*sets):
    return load("sample_configs/demo.toml", sets=sets, environ={}).config


@pytest.fixture(autouse=True)
def at_the_root(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("x", False)],
)
def test_loopback_addresses(host, expected):
    assert is_loopback(host) is expected


def test_an_app_elsewhere_needs_a_way_back_and_both_keys_are_named():
    with pytest.raises(RunError, match=r"app\.example") as caught:
        check_way_back(config("services.task_url=https://app.example"))
    assert caught.value.exit_code == 2
    assert "inference.public_url" in caught.value.hint and "inference.tunnel" in caught.value.hint


@pytest.mark.parametrize(
    "way",
    ["inference.public_url=https://here.example", "inference.gateway_host=0.0.0.0", "inference.tunnel=quick"],
)
def test_with_a_way_back_it_passes(way):
    check_way_back(config("services.task_url=https://app.example", way))


def test_a_gateway_on_every_interface_is_called_on_the_one_that_leads_to_the_app():
    assert own_url("http://127.0.0.1:8000", "http://192.0.2.9:1") is None
    assert own_url("http://0.0.0.0:8000", "http://127.0.0.1:1") == "http://127.0.0.1:8000"
    assert own_url("http://0.0.0.0:8000", "builtin:facts") == "http://127.0.0.1:8000"
    assert own_url("http://[::]:8000", "http://[::1]:1") in ("http://[::1]:8000", "http://127.0.0.1:8000")
    assert own_url("http://0.0.0.0:8000", "http://no-such-host.invalid") == "http://127.0.0.1:8000"
    assert address_towards("no-such-host.invalid") is None


def test_the_latest_address_is_the_one_given_out():
    gateway = ReachableGateway(None, "127.0.0.1", 8000)
    assert gateway.public_url == Gateway(None, "127.0.0.1", 8000).public_url == "http://127.0.0.1:8000"
    gateway.advertised = "https://a.example/"
    assert gateway.chat_url("c") == "https://a.example/v1/chat/completions?cid=c"
    assert gateway.base_url("c") == "https://a.example/cid/c/v1"
    assert ReachableGateway(None, public_url="https://given.example").public_url == "https://given.example"
