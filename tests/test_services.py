import pytest

from trainer.config import load
from trainer.errors import RunError
from trainer.services import check_way_back, is_loopback


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


@pytest.mark.parametrize("way", ["inference.public_url=https://here.example", "inference.gateway_host=0.0.0.0"])
def test_with_a_way_back_it_passes(way):
    check_way_back(config("services.task_url=https://app.example", way))
