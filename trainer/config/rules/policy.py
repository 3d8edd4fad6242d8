"""The algorithm, the policy and its loss."""

from collections.abc import Iterator

from trainer.config.errors import Problem
from trainer.config.facts import Facts

PAIRS = (
    ("policy_gradient", "gspo"),
    ("policy_gradient", "gspo_token"),
    ("policy_gradient", "grpo"),
    ("policy_gradient", "dr_grpo"),
    ("ppo", "ppo"),
)
PAPER_CLIP = 1e-3  # at or below: meant for a recomputed anchor


def algorithm_pair(facts: Facts) -> Iterator[Problem]:
    method, variety = facts["algorithm.method"], facts["algorithm.variety"]
    if (method, variety) in PAIRS:
        return
    same_method = next(pair for pair in PAIRS if pair[0] == method)
    same_variety = next(pair for pair in PAIRS if pair[1] == variety)
    near = " or ".join(f'method "{m}" with variety "{v}"' for m, v in (same_variety, same_method))
    yield facts.problem(
        "algorithm.variety",
        f'method "{method}" cannot be used with variety "{variety}"',
        allowed=near,
        fix=f'variety = "{same_method[1]}"        or   --set algorithm.method={same_variety[0]}',
        code="algorithm_pair",
    )


def per_turn_credit(facts: Facts) -> Iterator[Problem]:
    """`gspo` has one advantage for a whole sequence."""
    variety, given = facts["algorithm.variety"], facts.entries["algorithm.variety"].value
    if given != variety:
        yield facts.warning(
            "algorithm.variety",
            "runs as gspo_token: step_rewards_strategy per_achievement needs an advantage per turn",
            fix='variety = "gspo_token"',
            code="gspo_token",
        )
    elif given == "gspo" and facts["training.rewards.step_rewards_strategy"] == "per_turn":
        yield facts.problem(
            "algorithm.variety",
            "training.rewards.step_rewards_strategy per_turn: gspo has one advantage for a whole episode",
            allowed="gspo_token, grpo, dr_grpo",
            fix='variety = "gspo_token"        or   --set training.rewards.step_rewards_strategy=uniform',
            code="per_turn",
        )


def start_weights(facts: Facts) -> Iterator[Problem]:
    if facts["policy.model_name"] is not None and facts["policy.source"] is not None:
        yield facts.problem(
            "policy.source",
            f"policy.model_name is given too, at {facts.place('policy.model_name')}; a run starts from one",
            allowed="exactly one of policy.model_name and policy.source",
            fix="delete one of the two lines",
            code="start_weights",
        )


def context_limit(facts: Facts) -> Iterator[Problem]:
    limit, answer = facts["vllm.max_model_len"], facts["policy.max_tokens"]
    if limit is None:
        return
    if facts.model_limit is not None and limit > facts.model_limit:
        yield facts.problem(
            "vllm.max_model_len",
            f"the model's own limit is {facts.model_limit} tokens",
            allowed=f"an integer <= {facts.model_limit}",
            fix=f"max_model_len = {facts.model_limit}",
            code="context_limit",
        )
    if limit <= answer:
        key = "vllm.max_model_len" if facts.given("vllm.max_model_len") else "policy.max_tokens"
        yield facts.problem(
            key,
            f"vllm.max_model_len {limit} leaves no room for a prompt beside policy.max_tokens {answer}",
            allowed=f"vllm.max_model_len > {answer}, or policy.max_tokens < {limit}",
            fix=f"max_model_len = {2 * answer}        or   --set policy.max_tokens={max(1, limit // 2)}"
            if key == "vllm.max_model_len"
            else f"max_tokens = {max(1, limit // 2)}",
            code="context_limit",
        )
    sequence = facts["training.max_seq_len"]
    if sequence is not None and sequence > limit:
        yield facts.problem(
            "training.max_seq_len",
            f"no sequence is longer than vllm.max_model_len {limit}",
            allowed=f"an integer <= {limit}",
            fix=f"max_seq_len = {limit}",
            code="context_limit",
        )
    tokens = facts["training.micro_batch_tokens"]
    if tokens is not None and sequence is not None and tokens < sequence:
        yield facts.problem(
            "training.micro_batch_tokens",
            f"one sequence may have {sequence} tokens (training.max_seq_len) and is never cut",
            allowed=f"an integer >= {sequence}",
            fix=f"micro_batch_tokens = {sequence}",
            code="context_limit",
        )


def dr_grpo(facts: Facts) -> Iterator[Problem]:
    if facts["algorithm.variety"] != "dr_grpo":
        return
    if facts["training.advantage_std"]:
        yield facts.problem(
            "training.advantage_std",
            "dr_grpo does not divide advantages by the standard deviation",
            allowed="false",
            fix="delete this line",
            code="dr_grpo",
        )
    if facts["training.loss_aggregation"] == "length_weighted":
        yield facts.problem(
            "training.loss_aggregation",
            "dr_grpo has a normalisation of its own",
            allowed='"sequence_mean"',
            fix="delete this line",
            code="dr_grpo",
        )


def clip_range(facts: Facts) -> Iterator[Problem]:
    if facts["training.anchor"] != "behavior":
        return
    for key in ("training.clip_eps_low", "training.clip_eps_high"):
        if facts.given(key) and facts[key] <= PAPER_CLIP:
            yield facts.warning(
                key,
                "under the behavior anchor this is inside the noise between engine and learner: at 0.02 "
                "noise alone clips 0.21 of 5-token and 0.055 of 20-token sequences in bf16 on a CPU",
                fix="clip_eps 0.02 on a GPU, 0.1 in bf16 on a CPU",
                code="clip_range",
            )


def kl_reference(facts: Facts) -> Iterator[Problem]:
    if facts["training.kl_coef"] > 0 and facts["compute.topology.reference_placement"] == "none":
        yield facts.problem(
            "training.kl_coef",
            "a KL penalty needs a reference model, and compute.topology.reference_placement is none",
            allowed="0, or a reference placement",
            fix="kl_coef = 0        or   --set compute.topology.reference_placement=shared",
            code="kl_reference",
        )


def learning_rate(facts: Facts) -> Iterator[Problem]:
    rate, mode = facts["training.learning_rate"], facts["policy.trainer_mode"]
    if mode == "full" and rate > 1e-5:
        yield facts.note("training.learning_rate", "high for full fine-tuning: 1e-6 is usual", code="learning_rate")
    if mode != "full" and rate < 1e-6:
        why = f"low for an adapter: with {mode}, 1e-5 to 1e-3 is usual"
        yield facts.note("training.learning_rate", why, code="learning_rate")


def dropout(facts: Facts) -> Iterator[Problem]:
    if facts["training.lora.dropout"] > 0:
        yield facts.warning(
            "training.lora.dropout",
            "not applied, only recorded in the adapter config: ratios need the exact policy that sampled",
            fix="dropout = 0.0",
            code="dropout",
        )


def sampling(facts: Facts) -> Iterator[Problem]:
    if facts["policy.top_p"] < 1:
        yield facts.warning(
            "policy.top_p",
            "evaluation only: training rollouts always use 1.0, a cut distribution biases every ratio",
            fix="top_p = 1.0",
            code="sampling",
        )
    if facts["policy.inference_url"] is not None:
        why = "used by `rltui smoke` only: weights cannot be synced to a server that the run does not own"
        yield facts.note("policy.inference_url", why, fix="for training see inference.url", code="sampling")


def weight_sync(facts: Facts) -> Iterator[Problem]:
    mode, trainer = facts["training.weight_sync.mode"], facts["policy.trainer_mode"]
    if (mode, trainer) in (("lora", "full"), ("full", "qlora")):
        allowed = "full" if trainer == "full" else "lora"
        yield facts.problem(
            "training.weight_sync.mode",
            f"policy.trainer_mode {trainer} cannot be synced in this mode",
            allowed=f'"{allowed}"',
            fix="delete this line",
            code="weight_sync",
        )
    if not facts["training.weight_sync.enable"]:
        key = "training.weight_sync.enable"
        if not facts.given(key) or facts.entries[key].value:
            key = "training.weight_sync.targets"
        yield facts.warning(key, "generation stays on the initial weights for the whole run", code="weight_sync")
    elif facts["training.weight_sync.verify_every_k"] == 0 and facts["training.max_lag"] > 0:
        why = "no canary compares engine and learner while generation runs ahead of training (max_lag > 0)"
        yield facts.warning("training.weight_sync.verify_every_k", why, fix="verify_every_k = 10", code="canary")


RULES = (
    algorithm_pair,
    per_turn_credit,
    start_weights,
    context_limit,
    dr_grpo,
    clip_range,
    kl_reference,
    learning_rate,
    dropout,
    sampling,
    weight_sync,
)
