"""What a client's config may not do, and which addresses the server calls."""

import ipaddress
import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

from rltui.server.answers import Refused
from rltui.server.checks import VLLM_OPTIONS, client_problems, job_environment
from rltui.server.submit import House, invalid
from rltui.server.urls import bare, is_forbidden, why_not, without_user
from tests.server.conftest import CONFIG
from trainer.config import ConfigError, load_mapping
from trainer.config.engine_options import why_refused
from trainer.inference.vllm.process import is_installed

needs_vllm = pytest.mark.skipif(not is_installed(), reason="vLLM is not installed")

GPU = {"gpu_type": "H100", "gpu_count": 1}
RULES = {"type": "rule", "enabled": True}


def found(config: dict, *, allow_code: bool = False, trusted: tuple[str, ...] = ()) -> dict[str, str]:
    merged = {name: {**CONFIG.get(name, {}), **config.get(name, {})} for name in {**CONFIG, **config}}
    problems = client_problems(load_mapping(merged, environ={}), allow_code=allow_code, trusted=trusted)
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
        ({"compute": {**GPU, "launcher": "slurm", "launcher_options": {"wrap": 1}}}, "compute.launcher_options.wrap"),
        (
            {"compute": {**GPU, "launcher": "slurm", "launcher_options": {"comment": "-x"}}},
            "compute.launcher_options.comment",
        ),
        (
            {"compute": {**GPU, "launcher": "ray", "launcher_options": {"address": "attacker:6379"}}},
            "compute.launcher_options.address",
        ),
        *(
            ({"vllm": {name: value}}, f"vllm.{name}")
            for name, value in {
                "trust_remote": True,
                "trust-remote-code": False,
                "tool_parser_plug": "/x.py",
                "reasoning_parser_plug": "/x.py",
                "middlewar": "os.system",
                "disable_log_stats": ["--trust-remote-code"],
                "kv_cache_dtype": "--trust-remote-code",
                "attention_backend": "evil.Backend",
                "quantization": {"kv_connector_module_path": "evil"},
                "kv_transfer_config": {"kv_connector_module_path": "evil"},
                "speculative_config": {"model": "x"},
                "tool_call_parser": "--middleware=x",
                "load_format": "pt",
            }.items()
        ),
    ],
)
def test_code_of_clients_needs_the_servers_permission(config, key):
    assert found(config) == {key: "code_not_allowed"}
    assert found(config, allow_code=True) == {}


def test_what_runs_no_code_is_fine():
    assert found({}) == {}
    options = {"partition": "gpu", "mem_per_cpu": "4G", "nice": 2, "begin": "16:00", "exclude": "n[1-3],n7"}
    assert found({"compute": {**GPU, "launcher": "slurm", "launcher_options": options}}) == {}
    assert found({"compute": {**GPU, "launcher": "ray", "launcher_options": {"cpus_per_node": 2, "fast": 1}}}) == {}
    assert found(judged({"kind": "regex", "value": "x+"})) == {}
    options = {"max_num_seqs": 4, "kv_cache_dtype": "fp8_e4m3", "enable-prefix-caching": False, "block_size": 32}
    assert found({"vllm": {**options, "limit_mm_per_prompt": {"image": 2}, "tool_call_parser": "hermes"}}) == {}


@needs_vllm
def test_what_clients_may_tell_vllm_are_options_that_it_has():
    package = find_spec("vllm")
    assert package is not None
    known = (Path(str(package.origin)).parent / "engine" / "arg_utils.py").read_text()
    ours = {"max_parallel_generations", "tool_call_parser"}  # what the trainer or vLLM's server reads
    assert [name for name in VLLM_OPTIONS - ours if f"\n    {name}: " not in known] == []
    assert not [name for name in VLLM_OPTIONS if why_refused(name)]


def test_a_client_chooses_no_folder_of_this_machine():
    assert found({"checkpoint": {"dir": "/srv"}}, allow_code=True) == {"checkpoint.dir": "path_not_allowed"}


@pytest.mark.parametrize(("section", "name"), [("policy", "label"), ("policy", "model_name")])
def test_what_comes_with_every_answer_is_short(section, name):
    assert found({section: {name: "x" * 1_001}}) == {f"{section}.{name}": "too_long"}


def test_only_keys_of_apis_go_to_an_address_that_the_client_names():
    def judge(**options: str) -> dict:
        return {"judge": {"enabled": True, "type": "llm", "options": {"model": "m", "rubric_id": "r", **options}}}

    own = "http://127.0.0.1:9/v1"
    for name in ("AWS_SECRET_ACCESS_KEY", "RLTUI_API_KEY", "ENVIRONMENT_API_KEY", "MY_API_KEY"):
        for more in ({}, {"base_url": own}):
            assert found(judge(api_key_env=name, **more)) == {"judge.options.api_key_env": "env_not_allowed"}
    assert found(judge(api_key_env="JUDGE_API_KEY")) == {"judge.options.api_key_env": "env_not_allowed"}
    assert found(judge(api_key_env="JUDGE_API_KEY", base_url=own)) == {}
    assert found(judge(provider="groq", api_key_env="GROQ_API_KEY")) == {}


def test_the_judges_key_goes_to_no_address_that_the_operator_did_not_name():
    judge = {"enabled": True, "type": "llm", "options": {"model": "m", "rubric_id": "r"}}
    elsewhere = {"judge": {**judge, "options": {**judge["options"], "base_url": "http://10.0.0.9:80/v1"}}}
    assert found(elsewhere) == {"judge.options.base_url": "url_not_trusted"}
    assert found(elsewhere, trusted=("http://10.0.0.9:80",)) == {}
    service = {"judge": judge, "services": {"judge_url": "http://10.0.0.9"}}
    assert found(service) == {"services.judge_url": "url_not_trusted"}
    assert found(service, trusted=("http://10.0.0.9:80",)) == {}


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
        "http://[fd00:ec2::23]/",  # EKS Pod Identity
        "http://[FD20:00ce::254]/",  # Google
        "http://[fd00:c1::a9fe:a9fe]/",  # Oracle
        "http://[fd00:42::42]/",  # Scaleway
        "http://[fd00:a9fe:a9fe::1]/",  # Linode
        "http://[fd00:100::100:200]/",  # Alibaba
        "http://[64:ff9b:1::a9fe:a9fe]/",
        "http://[2001:0:a9fe:a9fe:0:ffff:5601:5601]/",  # Teredo, whose last bits are that address turned over
        "http://[::169.254.169.254]/",
        "http://[::ffff:0:169.254.169.254]/",
        "http://100.100.100.200/",
        "http://metadata.google.internal./",
        "http://0.0.0.0:8001/",
        "http://224.0.0.1/",
        "http:///x",
        "http://h:99999/",
        "http://127.0.0.1/?api_key=x",
        "http://127.0.0.1/x#y",
        "http://me:pw@127.0.0.1/",
    ],
)
def test_forbidden_addresses(url):
    assert why_not(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8001",
        "https://10.0.0.7/x",
        "http://[::1]:1",
        "http://[fd12:3456::7]:8001",
        "http://[2001:db8::7]",
        "http://nowhere.invalid",
    ],
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
    environ["RLTUI_API_KEY"] = "the server's token"
    assert job_environment(environ) == {"RLTUI_TRACEBACK": "1", "HOME": "/h"}


def test_an_address_is_shown_without_its_password():
    assert without_user("https://me:pw@host:1/x@y") == "https://host:1/x@y"
    assert without_user("builtin:facts") == "builtin:facts"
    assert bare("http://me:pw@host/a?key=x#y") == "http://host/a"


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
