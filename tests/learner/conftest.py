"""A small random Llama with two heads a key, saved in the stock layout, and sequences for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.learner.protocol import LearnerSettings, Sequence

VOCAB = 97


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        attention_dropout=0.3,  # must never act
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    path = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(path)
    (path / "tokenizer_config.json").write_text("{}")
    return path


@pytest.fixture(scope="session")
def settings(model_path: Path) -> Callable[..., LearnerSettings]:
    def make(**changes: Any) -> LearnerSettings:
        values: dict[str, Any] = {
            "model": str(model_path),
            "trainer_mode": "lora",
            "dtype": "float32",
            "seed": 3,
            "deterministic": False,
            "variety": "gspo",
            "anchor": "behavior",
            "clip_eps_low": 0.2,
            "clip_eps_high": 0.2,
            "loss_aggregation": "sequence_mean",
            "learning_rate": 1e-2,
            "lr_schedule": "constant",
            "warmup_steps": 0,
            "total_steps": 20,
            "weight_decay": 0.0,
            "max_grad_norm": 1.0,
            "max_seq_len": 128,
            "micro_batch_tokens": 4096,
            "gradient_checkpointing": False,
            "lora_r": 4,
            "lora_alpha": 8,
        }
        return LearnerSettings(**(values | changes))

    return make


def frame(n: int, ids: Any, mask: Any, *, group: int = 0, advantage: float = 1.0, **changes: Any) -> Sequence:
    values: dict[str, Any] = {
        "n": n,
        "branch": 0,
        "group": group,
        "ids": np.asarray(ids, "<i4").tobytes(),
        "mask": np.asarray(mask, "u1").tobytes(),
        "logp_behavior": np.full(len(ids), -4.5, "<f4").tobytes(),
        "advantage": advantage,
        "weight": 1.0,
        "temperature": 1.0,
    }
    return Sequence(**(values | changes))


def make_groups(groups: int = 2, size: int = 3, seed: int = 0, **changes: Any) -> list[Sequence]:
    """Groups with a prompt of their own; members of unequal lengths, with masked tokens between two turns."""
    rng = np.random.default_rng(seed)
    frames = []
    for group in range(groups):
        prompt = rng.integers(0, VOCAB, 5 + group)
        for member in range(size):
            mask = np.r_[np.zeros(len(prompt)), np.ones(3 + member), np.zeros(2), np.ones(2 + group)].astype("u1")
            ids = np.r_[prompt, rng.integers(0, VOCAB, len(mask) - len(prompt))]
            frames.append(
                frame(group * size + member, ids, mask, group=group, advantage=float(rng.normal()), **changes)
            )
    return frames
