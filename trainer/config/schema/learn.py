"""How the policy is updated: [training] and [training.rewards]."""

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
from trainer.config.schema.weights import LoraConfig, WeightSyncConfig

Epsilon = Annotated[float, Field(gt=0, lt=1)]

WITH_PPO = {"algorithm.method": ("ppo",)}
WITH_ADAPTER = {"policy.trainer_mode": ("lora", "qlora")}
WITH_STEP_REWARDS = {"training.rewards.step_rewards_enabled": (True,)}


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

    synonyms = "train optim optimizer grpo grpo_config training_args"

    num_epochs: Positive = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Iterations in total = num_epochs x iterations_per_epoch.",
        unit="epochs",
        example=1,
        resume=True,
        synonyms="epochs n_epochs max_epochs num_train_epochs total_epochs",
    )
    iterations_per_epoch: Positive = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Iterations of one epoch. The number of the epoch is a field of the metrics.",
        unit="iterations",
        example=20,
        resume=True,
        synonyms="iterations num_iterations steps num_steps max_steps total_steps total_training_steps steps_per_epoch",
    )
    gradient_accumulation_steps: Positive = key(
        1,
        origin="ref",
        group="batch",
        help="Minibatches of batch_size in one update.",
        unit="minibatches",
        synonyms="grad_accum grad_accum_steps accumulation_steps accumulate_grad_batches",
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
        synonyms="train_batch_size per_device_train_batch_size mini_batch_size ppo_mini_batch_size",
    )
    group_size: Annotated[int, Field(ge=2)] = key(
        REQUIRED,
        origin="ref",
        group="batch",
        help="Episodes that share one task seed and are compared: one advantage group.",
        unit="episodes",
        checks="divides the episodes of an iteration; the error shows the arithmetic and the nearest values",
        example=4,
        synonyms="rollout_n num_generations num_return_sequences n_samples_per_prompt samples_per_prompt",
    )
    learning_rate: PositiveFloat = key(
        REQUIRED,
        origin="ref",
        group="optimizer",
        help="Peak rate of AdamW.",
        checks="a hint when > 1e-5 with full, or < 1e-6 with lora",
        example=5e-5,
        live=True,
        synonyms="lr actor_lr policy_lr actor_learning_rate",
    )
    log_interval: Positive = key(
        10,
        origin="ref",
        group="amount",
        help="Every N steps: one line on the console, one rl.train.step event, one row for trackers (means over the "
        "N). metrics.jsonl has every step regardless.",
        unit="steps",
        live=True,
        synonyms="log_every log_freq logging_steps log_every_n_steps",
    )
    weight_sync_interval: Positive = key(
        1,
        origin="ref",
        group="pipeline",
        help="Optimizer updates between two weight syncs.",
        unit="steps",
        checks="at most max_lag, unless that is 0",
        synonyms="sync_interval sync_every",
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
        synonyms="staleness max_staleness max_off_policy_steps",
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
        synonyms="epsilon epsilon_low clip clip_eps clip_range cliprange clip_ratio clip_ratio_low eps_clip",
    )
    clip_eps_high: PositiveFloat | None = key(
        group="loss",
        help="How far a ratio may rise above 1 before it is clipped.",
        why="the SDK names no clip range, and papers use unequal sides",
        derived="by algorithm.variety and training.anchor: 0.02 for gspo and gspo_token (proximal: 4e-4), else 0.2",
        checks="<= 1e-3 under the behavior anchor is a warning: that is inside numeric noise",
        live=True,
        synonyms="epsilon epsilon_high clip clip_eps clip_range cliprange clip_ratio clip_ratio_high eps_clip",
    )
    loss_aggregation: Literal["sequence_mean", "length_weighted"] = key(
        "sequence_mean",
        group="loss",
        help="Each sequence counts once, or by the number of its tokens.",
        why="systems differ here, and call both GSPO",
        checks="length_weighted not with dr_grpo",
        synonyms="loss_agg_mode",
    )
    advantage_std: bool | None = key(
        group="loss",
        help="Divides the advantages of a group by its standard deviation.",
        why="systems differ on it",
        derived="false for dr_grpo, else true",
        checks="true with dr_grpo is an error",
        synonyms="scale_rewards normalize_advantages advantage_normalization whiten_advantages norm_adv_by_std_in_grpo",
    )
    mask_truncated: bool = key(
        False,
        group="loss",
        help="true: episodes that were cut by max_tokens, the context limit or the call limit stay out of the loss, "
        "counted as truncated. Mean and deviation of their group stay.",
        why="systems differ on it",
        synonyms="mask_truncated_completions overlong_filtering",
    )
    kl_coef: NonNegativeFloat = key(
        0.0,
        group="loss",
        help="Weight of the KL penalty (k3 estimate) to the reference model.",
        why="it gives reference_placement a purpose",
        checks="> 0 needs a reference_placement",
        live=True,
        synonyms="beta kl kl_beta kl_loss_coef kl_penalty kl_weight init_kl_coef",
    )
    gamma: Fraction = key(
        1.0,
        group="ppo",
        help="Discount for each sampled token that lies between a reward and what earned it.",
        why="GAE needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
        synonyms="discount discount_factor",
    )
    gae_lambda: Fraction = key(
        0.95,
        group="ppo",
        help="Lambda of GAE: 0 trusts the value head, 1 the rewards.",
        why="GAE needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
        synonyms="lam gae_lam",
    )
    value_coef: NonNegativeFloat = key(
        0.5,
        group="ppo",
        help="Weight of the value head's loss.",
        why="the critic needs it",
        checks="noted with another method than ppo",
        visible_when=WITH_PPO,
        synonyms="vf_coef value_loss_coef critic_coef",
    )
    max_grad_norm: PositiveFloat = key(
        1.0,
        group="optimizer",
        help="Gradients are scaled down to this norm. One that is not finite skips the update, and is counted.",
        why="it keeps training stable",
        synonyms="max_norm grad_clip gradient_clip gradient_clipping gradient_clip_val clip_grad_norm",
    )
    lr_schedule: Literal["constant", "linear", "cosine"] = key(
        "constant",
        group="optimizer",
        help="Shape of the rate over the known total of updates: it stays, or falls to 0 in a line or a cosine.",
        why="full fine-tuning wants it",
        synonyms="lr_scheduler lr_scheduler_type scheduler",
    )
    warmup_iters: NonNegative = key(
        0,
        group="optimizer",
        help="The rate rises in a line from 0 over so many iterations.",
        why="it belongs to a schedule",
        unit="iterations",
        checks="fewer than there are iterations",
        synonyms="warmup warmup_ratio warmup_steps num_warmup_steps lr_warmup_steps",
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
        synonyms="random_seed",
    )
    deterministic: bool = key(
        False,
        group="repeatability",
        help="Batches are ordered by group and member, in one fixed padding bucket. On a CPU in float32, with the "
        "local engine, a built-in task app, no LLM judge and max_lag 0, equal runs are then equal bit for bit.",
        why="so that this can be tested",
        checks="a warning names the condition that is missing",
        synonyms="full_determinism",
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = key(
        group="memory",
        help="Number format of forward pass and weight sync. Adapters, master weights, optimizer state and logprobs "
        "are float32 always.",
        why="old GPUs and exact tests need it",
        derived="bfloat16 with CUDA, and on CPUs with AMX or AVX512-BF16; else float32",
        synonyms="bf16 fp16 precision mixed_precision torch_dtype",
    )
    gradient_checkpointing: bool | None = key(
        group="memory",
        help="Computes activations twice instead of keeping them: slower, with less memory.",
        why="it trades speed for memory",
        derived="true for full on CUDA, else false",
        synonyms="activation_checkpointing enable_gradient_checkpointing",
    )
    max_seq_len: Positive | None = key(
        group="memory",
        help="Longer sequences are excluded (too_long), never cut.",
        why="memory needs a bound",
        unit="tokens",
        derived="vllm.max_model_len",
        checks="at most vllm.max_model_len",
        synonyms="max_length max_seq_length seq_len sequence_length model_max_length",
    )
    micro_batch_tokens: Positive | None = key(
        group="memory",
        help="Tokens of one forward pass. It changes memory and speed, not the result.",
        why="it is the memory knob",
        unit="tokens",
        derived="4096, or max_seq_len where that is more; on a GPU rehearsed before the start",
        checks=">= max_seq_len",
        synonyms="micro_batch_size max_tokens_per_gpu ppo_max_token_len_per_gpu",
    )
    max_minutes: PositiveFloat | None = key(
        group="amount",
        help="At this age of the attempt the run saves a checkpoint and ends well (succeeded, reason max_minutes). "
        "It can be resumed, with another limit.",
        why="GPU time is often rented by the hour",
        unit="min",
        resume=True,
        synonyms="max_hours max_time time_limit",
    )
    step_rewards_weights: dict[str, float] = key(
        {},
        origin="seen",
        group="achievements",
        help="Weight of each achievement. With decision_stepwise this table, or step_rewards_k_limits, makes a turn's "
        "event value the sum of the weights of what it unlocked, in place of event_rewards_kind binary and unique. "
        "One that is not named weighs 1.0.",
        allowed="a table of numbers",
        visible_when=WITH_STEP_REWARDS,
    )
    step_rewards_k_limits: dict[str, int] = key(
        {},
        origin="seen",
        group="achievements",
        help="How often an achievement counts in one episode, where achievements are counted (see "
        "step_rewards_weights). One that is not named counts once; 0 or less is without limit.",
        allowed="a table of integers",
        visible_when=WITH_STEP_REWARDS,
    )
    weight_sync: WeightSyncConfig = section(WeightSyncConfig)
    lora: LoraConfig = section(LoraConfig, visible_when=WITH_ADAPTER)
    rewards: RewardsConfig = section(RewardsConfig)
