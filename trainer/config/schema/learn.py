"""How the policy is updated: [training] and its tables."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.schema.base import (
    REQUIRED,
    Fraction,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    key,
    section,
)

Epsilon = Annotated[float, Field(gt=0, lt=1)]

WITH_PPO = {"algorithm.method": ("ppo",)}
WITH_SYNC = {"training.weight_sync.enable": (True,)}
WITH_ADAPTER = {"policy.trainer_mode": ("lora", "qlora")}
WITH_STEP_REWARDS = {"training.rewards.step_rewards_enabled": (True,)}


class WeightSyncConfig(Section):
    """How new weights reach the inference engine while the run goes on."""

    enable: bool = key(
        True,
        origin="ref",
        help="false: generation stays on the initial weights, for debugging. Said at start and in the status.",
    )
    targets: list[Literal["vllm"]] = key(
        ["vllm"],
        origin="ref",
        help="Which consumers get new weights. An empty list is enable = false.",
        allowed='a list of "vllm"',
        checks='"policy" is another name of "vllm"',
        visible_when=WITH_SYNC,
    )
    mode: Literal["lora", "full"] | None = key(
        origin="ref",
        help="lora sends the adapter only, full sends all weights. For a LoRA run full is a merged copy: merged in "
        "float32, cast once, swapped in between decode steps.",
        derived="full for full; lora for qlora; lora for lora, but full on a CPU, where decoding through an adapter "
        "costs half the speed",
        checks='lora with trainer_mode full, and full with qlora, are errors; "direct" is the default with '
        "direct = true",
        visible_when=WITH_SYNC,
    )
    direct: bool = key(
        True,
        origin="ref",
        help="Device to device (NCCL, or CUDA IPC on one GPU) where GPU and engine support it, else through files, "
        "with the reason logged once. false: always through files.",
        checks="files need a path that learner and engine both see: checked at start",
        visible_when=WITH_SYNC,
    )
    verify_every_k: NonNegative = key(
        10,
        origin="ref",
        help="At the first sync after every k updates a canary compares what engine and learner say of fixed "
        "prompts. A mismatch leads to one full resend, then the job fails with weight_sync_mismatch. 0 is off.",
        unit="steps",
        checks="0 while max_lag > 0 is a warning",
        visible_when=WITH_SYNC,
        live=True,
    )


class LoraConfig(Section):
    """The adapter of the trainer modes lora and qlora."""

    r: Positive = key(
        16,
        origin="ref",
        help="Rank of the adapter. vLLM starts with the smallest of its allowed maxima (1, 8, 16, 32, 64, 128, 256, "
        "320, 512) that is large enough.",
        checks="> 512 with vLLM is an error; noted if trainer_mode is full",
    )
    alpha: Positive = key(32, origin="ref", help="The adapter's scale is alpha / r.")
    dropout: Annotated[float, Field(ge=0, lt=1)] = key(
        0.0,
        origin="ref",
        help="Recorded in the adapter's config, not applied. Importance ratios need the exact policy that sampled, so "
        "the forward pass always runs without dropout.",
        checks="> 0 is a warning",
    )
    target_modules: Annotated[list[str], Field(min_length=1)] = key(
        ["all-linear"],
        origin="sdk",
        help="Layers that get an adapter, by the names of their modules.",
        checks="each name matches a module; the error lists the names there are",
    )


class RewardsConfig(Section):
    """Step rewards: what single turns add to the environment's reward of the whole episode.

    Of a turn: e is the sum of its rewards from the environment, u its newly unlocked achievements, d the change of
    the achievement count, progress p is 1 if e > 0 or u is not empty, else 0.
    """

    step_rewards_enabled: bool = key(
        False,
        origin="ref",
        help="Switches the step term on. Off: step rewards that the app reports are logged, no more.",
    )
    step_rewards_mode: Literal["indicator", "decision_stepwise", "env_sparse", "off"] = key(
        "indicator",
        origin="ref",
        help="Step reward r of a turn. indicator: lambda x p; decision_stepwise: event value + lambda x p; "
        "env_sparse: e; off: 0.",
        visible_when=WITH_STEP_REWARDS,
    )
    step_rewards_indicator_lambda: NonNegativeFloat = key(
        0.1, origin="ref", help="lambda: the weight of a turn's progress.", visible_when=WITH_STEP_REWARDS
    )
    step_rewards_beta: NonNegativeFloat = key(
        1.0,
        origin="ref",
        help="beta: the episode's reward is its outcome + beta x the sum of its step rewards.",
        checks="0 with decision_stepwise is read as 1.0, with a note (it once meant: no early bonus); 0 in other "
        "modes is a warning",
        visible_when=WITH_STEP_REWARDS,
    )
    step_rewards_strategy: Literal["uniform", "per_turn"] = key(
        "uniform",
        origin="ref",
        help="uniform: one advantage for the whole episode. per_turn: each turn's tokens get the advantage of what "
        "came from that turn on.",
        checks="per_turn needs gspo_token, grpo, dr_grpo or ppo",
    )
    event_rewards_kind: Literal["binary", "continuous", "unique", "absolute"] = key(
        "binary",
        origin="ref",
        help="Event value of a turn. binary: 1 if e > 0; continuous: e; unique: 1 if u is not empty; absolute: d.",
        visible_when=WITH_STEP_REWARDS,
    )


class TrainingConfig(Section):
    """How much is trained, on what, and how the weights move. Step = one optimizer update."""

    num_epochs: Positive = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Iterations in total = num_epochs x iterations_per_epoch.",
        unit="epochs",
        example=1,
        resume=True,
    )
    iterations_per_epoch: Positive = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Iterations of one epoch. The number of the epoch is a field of the metrics.",
        unit="iterations",
        example=20,
        resume=True,
    )
    gradient_accumulation_steps: Positive = key(
        1,
        origin="ref",
        group="batch",
        help="Minibatches of batch_size in one update.",
        unit="minibatches",
    )
    max_accumulated_minibatch: Positive | None = key(
        origin="ref",
        group="batch",
        help="Upper bound on the minibatches of one update: min(this, gradient_accumulation_steps).",
        unit="minibatches",
        checks="noted where it lowers the number",
    )
    max_turns: Positive | None = key(
        origin="ref",
        group="amount",
        help="No effect of its own: it repeats rollout.max_turns.",
        unit="turns",
        derived="rollout.max_turns",
        checks="equal to rollout.max_turns",
    )
    batch_size: Positive = key(
        REQUIRED,
        origin="ref",
        group="batch",
        help="Sequences of one minibatch, over the whole run and not on each GPU.",
        unit="sequences",
        checks="more than the episodes of an iteration is noted",
        example=16,
    )
    group_size: Annotated[int, Field(ge=2)] = key(
        REQUIRED,
        origin="ref",
        group="batch",
        help="Episodes that share one task seed and are compared: one advantage group.",
        unit="episodes",
        checks="divides the episodes of an iteration; the error shows the arithmetic and the nearest values",
        example=4,
    )
    learning_rate: PositiveFloat = key(
        REQUIRED,
        origin="ref",
        group="optimizer",
        help="Peak rate of AdamW.",
        checks="a hint when > 1e-5 with full, or < 1e-6 with lora",
        example=5e-5,
        live=True,
    )
    log_interval: Positive = key(
        10,
        origin="ref",
        group="amount",
        help="Every N steps: one line on the console, one rl.train.step event, one row for trackers (means over the "
        "N). metrics.jsonl has every step regardless.",
        unit="steps",
        live=True,
    )
    weight_sync_interval: Positive = key(
        1,
        origin="ref",
        group="pipeline",
        help="Optimizer updates between two weight syncs.",
        unit="steps",
        checks="at most max_lag, unless that is 0",
    )
    max_lag: NonNegative | None = key(
        group="pipeline",
        help="The greatest lag, in optimizer updates, of any token of a training episode when its iteration's batch "
        "closes. 0 is synchronous: collection waits for the sync.",
        why="a pipeline needs a bound",
        unit="steps",
        derived="max(4, training.weight_sync_interval)",
        checks="0, or >= weight_sync_interval; ignored, and said so, while weight_sync.enable is false",
        live=True,
    )
    anchor: Literal["behavior", "proximal"] = key(
        "behavior",
        group="loss",
        help="Denominator of the ratio. behavior: logprobs recorded at sampling; proximal: recomputed by the learner "
        "before an iteration's first update, the loss then weighed by proximal / behavior and masked.",
        why="the clip range depends on it",
        checks="proximal needs 2 updates an iteration: with one, the ratio is always 1",
    )
    clip_eps_low: Epsilon | None = key(
        group="loss",
        help="How far a ratio may fall below 1 before it is clipped.",
        why="the SDK names no clip range",
        derived="by algorithm.variety and training.anchor: 0.02 for gspo and gspo_token (proximal: 3e-4), else 0.2",
        checks="<= 1e-3 under the behavior anchor is a warning: that is inside numeric noise",
        live=True,
    )
    clip_eps_high: PositiveFloat | None = key(
        group="loss",
        help="How far a ratio may rise above 1 before it is clipped.",
        why="the SDK names no clip range, and papers use unequal sides",
        derived="by algorithm.variety and training.anchor: 0.02 for gspo and gspo_token (proximal: 4e-4), else 0.2",
        checks="<= 1e-3 under the behavior anchor is a warning: that is inside numeric noise",
        live=True,
    )
    loss_aggregation: Literal["sequence_mean", "length_weighted"] = key(
        "sequence_mean",
        group="loss",
        help="Each sequence counts once, or by the number of its tokens.",
        why="systems differ here, and call both GSPO",
        checks="length_weighted not with dr_grpo",
    )
    advantage_std: bool | None = key(
        group="loss",
        help="Divides the advantages of a group by its standard deviation.",
        why="systems differ on it",
        derived="false for dr_grpo, else true",
        checks="true with dr_grpo is an error",
    )
    mask_truncated: bool = key(
        False,
        group="loss",
        help="true: episodes that were cut by max_tokens, the context limit or the call limit stay out of the loss, "
        "counted as truncated. Mean and deviation of their group stay.",
        why="systems differ on it",
    )
    kl_coef: NonNegativeFloat = key(
        0.0,
        group="loss",
        help="Weight of the KL penalty (k3 estimate) to the reference model.",
        why="it gives reference_placement a purpose",
        checks="> 0 needs a reference_placement",
        live=True,
    )
    gamma: Fraction = key(
        1.0,
        group="ppo",
        help="Discount of later turns' rewards.",
        why="GAE needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
    )
    gae_lambda: Fraction = key(
        0.95,
        group="ppo",
        help="Lambda of GAE: 0 trusts the value head, 1 the rewards.",
        why="GAE needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
    )
    value_coef: NonNegativeFloat = key(
        0.5,
        group="ppo",
        help="Weight of the value head's loss.",
        why="the critic needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
    )
    max_grad_norm: PositiveFloat = key(
        1.0,
        group="optimizer",
        help="Gradients are scaled down to this norm. One that is not finite skips the update, and is counted.",
        why="it keeps training stable",
    )
    lr_schedule: Literal["constant", "linear", "cosine"] = key(
        "constant",
        group="optimizer",
        help="Shape of the rate over the known total of updates: it stays, or falls to 0 in a line or a cosine.",
        why="full fine-tuning wants it",
    )
    warmup_iters: NonNegative = key(
        0,
        group="optimizer",
        help="The rate rises in a line from 0 over so many iterations.",
        why="it belongs to a schedule",
        unit="iterations",
        checks="fewer than there are iterations",
    )
    weight_decay: NonNegativeFloat = key(
        0.0, group="optimizer", help="Decoupled weight decay of AdamW.", why="full fine-tuning wants it"
    )
    seed: NonNegative = key(
        0,
        group="repeatability",
        help="Seeds the adapter, the order of data, and each model call. A call's seed is hash(seed, iteration, group, "
        "member, call), whatever the app sends.",
        why="runs must be repeatable",
    )
    deterministic: bool = key(
        False,
        group="repeatability",
        help="Batches are ordered by group and member, in one fixed padding bucket. On a CPU in float32, with the "
        "local engine, a built-in task app, no LLM judge and max_lag 0, equal runs are then equal bit for bit.",
        why="so that this can be tested",
        checks="a warning names the condition that is missing",
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = key(
        group="memory",
        help="Number format of forward pass and weight sync. Adapters, master weights, optimizer state and logprobs "
        "are float32 always.",
        why="old GPUs and exact tests need it",
        derived="bfloat16 with CUDA, and on CPUs with AMX or AVX512-BF16; else float32",
    )
    gradient_checkpointing: bool | None = key(
        group="memory",
        help="Computes activations twice instead of keeping them: slower, with less memory.",
        why="it trades speed for memory",
        derived="true for full on CUDA, else false",
    )
    max_seq_len: Positive | None = key(
        group="memory",
        help="Longer sequences are excluded (too_long), never cut.",
        why="memory needs a bound",
        unit="tokens",
        derived="vllm.max_model_len",
        checks="at most vllm.max_model_len",
    )
    micro_batch_tokens: Positive | None = key(
        group="memory",
        help="Tokens of one forward pass. It changes memory and speed, not the result.",
        why="it is the memory knob",
        unit="tokens",
        derived="measured at start, with a worst-case step",
        checks=">= max_seq_len",
    )
    max_minutes: PositiveFloat | None = key(
        group="amount",
        help="At this age of the attempt the run saves a checkpoint and ends well (succeeded, reason max_minutes). "
        "It can be resumed.",
        why="GPU time is often rented by the hour",
        unit="min",
        checks="below the estimate of the first iteration is a warning",
    )
    step_rewards_weights: dict[str, float] = key(
        {},
        origin="seen",
        group="achievements",
        help="Weight of each achievement where step rewards count single achievements. One that is not named "
        "weighs 1.0.",
        allowed="a table of numbers",
        visible_when=WITH_STEP_REWARDS,
    )
    step_rewards_k_limits: dict[str, int] = key(
        {},
        origin="seen",
        group="achievements",
        help="How often an achievement counts in one episode. One that is not named counts once; 0 or less is "
        "without limit.",
        allowed="a table of integers",
        visible_when=WITH_STEP_REWARDS,
    )
    weight_sync: WeightSyncConfig = section(WeightSyncConfig)
    lora: LoraConfig = section(LoraConfig, visible_when=WITH_ADAPTER)
    rewards: RewardsConfig = section(RewardsConfig)
