"""The algorithm, the policy and its loss."""

from collections.abc import Iterator

from trainer.config.errors import Problem, shown
from trainer.config.facts import Facts
from trainer.config.fixes import ways

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
        fix=ways(f'variety = "{same_method[1]}"', f"--set algorithm.method={same_variety[0]}"),
        code="algorithm_pair",
    )


def per_turn_credit(facts: Facts) -> Iterator[Problem]:
    """`gspo` has one advantage for a whole sequence."""
    variety, given = facts["algorithm.variety"], facts.entries["algorithm.variety"].value
    key = "training.rewards.step_rewards_strategy"
    if given != variety:
        yield facts.warning(
            "algorithm.variety",
            f"runs as gspo_token: {key}, {facts.entries[key].origin.note}, needs an advantage per turn",
            fix='variety = "gspo_token"',
            code="gspo_token",
        )
    elif given == "gspo" and facts[key] == "per_turn":
        yield facts.problem(
            "algorithm.variety",
            f"{key} per_turn: gspo has one advantage for a whole episode",
            allowed="gspo_token, grpo, dr_grpo",
            fix=ways('variety = "gspo_token"', f"--set {key}=uniform"),
            code="per_turn",
        )


def start_weights(facts: Facts) -> Iterator[Problem]:
    if facts["policy.model_name"] is not None and facts["policy.source"] is not None:
        yield facts.problem(
            "policy.source",
            f"policy.model_name is given too, at {facts.place('policy.model_name')}; a run starts from one",
            allowed="exactly one of policy.model_name and policy.source",
            fix="delete this line",
            code="start_weights",
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
    if facts["training.anchor"] != "behavior" or facts["algorithm.variety"] not in ("gspo", "gspo_token"):
        return
    for key in ("training.clip_eps_low", "training.clip_eps_high"):
        if facts.given(key) and facts[key] <= PAPER_CLIP:
            yield facts.warning(
                key,
                "under the behavior anchor this is inside the noise between engine and learner: at 0.02 "
                "noise alone clips 0.21 of 5-token and 0.055 of 20-token sequences in bf16 on a CPU",
                fix=f"{key.rpartition('.')[2]} = {0.1 if facts.device == 'cpu' else 0.02}",
                code="clip_range",
            )


def kl_reference(facts: Facts) -> Iterator[Problem]:
    if facts["training.kl_coef"] > 0 and facts["compute.topology.reference_placement"] == "none":
        yield facts.problem(
            "training.kl_coef",
            "a KL penalty needs a reference model, and compute.topology.reference_placement is none",
            allowed="0, or a reference placement",
            fix=ways("kl_coef = 0", "--set compute.topology.reference_placement=shared"),
            code="kl_reference",
        )


def learning_rate(facts: Facts) -> Iterator[Problem]:
    rate, mode = facts["training.learning_rate"], facts["policy.trainer_mode"]
    if rate > 0.1:
        why = "AdamW moves each weight by about this much an update: the first one ruins the policy"
        fix = f"learning_rate = {'1e-6' if mode == 'full' else '1e-4'}"
        yield facts.warning("training.learning_rate", why, fix=fix, code="learning_rate")
    elif mode == "full" and rate > 1e-5:
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
    cuts = {"top_p": 1.0, "top_k": None, "repetition_penalty": 1.0}
    greedy = not facts.evaluates or facts["evaluation.temperature"] == 0
    for name, off in cuts.items():
        value = facts[f"policy.{name}"]
        if value in (off, -1):
            continue
        why = "evaluation only: training always samples the plain distribution, a cut one biases every ratio"
        if greedy:
            why += "; here it has no effect at all, because evaluation is "
            why += "greedy (evaluation.temperature 0)" if facts.evaluates else "off"
        fix = "delete this line" if off is None else f"{name} = {off}"
        yield facts.warning(f"policy.{name}", why, fix=fix, code="sampling")
    if facts["policy.inference_url"] is not None:
        why = "no effect on training: weights cannot be synced to a server that the run does not own"
        yield facts.note("policy.inference_url", why, fix="delete this line", code="sampling")


def request(facts: Facts) -> Iterator[Problem]:
    """What rollout.policy_config says of fields that are not its own."""
    given = facts["rollout.policy_config"]
    owned = [name for name in ("inference_url", "inference_base_url", "trace_correlation_id") if name in given]
    if owned:
        why = f"no effect of {', '.join(owned)} in it: each rollout is sent its own"
        yield facts.note("rollout.policy_config", why, fix="delete them from the table", code="policy_config")
    told, own = given.get("temperature"), facts["policy.temperature"]
    if told is not None and told != own:
        why = (
            f"the task app is told temperature = {shown(told)} and may sample with it: "
            f"policy.temperature = {own} has no effect then"
        )
        fix = "delete it from the table"
        if isinstance(told, int | float) and not isinstance(told, bool) and told > 0:
            fix = f"--set policy.temperature={told!r}, and {fix}"
        yield facts.note("rollout.policy_config", why, fix=fix, code="policy_config")


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
    elif facts.given("training.weight_sync.mode") and facts.entries["training.weight_sync.mode"].value != mode:
        why = f"{mode} instead: the local engine decodes with merged weights, not through an adapter"
        yield facts.note("training.weight_sync.mode", why, fix=f'mode = "{mode}"', code="weight_sync")
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
    dr_grpo,
    clip_range,
    kl_reference,
    learning_rate,
    dropout,
    sampling,
    request,
    weight_sync,
)
