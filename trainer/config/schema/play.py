"""How episodes are played: [rollout] [data] [evaluation]."""

from typing import Annotated, Any, Literal

from pydantic import Field

from trainer.config.schema.base import (
    REQUIRED,
    Fraction,
    Name,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    key,
)


class RolloutConfig(Section):
    env_name: Name = key(REQUIRED, help="environment name in the rollout request", example="my-task")
    policy_name: Name = key(REQUIRED, help="policy name in the rollout request", example="my-policy")
    env_config: dict[str, Any] = key({}, help="the request's env.config, unchanged")
    policy_config: dict[str, Any] = key({}, help="merged over our policy config in the request")
    max_turns: Positive = key(
        REQUIRED,
        help="turns of one episode; the gateway stops it at 4 times as many calls",
        unit="turns",
        example=10,
    )
    episodes_per_batch: Annotated[int, Field(ge=2)] = key(
        REQUIRED, help="episodes of one batch", unit="episodes", example=32
    )
    max_concurrent_rollouts: Positive | None = key(
        help="rollouts in flight, training and evaluation together",
        unit="rollouts",
        derived="min(rollout.episodes_per_batch, 64)",
        live=True,
    )
    batches_per_step: Positive = key(1, help="batches of one iteration", unit="batches")
    ops: Annotated[list[str], Field(min_length=1)] = key(
        ["agent", "env"], help="pattern repeated max_turns times in the request, for apps that read it"
    )
    on_done: Literal["reset", "terminate"] = key("reset", help="the request's on_done")
    timeout_s: PositiveFloat = key(
        600.0, help="limit of one rollout; the longest wait for a straggler", unit="s", resume=True
    )
    max_retries: Annotated[int, Field(ge=0, le=10)] = key(
        2, help="further attempts after a retryable failure", resume=True
    )
    max_excluded_fraction: Fraction = key(
        0.5, help="the job fails when more than this share of an iteration's episodes is excluded"
    )
    max_refill_groups: NonNegative = key(
        0, help="groups without gradient that an iteration may replace by the next seeds", unit="groups"
    )
    task_app_origin_rewards_only: bool = key(False, help="blend becomes env only; the judge is not called")
    rubric_rewards_only: bool = key(False, help="the env weight becomes 0, and step rewards with it")
    thinking_mode: str | None = key(help="put in the request's policy config; think and no_think set the template")
    thinking_budget: NonNegative | None = key(help="put in the request's policy config", unit="tokens")
    use_vision: bool | None = key(help="put in the request's policy config only: the learner is text-only")
    image_only_mode: bool | None = key(help="as use_vision")
    max_images_per_step: NonNegative | None = key(help="as use_vision")


class DataConfig(Section):
    seed_start: NonNegative = key(0, help="first training task seed")
    seed_count: Positive | None = key(
        help="training seeds wrap after this many",
        unit="seeds",
        derived="the task app's split size, else unbounded",
    )
    split: str | None = key(help="env.config.split of training requests, if absent there")
    evaluation_split: str | None = key(help="the same for evaluation requests")
    evaluation_episodes: Positive | None = key(help="fills evaluation.instances when that is unset", unit="episodes")
    episodes_per_iteration: Positive | None = key(
        help="no effect: episodes of an iteration follow from [rollout]", unit="episodes"
    )


class EvaluationConfig(Section):
    instances: NonNegative = key(
        REQUIRED,
        help="episodes of one evaluation; episode i uses seeds[i mod len(seeds)]",
        unit="episodes",
        example=50,
    )
    every_n_iters: NonNegative = key(
        REQUIRED,
        help="evaluates at iteration 0, every n, and after the last; 0: first and last only",
        unit="iterations",
        example=10,
        live=True,
    )
    seeds: Annotated[list[NonNegative], Field(min_length=1)] = key(
        REQUIRED, help="task seeds of evaluation, held out from training", example=[0, 1, 2, 3]
    )
    temperature: NonNegativeFloat = key(0.0, help="sampling of evaluation calls; 0 is greedy")
    rollouts_per_seed: Positive | None = key(help="instances = len(seeds) x this when instances is 0 or unset")
    max_concurrent_rollouts: Positive | None = key(
        help="rollouts in flight during evaluation",
        unit="rollouts",
        derived="rollout.max_concurrent_rollouts",
    )
    thinking_mode: str | None = key(
        help="as rollout.thinking_mode, for evaluation requests", derived="rollout.thinking_mode"
    )
