"""Derived values: the split of GPUs on machines that have them, have fewer, or have none; the device."""

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError
from trainer.config.gpus import split
from trainer.config.machine import Machine, count_gpus

TOPOLOGY = "compute.topology."
H100 = "compute.gpu_type=H100"


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [(2, 1, (1, 1)), (3, 1, (2, 1)), (8, 1, (4, 4)), (8, 4, (4, 4)), (7, 2, (4, 3)), (3, 2, (2, 1)), (6, 4, (4, 2))],
)
def test_split(free: int, size: int, expected: tuple[int, int]) -> None:
    assert split(free, size) == expected


def test_split_is_the_formula_of_the_document() -> None:
    for count in range(2, 17):
        for reference in (0, 1):
            for size in (1, 2, 4):
                free = count - reference
                training = max(1, free // 2)
                engine = max(size, (free - training) // size * size)
                assert split(free, size) == (engine, free - engine)


@pytest.mark.parametrize(("engine", "training", "expected"), [(3, None, (3, 5)), (None, 2, (6, 2)), (3, 4, (3, 4))])
def test_what_is_given_stays(engine: int | None, training: int | None, expected: tuple[int, int]) -> None:
    assert split(8, 1, engine, training) == expected


def topology(loaded) -> tuple:
    found = loaded.config.compute.topology
    return found.type, found.gpus_for_vllm, found.gpus_for_training, found.gpus_for_ref


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (0, ("cpu", None, None, 0)),
        (1, ("single_node_colocate", None, None, 0)),
        (2, ("single_node_split", 1, 1, 0)),
        (8, ("single_node_split", 4, 4, 0)),
    ],
)
def test_without_a_section_the_machine_decides(small, gpus: int, expected: tuple) -> None:
    loaded = small(device=None, machine=Machine(gpus))
    assert topology(loaded) == expected and loaded.warnings == []
    assert loaded.config.compute.gpu_count == gpus


def test_fewer_found_than_asked_are_split_again_given_counts_included(small) -> None:
    sets = [H100, "compute.gpu_count=8", f"{TOPOLOGY}gpus_for_vllm=6", f"{TOPOLOGY}gpus_for_training=2"]
    loaded = small(*sets, device=None, machine=Machine(4))
    assert loaded.config.compute.gpu_count == 4
    assert topology(loaded) == ("single_node_split", 2, 2, 0)
    [warning] = [item for item in loaded.warnings if item.code == "gpus_found"]
    assert "found 4 of 8 GPUs" in warning.why and "gpus_for_vllm 2, gpus_for_training 2" in warning.why
    assert loaded.origins["compute.gpu_count"].note == "instead of 8 at --set; 4 found, 8 asked for"
    assert loaded.origins[f"{TOPOLOGY}gpus_for_vllm"].kind == "derived"


def test_one_found_of_two_colocates(small) -> None:
    sets = [H100, "compute.gpu_count=2", f"{TOPOLOGY}type=single_node_split"]
    loaded = small(*sets, device=None, machine=Machine(1))
    assert topology(loaded)[0] == "single_node_colocate"
    assert loaded.config.vllm.gpu_memory_utilization == 0.45
    [warning] = [item for item in loaded.warnings if item.code == "gpus_found"]
    assert "engine and learner share them" in warning.why


def test_a_machine_too_small_for_replica_reference_and_learner_stops_the_launch_not_the_loading(small) -> None:
    sets = [H100, "compute.gpu_count=8", f"{TOPOLOGY}tensor_parallel=4"]
    [problem] = small(*sets, device=None, machine=Machine(4)).launch_problems()
    assert problem.code == "too_few_gpus" and "4 of 8 GPUs found, too few for a replica of 4" in problem.why
    fixed = small(*sets, (problem.fix or "").removeprefix("--set "), device=None, machine=Machine(4))
    assert fixed.launch_problems() == []


@pytest.mark.parametrize("gpus", [0, 3])
def test_what_follows_from_a_refused_value_is_not_read(small, gpus: int) -> None:
    with pytest.raises(ConfigError) as caught:
        small(H100, "compute.gpu_count=3", f"{TOPOLOGY}reference_placement=x", device=None, machine=Machine(gpus))
    assert [item.key for item in caught.value.problems] == [f"{TOPOLOGY}reference_placement"]


def test_a_given_value_that_is_overruled_stays_in_sight(small) -> None:
    text = SMALL.replace("[training]\n", "[training.rewards]\nstep_rewards_beta = 0.0\n[training]\n")
    loaded = small("training.rewards.step_rewards_mode=decision_stepwise", text=text)
    origin = loaded.origins["training.rewards.step_rewards_beta"]
    assert (origin.kind, origin.at) == ("derived", "my.toml:17:21")
    assert (origin.note or "").startswith("instead of 0.0 at my.toml:17:21; 0 meant no early bonus")


def test_a_given_value_that_is_the_derived_one_was_not_overruled(small) -> None:
    loaded = small(f"{TOPOLOGY}type=cpu", device=None, machine=Machine(0))
    origin = loaded.origins[f"{TOPOLOGY}type"]
    assert loaded.config.compute.topology.type == "cpu" and (origin.kind, origin.note) == ("set", None)


def test_counts_without_gpu_count_ask_for_their_sum(small) -> None:
    sets = [f"{TOPOLOGY}gpus_for_vllm=1", f"{TOPOLOGY}gpus_for_training=1"]
    loaded = small(*sets, device=None, machine=Machine(8))
    assert loaded.config.compute.gpu_count == 2 and topology(loaded) == ("single_node_split", 1, 1, 0)


def test_enough_found_draws_no_warning(small) -> None:
    loaded = small(H100, "compute.gpu_count=2", device=None, machine=Machine(8))
    assert [item for item in loaded.warnings if item.code == "gpus_found"] == []
    assert loaded.config.compute.gpu_count == 2


@pytest.mark.parametrize("text", ["compute.gpu_count=0", f"{TOPOLOGY}type=cpu"])
def test_a_cpu_can_be_asked_for(small, text: str) -> None:
    loaded = small(text, device=None, machine=Machine(8))
    assert topology(loaded)[0] == "cpu" and loaded.config.training.weight_sync.mode == "full"


@pytest.mark.parametrize(
    ("sets", "gpus", "words"),
    [
        ([H100, "compute.gpu_count=0"], 8, "asked for: the run takes place on the CPU"),
        ([H100, "compute.gpu_count=2", f"{TOPOLOGY}type=cpu"], 8, "compute.topology.type is cpu"),
        ([f"{TOPOLOGY}type=cpu", f"{TOPOLOGY}gpus_for_vllm=1"], 8, "compute.topology.type is cpu"),
        ([H100, "compute.gpu_count=2"], 0, "this machine has no GPU that can be used (asked for 2)"),
    ],
)
def test_why_a_run_is_on_the_cpu_is_told_as_it_is(small, sets: list[str], gpus: int, words: str) -> None:
    loaded = small(*sets, device=None, machine=Machine(gpus))
    [warning] = loaded.warnings
    assert warning.why.startswith(words) and loaded.config.compute.topology.type == "cpu"


def test_on_a_cpu_given_counts_are_kept_as_given_with_one_warning(small) -> None:
    sets = [H100, "compute.gpu_count=2", f"{TOPOLOGY}type=single_node_split", f"{TOPOLOGY}gpus_for_vllm=1"]
    loaded = small(*sets, device=None, machine=Machine(0))
    assert topology(loaded)[:2] == ("cpu", 1)
    assert [item.code for item in loaded.warnings].count("gpus_found") == 1


@pytest.mark.parametrize(("model", "gpus"), [("builtin:tiny", False), ("Qwen/Qwen3-0.6B", True)])
def test_a_builtin_model_asks_a_cluster_for_no_gpu(small, model, gpus) -> None:
    loaded = small(f"policy.model_name={model}", "compute.launcher=slurm", device=None)
    assert (loaded.config.compute.topology.type != "cpu") is gpus


def test_another_launcher_does_not_ask_this_machine(small) -> None:
    loaded = small(H100, "compute.gpu_count=8", "compute.launcher=slurm", device=None)
    assert topology(loaded) == ("single_node_split", 4, 4, 0)
    assert [item for item in loaded.warnings if item.code == "gpus_found"] == []


def test_visible_devices_bound_the_count() -> None:
    assert count_gpus({"CUDA_VISIBLE_DEVICES": ""}) == 0
    assert count_gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == 0


@pytest.mark.parametrize(
    ("sets", "variables", "expected"),
    [
        ([], {}, "OPENAI_API_KEY"),
        (["judge.options.provider=anthropic"], {}, "ANTHROPIC_API_KEY"),
        (["judge.options.provider=gemini"], {"GOOGLE_API_KEY": "x"}, "GOOGLE_API_KEY"),
        (["judge.options.provider=gemini"], {"GOOGLE_API_KEY": "x", "GEMINI_API_KEY": "y"}, "GEMINI_API_KEY"),
        (["judge.options.base_url=http://h", "judge.options.model=m"], {}, "JUDGE_API_KEY"),
    ],
)
def test_name_of_the_judges_key(small, sets: list[str], variables: dict, expected: str) -> None:
    assert small(*sets, environ=variables).config.judge.options.api_key_env == expected


def test_evaluation_instances(small) -> None:
    base = ["evaluation.every_n_iters=1", "evaluation.seeds=[1, 2, 3]"]
    assert small(*base, "evaluation.rollouts_per_seed=4").config.evaluation.instances == 12
    assert small(*base, "evaluation.instances=0").config.evaluation.instances == 3
    assert small(*base, "evaluation.instances=0", "evaluation.rollouts_per_seed=2").config.evaluation.instances == 6
    assert small(*base, "data.evaluation_episodes=5").config.evaluation.instances == 5
    assert small(*base, "data.evaluation_episodes=5", "evaluation.instances=2").config.evaluation.instances == 2
