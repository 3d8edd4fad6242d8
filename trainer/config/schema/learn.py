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
)

Epsilon = Annotated[float, Field(gt=0, lt=1)]


class WeightSyncConfig(Section):
    enable: bool = key(True, help="false: generation stays on the initial weights, for debugging")
    targets: list[Literal["vllm"]] = key(["vllm"], help="which consumers get weights; empty switches sync off")
    mode: Literal["lora", "full"] | None = key(
        help="lora: adapter only; full: all weights, for a LoRA run a merged copy",
        derived="by policy.trainer_mode and device",
    )
    direct: bool = key(True, help="device to device where GPU and engine support it, else through files")
    verify_every_k: NonNegative = key(
        10,
        help="a canary compares engine and learner after every k updates; 0 is off",
        unit="steps",
        live=True,
    )


class LoraConfig(Section):
    r: Positive = key(16, help="adapter rank")
    alpha: Positive = key(32, help="the adapter's scale is alpha / r")
    dropout: Annotated[float, Field(ge=0, lt=1)] = key(
        0.0, help="recorded in the adapter config only: the policy forward always runs without dropout"
    )
    target_modules: Annotated[list[str], Field(min_length=1)] = key(["all-linear"], help="layers that get adapters")


class RewardsConfig(Section):
    step_rewards_enabled: bool = key(False, help="switches the step term of the reward on")
    step_rewards_mode: Literal["indicator", "decision_stepwise", "env_sparse", "off"] = key(
        "indicator", help="formula of a turn's step reward"
    )
    step_rewards_indicator_lambda: NonNegativeFloat = key(0.1, help="weight of a turn's progress")
    step_rewards_beta: NonNegativeFloat = key(1.0, help="scales the sum of step rewards")
    step_rewards_strategy: Literal["uniform", "per_turn"] = key(
        "uniform", help="one advantage for the whole episode, or one per turn"
    )
    event_rewards_kind: Literal["binary", "continuous", "unique", "absolute"] = key(
        "binary", help="how a turn's event value is formed"
    )


class TrainingConfig(Section):
    num_epochs: Positive = key(
        REQUIRED,
        help="iterations in total = num_epochs x iterations_per_epoch",
        unit="epochs",
        example=1,
        resume=True,
    )
    iterations_per_epoch: Positive = key(
        REQUIRED, help="iterations of one epoch", unit="iterations", example=20, resume=True
    )
    gradient_accumulation_steps: Positive = key(1, help="minibatches of batch_size in one update")
    max_accumulated_minibatch: Positive | None = key(help="upper bound on the minibatches of one update")
    max_turns: Positive | None = key(
        help="none of its own: must equal rollout.max_turns", unit="turns", derived="rollout.max_turns"
    )
    batch_size: Positive = key(
        REQUIRED, help="sequences of one minibatch, of the whole run", unit="sequences", example=16
    )
    group_size: Annotated[int, Field(ge=2)] = key(
        REQUIRED,
        help="episodes that share one task seed and form one advantage group",
        unit="episodes",
        example=4,
    )
    learning_rate: PositiveFloat = key(REQUIRED, help="AdamW peak rate", example=5e-5, live=True)
    log_interval: Positive = key(
        10, help="every N steps one console line, one event, one tracker row", unit="steps", live=True
    )
    weight_sync_interval: Positive = key(1, help="optimizer updates between two weight syncs", unit="steps")
    max_lag: NonNegative | None = key(
        help="greatest lag of any training token when its batch closes; 0 is synchronous",
        unit="steps",
        derived="max(4, training.weight_sync_interval)",
        live=True,
    )
    anchor: Literal["behavior", "proximal"] = key(
        "behavior",
        help="denominator of the ratio: logprobs recorded at sampling, or recomputed by the learner",
    )
    clip_eps_low: Epsilon | None = key(
        help="lower clip distance of the ratio", derived="by algorithm.variety and training.anchor", live=True
    )
    clip_eps_high: PositiveFloat | None = key(
        help="upper clip distance of the ratio", derived="by algorithm.variety and training.anchor", live=True
    )
    loss_aggregation: Literal["sequence_mean", "length_weighted"] = key(
        "sequence_mean", help="each sequence counts once, or by its token count"
    )
    advantage_std: bool | None = key(
        help="divide advantages by the group's standard deviation", derived="false for dr_grpo, else true"
    )
    mask_truncated: bool = key(False, help="episodes cut by a token or call limit stay out of the loss")
    kl_coef: NonNegativeFloat = key(0.0, help="weight of the KL penalty to the reference", live=True)
    gamma: Fraction = key(1.0, help="discount, ppo only")
    gae_lambda: Fraction = key(0.95, help="GAE lambda, ppo only")
    value_coef: NonNegativeFloat = key(0.5, help="value loss weight, ppo only")
    max_grad_norm: PositiveFloat = key(1.0, help="gradient clipping")
    lr_schedule: Literal["constant", "linear", "cosine"] = key(
        "constant", help="shape of the rate over the known total of updates"
    )
    warmup_iters: NonNegative = key(0, help="linear warm-up", unit="iterations")
    weight_decay: NonNegativeFloat = key(0.0, help="AdamW decay")
    seed: NonNegative = key(0, help="adapter init, data order, the seed of each training call")
    deterministic: bool = key(False, help="batches ordered by group and member, one fixed padding bucket")
    dtype: Literal["bfloat16", "float16", "float32"] | None = key(
        help="of forward pass and sync; adapters, optimizer state and logprobs are float32",
        derived="bfloat16 where the hardware is fast at it, else float32",
    )
    gradient_checkpointing: bool | None = key(
        help="trades speed for memory", derived="true for full on CUDA, else false"
    )
    max_seq_len: Positive | None = key(
        help="longer sequences are excluded, never cut", unit="tokens", derived="vllm.max_model_len"
    )
    micro_batch_tokens: Positive | None = key(
        help="tokens of one forward pass; no effect on the result", unit="tokens", derived="measured at start"
    )
    max_minutes: PositiveFloat | None = key(
        help="at this age of the attempt: a checkpoint, then a clean end", unit="min"
    )
    step_rewards_weights: dict[str, float] = key({}, help="weight of each achievement; unnamed is 1.0")
    step_rewards_k_limits: dict[str, int] = key(
        {}, help="how often an achievement counts in an episode; unnamed is 1, 0 or less is unlimited"
    )
    weight_sync: WeightSyncConfig = Field(default_factory=WeightSyncConfig)
    lora: LoraConfig = Field(default_factory=LoraConfig)
    rewards: RewardsConfig = Field(default_factory=RewardsConfig)
