"""What each part of a run needs of the resolved config. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from trainer.config import Loaded, RunConfig
from trainer.config.gpus import COLOCATE, on_gpu
from trainer.learner.protocol import LearnerSettings
from trainer.rewards.rules import reward_rules
from trainer.rollout.player import PlayRules
from trainer.start_from import Start

TEMPLATE_SWITCH = {"think": {"enable_thinking": True}, "no_think": {"enable_thinking": False}}
MICRO_BATCH_TOKENS = 4096  # where training.micro_batch_tokens is not given


def play_rules(
    config: RunConfig, job_id: str, split: Literal["train", "eval"], blend: Mapping[str, float]
) -> PlayRules:
    """How episodes are asked for, sampled and scored. Training always samples the plain distribution.

    Args:
        blend: the weights env, event and outcome that this run uses.
    """
    policy, rollout, evaluation = config.policy, config.rollout, config.evaluation
    training = split == "train"
    temperature = policy.temperature if training or evaluation is None else evaluation.temperature
    thinking_mode = rollout.thinking_mode
    if not training and evaluation is not None and evaluation.thinking_mode is not None:
        thinking_mode = evaluation.thinking_mode
    # In the request's policy config where they are given (CONFIG 3); apps that do not know them ignore them.
    asked = {
        "thinking_mode": thinking_mode,
        "thinking_budget": rollout.thinking_budget,
        "use_vision": rollout.use_vision,
        "image_only_mode": rollout.image_only_mode,
        "max_images_per_step": rollout.max_images_per_step,
    }
    fields = {name: value for name, value in asked.items() if value is not None} | rollout.policy_config
    cut = not training and temperature > 0  # whether policy.top_p and its like have a say
    return PlayRules(
        job_id=job_id,
        env_name=rollout.env_name,
        env_config=rollout.env_config,
        policy_name=rollout.policy_name,
        policy_config=fields,
        template_kwargs=TEMPLATE_SWITCH.get(str(fields.get("thinking_mode")), {}),
        model=policy.label,
        max_turns=rollout.max_turns,
        max_tokens=policy.max_tokens,
        temperature=temperature,
        top_p=policy.top_p if cut else 1.0,
        top_k=policy.top_k or -1 if cut else -1,
        repetition_penalty=policy.repetition_penalty if cut else 1.0,
        stop=tuple(policy.stop_sequences),
        data_split=config.data.split if training else config.data.evaluation_split,
        ops=tuple(rollout.ops),
        on_done=rollout.on_done,
        timeout_s=rollout.timeout_s,
        max_retries=rollout.max_retries,
        seed=config.training.seed,
        rewards=reward_rules(config, split, blend),
    )


def learner_settings(loaded: Loaded, model: Path, start: Start | None = None) -> LearnerSettings:
    """`loaded` as the model's limits have completed it; `model` is the folder of the start weights."""
    name = loaded.config.policy.model_name or "" if start is None else start.model
    config, training, lora = loaded.config, loaded.config.training, loaded.config.training.lora
    return LearnerSettings(
        model=str(model),
        trainer_mode=config.policy.trainer_mode,
        dtype=training.dtype,
        seed=training.seed,
        deterministic=training.deterministic,
        variety=config.algorithm.variety,
        anchor=training.anchor,
        clip_eps_low=training.clip_eps_low,
        clip_eps_high=training.clip_eps_high,
        loss_aggregation=training.loss_aggregation,
        learning_rate=training.learning_rate,
        lr_schedule=training.lr_schedule,
        warmup_steps=training.warmup_iters * loaded.derived["m"],
        total_steps=loaded.derived["steps"],
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        max_seq_len=training.max_seq_len,
        micro_batch_tokens=training.micro_batch_tokens or max(MICRO_BATCH_TOKENS, training.max_seq_len),
        gradient_checkpointing=bool(training.gradient_checkpointing),
        lora_r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        lora_target_modules=list(lora.target_modules),
        kl_coef=training.kl_coef,
        reference=config.compute.topology.reference_placement,
        episode_tokens=config.rollout.max_turns * config.policy.max_tokens,
        start_adapter=None if start is None or start.adapter is None else str(start.adapter),
        gamma=training.gamma,
        gae_lambda=training.gae_lambda,
        value_coef=training.value_coef,
        # A builtin's name means nothing to peft: its folder does.
        base_name=str(model) if name.startswith("builtin:") else name,
        shares_gpu=on_gpu(config) and config.compute.topology.type == COLOCATE,
    )
