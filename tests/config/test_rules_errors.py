"""Each rule over several keys: the config that breaks it, its words, and every fix it prints, applied."""

import re
import shlex

import pytest

from tests.config.texts import SMALL
from trainer.config import ConfigError, Problem
from trainer.config.machine import Machine

EVALUATION = {"evaluation.instances": "2", "evaluation.every_n_iters": "1", "evaluation.seeds": "[0, 1]"}
JUDGE = {"judge.enabled": "true"}
H100 = {"compute.gpu_type": "H100"}
TOPOLOGY = "compute.topology."
REWARDS = "training.rewards.step_rewards_"


def gpus(count: int, **topology: object) -> dict[str, str]:
    return H100 | {"compute.gpu_count": str(count)} | {f"{TOPOLOGY}{name}": str(v) for name, v in topology.items()}


# name: (what is given, the key it is about, a part of the reason)
ERRORS: dict[str, tuple[dict[str, str], str, str]] = {
    # --- CONFIG section 2
    "pair: ppo with gspo": ({"algorithm.method": "ppo"}, "algorithm.variety", 'ppo" cannot be used with variety "gspo'),
    "pair: policy_gradient with ppo": ({"algorithm.variety": "ppo"}, "algorithm.variety", "cannot be used with"),
    "method gspo beside another variety": (
        {"algorithm.method": "gspo", "algorithm.variety": "grpo"},
        "algorithm.method",
        'means algorithm.variety = "gspo", but algorithm.variety = "grpo" is given',
    ),
    "gpu_type says another count": (
        {"compute.gpu_type": "H100:4", "compute.gpu_count": "2"},
        "compute.gpu_type",
        "means compute.gpu_count = 4, but compute.gpu_count = 2",
    ),
    "nodes of the local launcher": ({"compute.nodes": "2"}, "compute.nodes", "the local launcher has one node"),
    "fewer GPUs than nodes": (
        {"compute.nodes": "4", "compute.launcher": "ray", **gpus(2)},
        "compute.nodes",
        "the run has 2 GPUs, fewer than nodes",
    ),
    "one GPU that is shared, on two nodes": (
        {"compute.nodes": "2", "compute.launcher": "ray", **gpus(2, type="single_node_colocate")},
        "compute.nodes",
        "which is on one node",
    ),
    "split with one GPU": (
        gpus(1, type="single_node_split"),
        f"{TOPOLOGY}type",
        "need a GPU each, and compute.gpu_count is 1",
    ),
    "wrong sum": (
        gpus(4, gpus_for_vllm=2, gpus_for_training=1),
        f"{TOPOLOGY}gpus_for_training",
        "gpus_for_vllm 2 + gpus_for_training 1 + gpus_for_ref 0 = 3, and compute.gpu_count is 4",
    ),
    "wrong sum, too many": (
        gpus(2, gpus_for_vllm=2, gpus_for_training=2, tensor_parallel=2),
        f"{TOPOLOGY}gpus_for_vllm",
        "= 4, and compute.gpu_count is 2",
    ),
    "nothing left for training": (
        gpus(4, gpus_for_vllm=4),
        f"{TOPOLOGY}gpus_for_vllm",
        "gpu_count 4 - reference 0 - engine 4 leaves 0 for training",
    ),
    "nothing left for the engine": (
        gpus(2, gpus_for_training=2),
        f"{TOPOLOGY}gpus_for_training",
        "leaves 0 for the engine",
    ),
    "too few for one replica": (gpus(2, tensor_parallel=2), "compute.gpu_count", "leaves 0 for training"),
    "too few beside a reference": (
        gpus(2, reference_placement="dedicated") | {"training.kl_coef": "0.1"},
        "compute.gpu_count",
        "gpu_count 2 - reference 1 - engine 1 leaves 0",
    ),
    "no whole replicas": (
        gpus(8, gpus_for_vllm=3, tensor_parallel=2),
        f"{TOPOLOGY}gpus_for_vllm",
        "one replica has tensor_parallel 2 GPUs; 3 / 2 = 1.5",
    ),
    "no whole replicas, by the training count": (
        gpus(8, gpus_for_training=3, tensor_parallel=2),
        f"{TOPOLOGY}gpus_for_training",
        "5 / 2 = 2.5",
    ),
    "no whole replicas, all counts given": (
        gpus(8, gpus_for_vllm=5, gpus_for_training=3, tensor_parallel=2),
        f"{TOPOLOGY}gpus_for_vllm",
        "5 / 2 = 2.5",
    ),
    "two tensor_parallel": (
        {"vllm.tensor_parallel_size": "2", f"{TOPOLOGY}tensor_parallel": "1"},
        "vllm.tensor_parallel_size",
        "compute.topology.tensor_parallel = 1 at --set; the two are the same value",
    ),
    "reference GPUs without placement": (
        {f"{TOPOLOGY}gpus_for_ref": "1"},
        f"{TOPOLOGY}gpus_for_ref",
        "reference_placement is none",
    ),
    "dedicated without GPUs": (
        {f"{TOPOLOGY}gpus_for_ref": "0", f"{TOPOLOGY}reference_placement": "dedicated"},
        f"{TOPOLOGY}gpus_for_ref",
        "reference_placement is dedicated",
    ),
    "no room for a prompt": (
        {"vllm.max_model_len": "512"},
        "vllm.max_model_len",
        "vllm.max_model_len 512 leaves no room for a prompt beside policy.max_tokens 512",
    ),
    "sequences longer than the context": (
        {"vllm.max_model_len": "1024", "training.max_seq_len": "2048"},
        "training.max_seq_len",
        "no sequence is longer than vllm.max_model_len 1024",
    ),
    "forward passes shorter than a sequence": (
        {"training.max_seq_len": "2048", "training.micro_batch_tokens": "1024", "vllm.max_model_len": "4096"},
        "training.micro_batch_tokens",
        "one sequence may have 2048 tokens",
    ),
    "engine option of ours: port": ({"vllm.port": "8000"}, "vllm.port", "a private socket"),
    "engine option of ours: logprobs": ({"vllm.logprobs-mode": "raw_logits"}, "vllm.logprobs-mode", "learner's ratios"),
    "engine option of ours: scale-out": ({"vllm.enable_scale_out": "false"}, "vllm.enable_scale_out", "endpoints"),
    "engine option of ours: LoRA": ({"vllm.max_lora_rank": "64"}, "vllm.max_lora_rank", "training.lora.r"),
    "both reward switches": (
        JUDGE | {"rollout.rubric_rewards_only": "true", "rollout.task_app_origin_rewards_only": "true"},
        "rollout.rubric_rewards_only",
        "rollout.task_app_origin_rewards_only is true, too",
    ),
    "rubric only, judge off": (
        {"rollout.rubric_rewards_only": "true"},
        "rollout.rubric_rewards_only",
        "the judge is off",
    ),
    "rubric only, weight on env alone": (
        JUDGE | {"rollout.rubric_rewards_only": "true", "judge.reward_blend": "{ env = 1.0 }"},
        "rollout.rubric_rewards_only",
        "weight on env alone",
    ),
    "unequal max_turns": (
        {"training.max_turns": "3"},
        "training.max_turns",
        "rollout.max_turns = 2 at my.toml:14:13; the two must be equal",
    ),
    "group size": (
        {"training.group_size": "6"},
        "training.group_size",
        "episodes_per_batch 32 x batches_per_step 1 = 32; 32 / 6 = 5.333 groups",
    ),
    "group size above the iteration": ({"training.group_size": "64"}, "training.group_size", "32 / 64 = 0.5 groups"),
    "seeds fewer than groups": ({"data.seed_count": "7"}, "data.seed_count", "an iteration has 8 groups"),
    "seeds fewer than groups, held-out ones skipped": (
        EVALUATION | {"data.seed_count": "9"},
        "data.seed_count",
        "2 of the 9 seeds from 0 are held out for evaluation",
    ),
    "lag below the sync interval": (
        {"training.max_lag": "2", "training.weight_sync_interval": "3"},
        "training.max_lag",
        "weights reach the engine every 3 updates",
    ),
    "proximal with one update": (
        {"training.anchor": "proximal", "training.batch_size": "32"},
        "training.anchor",
        "32 episodes / update size 32 = 1 update per iteration",
    ),
    "proximal with one update of many minibatches": (
        {"training.anchor": "proximal", "training.gradient_accumulation_steps": "40"},
        "training.anchor",
        "32 episodes / update size 640 = 1 update",
    ),
    "proximal, accumulation and a smaller batch": (
        {"training.anchor": "proximal", "training.gradient_accumulation_steps": "3"},
        "training.anchor",
        "update size 48",
    ),
    "warm-up longer than the run": (
        {"training.warmup_iters": "3"},
        "training.warmup_iters",
        "the run has 3 iterations",
    ),
    "dr_grpo and std": (
        {"algorithm.variety": "dr_grpo", "training.advantage_std": "true"},
        "training.advantage_std",
        "dr_grpo does not divide",
    ),
    "dr_grpo and length weights": (
        {"algorithm.variety": "dr_grpo", "training.loss_aggregation": "length_weighted"},
        "training.loss_aggregation",
        "normalisation of its own",
    ),
    "KL without a reference": ({"training.kl_coef": "0.1"}, "training.kl_coef", "needs a reference model"),
    "full weights as an adapter": (
        {"policy.trainer_mode": "full", "training.weight_sync.mode": "lora"},
        "training.weight_sync.mode",
        "policy.trainer_mode full cannot be synced in this mode",
    ),
    "a 4-bit base, merged": (
        {"policy.trainer_mode": "qlora", "training.weight_sync.mode": "full"},
        "training.weight_sync.mode",
        "policy.trainer_mode qlora",
    ),
    "mode direct beside direct = false": (
        {"training.weight_sync.mode": "direct", "training.weight_sync.direct": "false"},
        "training.weight_sync.mode",
        "training.weight_sync.direct = false is given",
    ),
    "a server and the local engine": (
        {"inference.url": "http://localhost:8000", "inference.engine": "local"},
        "inference.engine",
        "names a vLLM server that runs already",
    ),
    # --- section 6
    "per turn with gspo": (
        {f"{REWARDS}strategy": "per_turn"},
        "algorithm.variety",
        "gspo has one advantage for a whole episode",
    ),
    # --- section 7
    "judge of nothing": (
        JUDGE | {"judge.options.outcome": "false"},
        "judge.options.outcome",
        "neither turns nor episodes",
    ),
    "no weights": (
        JUDGE | {"judge.reward_blend": "{ env = 0.0 }"},
        "judge.reward_blend",
        "every weight is 0",
    ),
    "no weights, turns only": (
        JUDGE
        | {"judge.options.event": "true", "judge.options.outcome": "false", "judge.reward_blend": "{ env = 0.0 }"},
        "judge.reward_blend",
        "every weight is 0",
    ),
    "weight of a kind that is off": (
        JUDGE | {"judge.reward_blend": "{ env = 1.0, event = 0.5 }"},
        "judge.reward_blend",
        "event has weight 0.5 and judge.options.event is false",
    ),
    "tracks without weight": (JUDGE | {"judge.options.weights": "{ a = 0 }"}, "judge.options.weights", "every track"),
    "own server without a model": (
        JUDGE | {"judge.options.base_url": "http://localhost:1"},
        "judge.options.base_url",
        "no default model",
    ),
    "a judge behind a query": (
        JUDGE | {"judge.options.base_url": "http://localhost:1/v1?v=1", "judge.options.model": "m"},
        "judge.options.base_url",
        "cannot end in a query",
    ),
    "a judge service behind a query": (
        JUDGE | {"services.judge_url": "http://localhost:1/?v=1"},
        "services.judge_url",
        "cannot end in a query",
    ),
    "unknown provider": (JUDGE | {"judge.options.provider": "acme"}, "judge.options.provider", "no such provider"),
    "synth without a service": (JUDGE | {"judge.type": "synth"}, "judge.type", "does not say where it is"),
    "none beside enabled": (JUDGE | {"judge.type": "none"}, "judge.type", "judge.enabled = true is given"),
    "rubric aggregation": (
        {"judge.options.rubric_overrides": '{ event = { aggregation = "max" } }'},
        "judge.options.rubric_overrides",
        "event: aggregation 'max' is not known",
    ),
    "rubric weight": (
        {"judge.options.rubric_overrides": '{ outcome = { criteria = [{ id = "a", weight = -1 }] } }'},
        "judge.options.rubric_overrides",
        "outcome: criterion 1: weight -1",
    ),
    "rubric id": (
        {"judge.options.rubric_overrides": "{ outcome = { criteria = [{ weight = 1 }] } }"},
        "judge.options.rubric_overrides",
        "outcome: criterion 1: it has no id",
    ),
    "rubric rule": (
        {"judge.options.rubric_overrides": '{ outcome = { criteria = [{ id = "a", rule = { kind = "eval" } }] } }'},
        "judge.options.rubric_overrides",
        "its rule has no known kind",
    ),
    "a criterion without a rule": (
        {
            "judge.enabled": "true",
            "judge.type": "rule",
            "judge.options.rubric_overrides": '{ outcome = { criteria = [{ id = "a" }] } }',
        },
        "judge.options.rubric_overrides",
        "outcome: criterion 1: it has no rule, and judge.type is rule",
    ),
    "rubric part": (
        {"judge.options.rubric_overrides": "{ events = { criteria = [] } }"},
        "judge.options.rubric_overrides",
        "events: not a part of a rubric",
    ),
}


@pytest.fixture
def errors_of(small):
    def of(given: dict[str, str], **options) -> list[Problem]:
        try:
            small(*[f"{key}={value}" for key, value in given.items()], **options)
        except ConfigError as error:
            return error.problems
        return []

    return of


@pytest.mark.parametrize("name", ERRORS)
def test_the_rule_says_what_where_and_what_is_allowed(errors_of, name: str) -> None:
    given, key, words = ERRORS[name]
    [problem] = errors_of(given)
    assert problem.key == key and words in problem.why, str(problem)
    assert problem.allowed and problem.fix and problem.place.file in ("--set", "my.toml")


@pytest.mark.parametrize("name", ERRORS)
def test_each_printed_fix_is_right_by_itself(errors_of, name: str) -> None:
    given = ERRORS[name][0]
    [problem] = errors_of(given)
    for way in re.split(r"\s{2,}or\s+", problem.fix or ""):
        assert errors_of(applied(way, given, problem)) == [], way


def applied(way: str, given: dict[str, str], problem: Problem) -> dict[str, str]:
    """`given` after a fix: `delete this line`, `name = value`, or one or more `--set key=value`."""
    if way == "delete this line" or way == f"leave out --set {problem.key}":
        return {key: value for key, value in given.items() if key != problem.key}
    if way.startswith("--set "):
        pairs = [word.partition("=") for word in shlex.split(way) if word != "--set"]
        return given | {key: value for key, _, value in pairs}
    name, value = way.split(" = ", 1)
    section = problem.key.rpartition(".")[0]
    return given | {f"{section}.{name}": value}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_fixes_of_the_split_are_right_for_any_counts(errors_of, count: int) -> None:
    """Every split of a few GPUs that is wrong: one printed fix is enough, or it leads to one that is."""
    for engine in (None, 1, 2, 3):
        for training in (None, 1, 2, 3):
            for size in (1, 2):
                topology = {"gpus_for_vllm": engine, "gpus_for_training": training, "tensor_parallel": size}
                given = gpus(count, **{name: value for name, value in topology.items() if value is not None})
                for _ in range(3):
                    found = errors_of(given)
                    if not found:
                        break
                    assert len(found) == 1 and found[0].code == "topology"
                    given = applied(re.split(r"\s{2,}or\s+", found[0].fix or "")[0], given, found[0])
                assert errors_of(given) == [], given


def test_the_same_file_is_right_or_wrong_on_every_machine(errors_of) -> None:
    for name, (given, key, _) in ERRORS.items():
        if not any(part.startswith("compute.gpu_count") for part in given):
            continue
        for gpus_here in (0, 1, 8):
            found = errors_of(given, device=None, machine=Machine(gpus_here))
            assert [item.key for item in found if item.code == "topology"] == [key] or name.startswith("gpu_type"), name


def test_lora_rank_beyond_what_vllm_serves(small, errors_of) -> None:
    given = {"training.lora.r": "600"}
    assert errors_of(given) == []  # the local engine has no such limit
    [problem] = errors_of(given, device="cuda")
    assert (problem.key, problem.fix) == ("training.lora.r", "--set training.lora.r=512")
    assert errors_of(given | {"inference.engine": "vllm"})  # on a CPU, too
    assert errors_of(given | {"policy.trainer_mode": "full"}, device="cuda") == []  # no adapter


def test_the_model_limit_is_a_rule_once_it_is_known(small) -> None:
    with pytest.raises(ConfigError) as caught:
        small("vllm.max_model_len=4096").for_model(2048)
    [problem] = caught.value.problems
    assert problem.fix == "--set vllm.max_model_len=2048"
    assert str(caught.value) == (
        "vllm.max_model_len = 4096 (--set) cannot be used: the model's own limit is 2048 tokens. Allowed is an "
        "integer <= 2048. To mend it: --set vllm.max_model_len=2048."
    )
    with pytest.raises(ConfigError) as caught:
        small("policy.max_tokens=4096").for_model(2048)
    [problem] = caught.value.problems
    assert (problem.key, problem.fix) == ("policy.max_tokens", "--set policy.max_tokens=1024")


def test_two_start_weights(errors) -> None:
    text = SMALL.replace("[policy]", '[policy]\nsource = "ft:x"')
    [problem] = errors(text=text)
    assert (problem.key, problem.fix) == ("policy.source", "delete this line")
    assert problem.why == "policy.model_name is given too, at my.toml:9:14; a run starts from one"
    assert errors("policy.source=ft:x", "policy.model_name=y")[0].code == "start_weights"
