"""What a smoke test is asked to do: from a config, from the command's options, or from neither. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from rltui.smoke.report import Json, Plan
from trainer.config import Loaded, RunConfig
from trainer.config.schema import JudgeConfig
from trainer.rewards.rules import OUTCOME_ALONE, RewardRules, reward_rules

SEEDS, GROUP_SIZE, CONCURRENCY = 8, 4, 8  # where no config says better
TIMEOUT_S = 120.0  # of one episode, where no config says it
PERSON_TIMEOUT_S = 86_400.0

ENVIRONMENT = {"env": 1.0}  # what an app is tested for; the judge has a stage of its own


@dataclass(frozen=True, slots=True)
class Judging:
    """config: [judge]. url: services.judge_url. folder: where the config lies, and `rubrics/` beside it."""

    config: JudgeConfig
    url: str | None
    folder: str


@dataclass(frozen=True, slots=True)
class Settings:
    """A smoke test.

    app: an http(s) URL, or an app to serve first: builtin:NAME, ADAPTER:DATASET or FILE.py, on app_port (0: any).
    rollouts: at most so many episodes in S09. policy: a value of smoke.policy. model: None is the policy's default.
    """

    app: str
    env_name: str | None = None  # None: by task info
    policy_name: str = "react"
    env_config: Json = field(default_factory=dict)
    policy_config: Json = field(default_factory=dict)
    max_turns: int = 10
    needed_turns: int | None = None  # rollout.max_turns
    max_tokens: int = 512
    temperature: float = 0.7
    stop: tuple[str, ...] = ()
    ops: tuple[str, ...] = ("agent", "env")
    on_done: str = "reset"
    split: str | None = None
    timeout_s: float = TIMEOUT_S
    max_excluded_fraction: float = 0.5
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    evaluation_seeds: tuple[int, ...] = ()
    seed_count: int | None = None
    group_size: int = GROUP_SIZE
    rollouts: int | None = None
    concurrency: int = CONCURRENCY
    full: bool = False
    return_trace: bool = False
    advantage_std: bool = True
    policy: str = "mock"
    model: str | None = None
    mock_backend: str = "synthetic"
    policy_host: str = "127.0.0.1"  # where our server of the policy listens
    policy_port: int = 0
    public_url: str | None = None  # where the app reaches it, if not there
    app_port: int = 0
    app_env_file: str | None = None
    app_force: bool = False
    trace_db: str | None = None
    config_hash: str | None = None
    rewards: RewardRules = OUTCOME_ALONE
    judging: Judging | None = None
    plan: Plan = field(default_factory=Plan)

    @property
    def plays(self) -> list[tuple[int, int]]:
        """(seed, member) of S09's episodes, seed by seed."""
        every = [(seed, member) for seed in self.seeds for member in range(self.group_size)]
        return every[: self.rollouts]


def settings_of(
    loaded: Loaded | None,
    *,
    url: str | None = None,
    policy: str | None = None,
    seeds: Sequence[int] | None = None,
    group_size: int | None = None,
    rollouts: int | None = None,
    full: bool = False,
    folder: str = ".",
) -> Settings:
    """The options win over the config, even where they equal a default. folder: where the config lies.

    ValueError: no app is named by either.
    """
    if loaded is None:
        if url is None:
            raise ValueError("neither a config nor a URL says what is to be tested")
        chosen, config = policy or "mock", None
        fields: dict[str, Any] = {"app": url}
    else:
        config = loaded.config
        chosen = policy or _policy(loaded)
        fields = _of_config(loaded, url, folder)
    by_hand = chosen == "human"
    fields |= {"policy": chosen, "rollouts": rollouts, "full": full}
    if by_hand:
        fields["timeout_s"] = PERSON_TIMEOUT_S
    default_group = config.training.group_size if config else GROUP_SIZE
    fields["group_size"] = group_size or (1 if by_hand else default_group)
    fields["seeds"] = tuple(seeds) if seeds is not None else _seeds(config, 1 if by_hand else SEEDS)
    return Settings(**fields)


def _policy(loaded: Loaded) -> str:
    smoke, policy = loaded.config.smoke, loaded.config.policy
    if smoke.use_mock:
        return "mock"
    if policy.inference_url is not None and loaded.origins["smoke.policy"].kind == "default":
        return policy.inference_url
    return smoke.policy


def _of_config(loaded: Loaded, url: str | None, folder: str) -> dict[str, Any]:
    config = loaded.config
    smoke, rollout, policy, data = config.smoke, config.rollout, config.policy, config.data
    app, port = url or smoke.task_url or config.services.task_url, 0
    if url is None and smoke.task_app_name is not None:
        app, port = smoke.task_app_name, smoke.task_app_port
    given_turns = loaded.origins["smoke.max_steps"].kind != "default"
    max_turns = smoke.max_steps if given_turns else min(smoke.max_steps, rollout.max_turns)
    evaluation = config.evaluation
    assert rollout.max_concurrent_rollouts is not None  # of a config that was loaded
    return {
        "app": app,
        "app_port": port,
        "app_env_file": smoke.task_app_env_file,
        "app_force": smoke.task_app_force,
        "env_name": smoke.env_name or rollout.env_name,
        "policy_name": smoke.policy_name or rollout.policy_name,
        "env_config": rollout.env_config,
        "policy_config": rollout.policy_config,
        "max_turns": max_turns,
        "needed_turns": rollout.max_turns,
        "max_tokens": policy.max_tokens,
        "temperature": policy.temperature,
        "stop": tuple(policy.stop_sequences),
        "ops": tuple(rollout.ops),
        "on_done": rollout.on_done,
        "split": data.split,
        "timeout_s": rollout.timeout_s,
        "max_excluded_fraction": rollout.max_excluded_fraction,
        "evaluation_seeds": tuple(evaluation.seeds) if evaluation else (),
        "seed_count": data.seed_count,
        "concurrency": rollout.max_concurrent_rollouts,
        "return_trace": smoke.return_trace,
        "advantage_std": config.training.advantage_std,
        "model": smoke.model,
        "mock_backend": smoke.mock_backend,
        "policy_host": config.inference.gateway_host,
        "policy_port": smoke.mock_port or (config.inference.gateway_port if config.inference.public_url else 0),
        "public_url": config.inference.public_url,
        "trace_db": smoke.sqld_db_path if smoke.sqld_auto_start else None,
        "config_hash": loaded.config_hash,
        "rewards": reward_rules(config, "train", ENVIRONMENT),
        "judging": Judging(config.judge, config.services.judge_url, folder) if config.judge.enabled else None,
        "plan": Plan(
            iterations=loaded.derived["iterations"],
            episodes_per_iteration=loaded.derived["E"],
            group_size=config.training.group_size,
            concurrency=rollout.max_concurrent_rollouts,
            max_turns=rollout.max_turns,
            max_tokens=policy.max_tokens,
            max_model_len=config.vllm.max_model_len,
            gpus=config.compute.gpu_count or 0,
        ),
    }


def _seeds(config: RunConfig | None, number: int) -> tuple[int, ...]:
    """The first seeds that training would play: evaluation's are left out."""
    if config is None:
        return tuple(range(number))
    start, size = config.data.seed_start, config.data.seed_count
    held_out = set(config.evaluation.seeds) if config.evaluation else set()
    every = count(start) if size is None else range(start, start + size)
    return tuple(islice((seed for seed in every if seed not in held_out), number))
