"""What is printed as the fix of a warning or note silences it, breaks nothing, and can be carried out today."""

import re

import pytest

from tests.config.printed_fixes import apply_fixes
from tests.config.test_rules_errors import applied
from tests.config.test_rules_notes import SAID
from tests.config.texts import SMALL
from trainer.config import ConfigError, Loaded, Problem
from trainer.config.machine import Machine

SET, LINE = r"--set \S+=\S+(?: --set \S+=\S+)*", r"[a-z_0-9]+ = (?:[^\s\",;]+|\"[^\"]*\")"
WAY = re.compile(rf"{SET}|{LINE}|delete this line|leave out --set \S+")
A100 = {"compute.gpu_type": "A100"}
TOPOLOGY = "compute.topology."

# name: (what is given, GPUs of the machine, the key it is about, the code)
ON_GPUS: dict[str, tuple[dict[str, str], int, str, str]] = {
    "fewer found": (A100 | {"compute.gpu_count": "4"}, 2, "compute.gpu_count", "gpus_found"),
    "fewer found, both in gpu_type": ({"compute.gpu_type": "A100:4"}, 2, "compute.gpu_count", "gpus_found"),
    "fewer found, the old key": ({"topology.gpu_type": "A100:4"}, 2, "compute.gpu_count", "gpus_found"),
    "one found of a split": (
        A100 | {"compute.gpu_count": "4", f"{TOPOLOGY}type": "single_node_split"},
        1,
        "compute.gpu_count",
        "gpus_found",
    ),
    "too few for a replica": (
        A100 | {"compute.gpu_count": "4", f"{TOPOLOGY}tensor_parallel": "2"},
        2,
        "compute.gpu_count",
        "gpus_found",
    ),
    "another GPU": ({"compute.gpu_type": "H100", "compute.gpu_count": "2"}, 2, "compute.gpu_type", "gpu_type"),
    "another GPU, both in gpu_type": ({"compute.gpu_type": "H100:2"}, 2, "compute.gpu_type", "gpu_type"),
    "idle reference": (
        A100 | {"compute.gpu_count": "3", f"{TOPOLOGY}reference_placement": "dedicated"},
        3,
        f"{TOPOLOGY}reference_placement",
        "idle_gpus",
    ),
    "idle reference, counted": (
        A100
        | {"compute.gpu_count": "3", f"{TOPOLOGY}reference_placement": "dedicated", f"{TOPOLOGY}gpus_for_ref": "1"},
        3,
        f"{TOPOLOGY}gpus_for_ref",
        "idle_gpus",
    ),
}


@pytest.fixture
def load(small):
    keys = {"OPENAI_API_KEY": "a-key", "SYNTH_API_KEY": "a-key"}  # no fix of a config can set them

    def of(given: dict[str, str], **options) -> Loaded:
        return small(*[f"{key}={value}" for key, value in given.items()], **{"environ": keys} | options)

    return of


def check(load, given: dict[str, str], problem: Problem, **options) -> int:
    """How many ways the fix has; each is tried."""
    before = {item.key for item in load(given, **options).launch_problems()}
    ways = [way for way in re.split(r"\s{2,}or\s+", problem.fix or "") if WAY.fullmatch(way)]
    for way in ways:
        now = given | {} if way.startswith("leave out") else applied(way, given, problem)
        if way.startswith("leave out"):
            del now[way.removeprefix("leave out --set ").partition("=")[0]]
        try:
            loaded = load(now, **options)
        except ConfigError as error:
            raise AssertionError(f"{way}: {error}") from None
        assert (problem.key, problem.code) not in {(item.key, item.code) for item in loaded.warnings}, way
        assert {item.key for item in loaded.launch_problems()} <= before, way
    return len(ways)


@pytest.mark.parametrize("name", sorted(SAID.keys() - {"own server with a service"}))  # given in an old spelling
def test_the_fix_of_each(load, name: str) -> None:
    sets, key, _, words = SAID[name]
    given = dict(text.split("=", 1) for text in sets)
    [problem] = [item for item in load(given).warnings if item.key == key and words in item.why]
    check(load, given, problem)


@pytest.mark.parametrize("name", ON_GPUS)
def test_the_fix_of_each_that_a_machine_draws(small, name: str) -> None:
    """As a person would do it in the file, where `gpu_type = "A100:4"` is one line."""
    given, gpus, key, code = ON_GPUS[name]
    options = {"device": None, "machine": Machine(gpus, "NVIDIA A100-SXM4-80GB")}
    text = in_sections(given) + SMALL
    [problem] = [item for item in small(text=text, **options).warnings if (item.key, item.code) == (key, code)]
    if name in ("one found of a split", "too few for a replica"):
        assert problem.fix is None
        return
    fixed, sets = apply_fixes(text, [problem])
    loaded = small(*[part for text in sets for part in text.split(" --set ")], text=fixed, **options)
    assert (key, code) not in {(item.key, item.code) for item in loaded.warnings}


def in_sections(given: dict[str, str]) -> str:
    sections: dict[str, list[str]] = {}
    for path, value in given.items():
        section, _, name = path.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {value if value.isdigit() else repr(value)}")
    return "".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items())


def test_each_way_from_two_nodes_on_this_machine_leads_to_a_run(load) -> None:
    given = {"compute.nodes": "2"}
    with pytest.raises(ConfigError) as caught:
        load(given)
    [problem] = caught.value.problems
    for fix in re.split(r"\s{2,}or\s+", problem.fix or ""):
        assert load(applied(fix, given, problem)).config.compute.nodes in (1, 2)


def test_a_judge_with_nothing_to_judge_is_not_to_be_switched_on(small) -> None:
    [problem] = [item for item in small("judge.options.outcome=false").warnings if item.code == "judge_off"]
    assert "enabled=true" not in (problem.fix or "")


@pytest.mark.parametrize(("given", "fix"), [("0", "delete"), ('"hot"', "delete"), ("0.3", "--set policy.temp")])
def test_a_temperature_of_the_app_that_training_cannot_have(small, given: str, fix: str) -> None:
    [problem] = small(f"rollout.policy_config={{ temperature = {given} }}").warnings
    assert (problem.fix or "").startswith(fix)


def test_small_clips_are_inside_the_noise_of_sequences_alone(small) -> None:
    assert "clip_range" in {item.code for item in small("training.clip_eps_low=3e-4").warnings}
    tokens = small("training.clip_eps_low=3e-4", "algorithm.variety=grpo").warnings
    assert "clip_range" not in {item.code for item in tokens}
