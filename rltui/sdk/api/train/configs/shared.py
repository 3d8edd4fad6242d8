"""Sections of the config that every kind of job has."""

from __future__ import annotations

from rltui.sdk.api.train.configs.view import View
from trainer.config import schema


class AlgorithmConfig(schema.AlgorithmConfig, View):
    """[algorithm]: what is trained, and with which loss."""

    section = "algorithm"


class TopologyConfig(schema.TopologyConfig, View):
    """[compute.topology]: how the GPUs are shared out."""

    section = "compute.topology"


class ComputeConfig(schema.ComputeConfig, View):
    """[compute]: the machine."""

    section = "compute"
    topology: TopologyConfig | None = None  # type: ignore[assignment]  # None: not given


class PolicyConfig(schema.PolicyConfig, View):
    """[policy]: the model, how it is sampled and how it is trained. model_name or source is given."""

    section = "policy"


class LoraConfig(schema.LoraConfig, View):
    """[training.lora]: the adapter."""

    section = "training.lora"


__all__ = ["AlgorithmConfig", "ComputeConfig", "LoraConfig", "PolicyConfig", "TopologyConfig"]
