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

WITH_JUDGE = {"judge.enabled": (True,)}


class RolloutConfig(Section):
    """How episodes are asked for and played. "The request" is the rollout request to the task app."""

    synonyms = "generation sampling"

    env_name: Name = key(
        REQUIRED,
        origin="ref",
        group="the request",
        help="Which environment of the task app is played. env.env_name of the request.",
        checks="`rltui smoke` compares it with the app's task info",
        example="my-task",
    )
    policy_name: Name = key(
        REQUIRED,
        origin="ref",
        group="the request",
        help="Your name for what is trained, shown beside each episode. policy.policy_name of the request.",
        example="my-policy",
    )
    env_config: dict[str, Any] = key(
        {},
        origin="ref",
        group="the request",
        help="Settings of the environment: env.config of the request, unchanged.",
        checks="what JSON can carry",
    )
    policy_config: dict[str, Any] = key(
        {},
        origin="ref",
        group="the request",
        help="Merged over our policy config in the request; your keys win, except inference_url and "
        "trace_correlation_id. output_mode and structured_config move to the policy level.",
        checks="what JSON can carry",
    )
    max_turns: Positive = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Turns of one episode. They make the length of the `ops` list, and env.config.max_turns if absent there; "
        "the gateway stops a rollout at 4 times as many model calls.",
        unit="turns",
        checks="equal to training.max_turns where that is given",
        example=10,
        synonyms="max_steps max_episode_steps num_turns max_env_steps",
    )
    episodes_per_batch: Annotated[int, Field(ge=2)] = key(
        REQUIRED,
        origin="ref",
        group="amount",
        help="Episodes of one batch. Episodes per iteration = episodes_per_batch x batches_per_step.",
        unit="episodes",
        checks="training.group_size divides the episodes of an iteration",
        example=32,
        synonyms="rollout_batch_size generation_batch_size episodes_per_step rollouts_per_batch num_rollouts",
    )
    max_concurrent_rollouts: Positive | None = key(
        origin="ref",
        group="amount",
        help="Cap on rollouts in flight, training and evaluation together. It is the only limit that counts "
        "evaluation episodes.",
        unit="rollouts",
        derived="min(rollout.episodes_per_batch, 64)",
        live=True,
        synonyms="concurrency max_parallel_rollouts num_workers",
    )
    batches_per_step: Positive = key(
        1,
        origin="ref",
        group="amount",
        help="Batches of one iteration.",
        unit="batches",
        synonyms="steps_per_generation",
    )
    ops: Annotated[list[str], Field(min_length=1)] = key(
        ["agent", "env"],
        origin="sdk",
        group="the request",
        help="A pattern, repeated max_turns times in the request, for apps that read it.",
    )
    on_done: Literal["reset", "terminate"] = key(
        "reset", origin="seen", group="the request", help="on_done of the request, for apps that read it."
    )
    timeout_s: PositiveFloat = key(
        600.0,
        group="failures",
        help="Limit of one rollout: the HTTP timeout, and safety.max_time_s of the request. It is also the longest "
        "that the learner waits for a straggler, and, at least 300 s, that a run waits for a task app that is down.",
        why="one stuck app call must not stop a run",
        unit="s",
        resume=True,
    )
    max_retries: Annotated[int, Field(ge=0, le=10)] = key(
        2,
        group="failures",
        help="Further attempts after a failure that may pass, each under a new correlation id.",
        why="a failure of the app must not become reward 0",
        unit="attempts",
        resume=True,
    )
    max_excluded_fraction: Fraction = key(
        0.5,
        group="failures",
        help="The job fails, and names the reasons, when more than this share of an iteration's episodes is excluded.",
        why="a run must not go on with survivors only",
    )
    max_refill_groups: NonNegative = key(
        0,
        group="amount",
        help="How many dead groups (all rewards equal, so no gradient) an iteration may replace by groups of the "
        "next seeds. What stays dead is counted.",
        why="tasks that are too easy or too hard waste an iteration",
        unit="groups",
        checks="more than the groups of an iteration is noted",
    )
    task_app_origin_rewards_only: bool = key(
        False,
        origin="seen",
        group="rewards",
        help="Rewards come from the environment alone; the judge is not called.",
        checks="not together with rubric_rewards_only",
        visible_when=WITH_JUDGE,
    )
    rubric_rewards_only: bool = key(
        False,
        origin="seen",
        group="rewards",
        help="Rewards come from the judge alone: the environment's weight becomes 0, and step rewards vanish with it.",
        checks="needs judge.enabled",
        visible_when=WITH_JUDGE,
    )
    thinking_mode: str | None = key(
        origin="seen",
        group="thinking and images",
        help='Put in the request\'s policy config. "think" and "no_think" also set the switch of the chat template, '
        "if the model has one.",
        example="no_think",
    )
    thinking_budget: NonNegative | None = key(
        origin="seen", group="thinking and images", help="Put in the request's policy config.", unit="tokens"
    )
    use_vision: bool | None = key(
        origin="seen",
        group="thinking and images",
        help="Put in the request's policy config, no more: the learner reads text only.",
    )
    image_only_mode: bool | None = key(
        origin="seen", group="thinking and images", help="Put in the request's policy config, as use_vision."
    )
    max_images_per_step: NonNegative | None = key(
        origin="seen",
        group="thinking and images",
        help="Put in the request's policy config, as use_vision.",
        unit="images",
    )


class DataConfig(Section):
    """Which tasks are played. A task is named by a seed; each group of episodes shares one."""

    synonyms = "dataset"

    seed_start: NonNegative = key(
        0, origin="seen", help="The first training seed; then +1, +2 and so on, evaluation seeds left out."
    )
    seed_count: Positive | None = key(
        help="Training seeds start over after this many.",
        why="many task sets are finite",
        unit="seeds",
        derived="size of the split, if the task app tells it; else unbounded",
        checks="at least the groups of an iteration; built-in apps refuse seeds outside their set",
        synonyms="num_prompts num_seeds num_tasks dataset_size",
    )
    split: str | None = key(
        origin="seen",
        help="env.config.split of training requests, if absent there.",
        example="train",
        synonyms="train_split dataset_split dataset_train_split",
    )
    evaluation_split: str | None = key(
        origin="seen",
        help="env.config.split of evaluation requests, if absent there.",
        example="test",
        synonyms="eval_split val_split test_split dataset_test_split",
    )
    evaluation_episodes: Positive | None = key(
        origin="seen", help="Fills evaluation.instances where that is not given.", unit="episodes"
    )
    episodes_per_iteration: Positive | None = key(
        origin="seen",
        help="No effect: the episodes of an iteration follow from [rollout]. Another number is noted.",
        unit="episodes",
    )


class EvaluationConfig(Section):
    """Held-out episodes, never trained on.

    Without this section there is no evaluation, and the best checkpoint is chosen by training reward.
    """

    synonyms = "eval eval_config validation test"

    instances: NonNegative = key(
        REQUIRED,
        origin="ref",
        help="Episodes of one evaluation; episode i plays seeds[i mod len(seeds)]. 0 means one for each seed.",
        unit="episodes",
        derived="data.evaluation_episodes, else len(seeds) x rollouts_per_seed",
        checks="more than len(seeds) while greedy repeats the same answers, and is noted",
        example=50,
        synonyms="eval_episodes num_eval_episodes num_eval_samples",
    )
    every_n_iters: NonNegative = key(
        REQUIRED,
        origin="ref",
        help="Evaluates before the first iteration, after every n, and after the last. 0: only first and last.",
        unit="iterations",
        example=10,
        live=True,
        synonyms="eval_steps eval_every eval_freq eval_interval test_freq",
    )
    seeds: Annotated[list[NonNegative], Field(min_length=1)] = key(
        REQUIRED,
        origin="ref",
        help="Task seeds of evaluation. Training leaves them out.",
        allowed="a list of integers >= 0 that is not empty",
        checks="doubles are a warning",
        example=[0, 1, 2, 3],
        synonyms="eval_seeds test_seeds",
    )
    temperature: NonNegativeFloat = key(
        0.0,
        help="Sampling temperature of evaluation calls; 0 is greedy.",
        why="training and evaluation sampling must be told apart openly",
        synonyms="eval_temperature",
    )
    rollouts_per_seed: Positive | None = key(
        origin="seen",
        help="instances = len(seeds) x this, where instances is 0 or not given.",
        unit="episodes",
    )
    max_concurrent_rollouts: Positive | None = key(
        origin="seen",
        help="Cap on rollouts in flight during an evaluation.",
        unit="rollouts",
        derived="rollout.max_concurrent_rollouts",
    )
    thinking_mode: str | None = key(
        origin="seen",
        help="As rollout.thinking_mode, for evaluation requests.",
        derived="rollout.thinking_mode",
    )
