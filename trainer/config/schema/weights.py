"""Which weights are trained, and how the engine gets them: [training.lora] [training.weight_sync]."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.schema.base import NonNegative, Positive, Section, key

WITH_SYNC = {"training.weight_sync.enable": (True,)}


class WeightSyncConfig(Section):
    """How new weights reach the inference engine while the run goes on."""

    enable: bool = key(
        True,
        origin="ref",
        help="false: generation stays on the initial weights, for debugging. Said at start and in the status.",
        synonyms="sync_weights",
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
        "costs half the speed; always full for lora on the local engine",
        checks='lora with trainer_mode full, and full with qlora, are errors; "direct" is the default with '
        "direct = true",
        visible_when=WITH_SYNC,
    )
    direct: bool = key(
        True,
        origin="ref",
        help="Device to device (NCCL, or CUDA IPC on one GPU) where GPU and engine support it, else through files, "
        "with the reason logged once. false: always through files. Adapters, merged copies and a server of "
        "inference.url get files.",
        checks="a server of inference.url is asked at start whether it sees the run folder under the same path",
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

    synonyms = "lora_config peft peft_config"

    r: Positive = key(
        16,
        origin="ref",
        help="Rank of the adapter. vLLM starts with the smallest of its allowed maxima (1, 8, 16, 32, 64, 128, 256, "
        "320, 512) that is large enough.",
        checks="> 512 with vLLM is an error; noted if trainer_mode is full",
        synonyms="rank lora_r lora_rank",
    )
    alpha: Positive = key(32, origin="ref", help="The adapter's scale is alpha / r.", synonyms="lora_alpha")
    dropout: Annotated[float, Field(ge=0, lt=1)] = key(
        0.0,
        origin="ref",
        help="Recorded in the adapter's config, not applied. Importance ratios need the exact policy that sampled, so "
        "the forward pass always runs without dropout.",
        checks="> 0 is a warning",
        synonyms="lora_dropout",
    )
    target_modules: Annotated[list[str], Field(min_length=1)] = key(
        ["all-linear"],
        origin="sdk",
        help="Layers that get an adapter, by the names of their modules.",
        checks="at least one module has such a name: checked at start",
        synonyms="lora_target_modules",
    )
