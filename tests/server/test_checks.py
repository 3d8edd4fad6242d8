"""What a client's config may not do, and which addresses the server calls."""

import ipaddress
import socket

import pytest

from rltui.server.answers import Refused
from rltui.server.checks import client_problems, job_environment
from rltui.server.submit import House, invalid
from rltui.server.urls import is_forbidden, why_not, without_user
from tests.server.conftest import CONFIG
from trainer.config import ConfigError, load_mapping

GPU = {"gpu_type": "H100", "gpu_count": 1}
RULES = {"type": "rule", "enabled": True}


def found(config: dict, *, allow_code: bool = False) -> dict[str, str]:
    merged = {name: {**CONFIG.get(name, {}), **config.get(name, {})} for name in {**CONFIG, **config}}
    problems = client_problems(load_mapping(merged, environ={}), allow_code=allow_code)
    return {problem.key: problem.code for problem in problems}


def judged(rule: dict) -> dict:
    criteria = [{"id": "a", "description": "d", "rule": rule}]
    return {"judge": {**RULES, "options": {"rubric_overrides": {"outcome": {"criteria": criteria}}}}}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"services": {"task_url": "apps/mine.py"}}, "services.task_url"),
        ({"services": {"task_url": "reasoning_gym:gcd"}}, "services.task_url"),
        ({"services": {"task_url": "builtin:verifiers.some"}}, "services.task_url"),
        (judged({"kind": "python", "value": "os:getcwd"}), "judge.options.rubric_overrides"),
        ({"vllm": {"tool_parser_plugin": "/tmp/x.py"}}, "vllm.tool_parser_plugin"),
        ({"vllm": {"trust_remote_code": True}}, "vllm.trust_remote_code"),
        (
            {"compute": {**GPU, "launcher": "slurm", "launcher_options": {"setup": "curl x | sh"}}},
            "compute.launcher_options.setup",
        ),
    ],
)
def test_code_of_clients_needs_the_servers_permission(config, key):
    assert found(config) == {key: "code_not_allowed"}
    assert found(config, allow_code=True) == {}


def test_what_runs_no_code_is_fine():
    assert found({}) == {}
    options = {"partition": "gpu", "mem_per_cpu": "4G", "custom": 2}
    assert found({"compute": {**GPU, "launcher": "slurm", "launcher_options": options}}) == {}
    assert found(judged({"kind": "regex", "value": "x+"})) == {}
    assert found({"vllm": {"max_num_seqs": 4, "trust_remote_code": False}}) == {}


def test_only_keys_of_apis_go_to_an_address_that_the_client_names():
    options = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "rubric_id": "r"}
    secret = {"judge": {"enabled": True, "type": "llm", "options": {**options, "api_key_env": "AWS_SECRET_ACCESS_KEY"}}}
    assert found(secret) == {"judge.options.api_key_env": "env_not_allowed"}
    fine = {"judge": {"enabled": True, "type": "llm", "options": {**options, "api_key_env": "MY_API_KEY"}}}
    assert found(fine) == {}


@pytest.mark.parametrize("key", ["services.task_url", "services.judge_url", "judge.options.base_url", "inference.url"])
def test_no_address_of_a_client_leads_to_the_clouds_credentials(key):
    section, _, name = key.rpartition(".")
    config = {section: {name: "http://169.254.169.254/latest"}}
    if section == "judge.options":
        options = {name: "http://169.254.169.254/latest", "model": "m", "rubric_id": "r"}
        config = {"judge": {"enabled": True, "type": "llm", "options": options}}
    assert found(config)[key] == "url_not_allowed"
    assert found(config, allow_code=True)[key] == "url_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://h/",
        "http://169.254.169.254/",
        "http://2852039166/",  # the same address in one number
        "http://0xa9fea9fe/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fe80::1]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://metadata.google.internal./",
        "http://0.0.0.0:8001/",
        "http://224.0.0.1/",
        "http:///x",
        "http://h:99999/",
    ],
)
def test_forbidden_addresses(url):
    assert why_not(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8001", "https://10.0.0.7/x", "http://[::1]:1", "http://nowhere.invalid"]
)
def test_addresses_of_task_apps_are_allowed(url):
    assert why_not(url) is None


def test_a_name_is_judged_by_all_that_it_stands_for(monkeypatch):
    def answers(host, port, **_):
        return [(0, 0, 0, "", (address, port)) for address in ("93.184.216.34", "169.254.169.254")]

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    assert "169.254.169.254" in (why_not("http://innocent.example/") or "")
    assert not is_forbidden(ipaddress.ip_address("93.184.216.34"))


def test_no_part_of_a_config_comes_from_the_servers_environment():
    environ = {"TASK_APP_URL": "http://x", "RLTUI__TRAINING__SEED": "3", "RLTUI_TRACEBACK": "1", "HOME": "/h"}
    assert job_environment(environ) == {"RLTUI_TRACEBACK": "1", "HOME": "/h"}


def test_an_address_is_shown_without_its_password():
    assert without_user("https://me:pw@host:1/x@y") == "https://host:1/x@y"
    assert without_user("builtin:facts") == "builtin:facts"


def test_a_refusal_names_the_first_problem_and_counts_the_others(tmp_path):
    with pytest.raises(ConfigError) as error:
        load_mapping({**CONFIG, "training": {**CONFIG["training"], "group_size": 5, "zzz": 1}}, "config", environ={})
    refused = invalid(error.value)
    assert isinstance(refused, Refused)
    assert (refused.status, refused.code) == (422, "invalid_config")
    assert {item["key"] for item in refused.errors} == {"training.group_size", "training.zzz"}
    assert str(refused).endswith(" And 1 more problem.")
    assert all(item["file"].startswith("config#/training/") for item in refused.errors)
    assert House(tmp_path, False, {}).sets
