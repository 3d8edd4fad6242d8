"""What is trained, on which machine: [algorithm] [services] [compute] [vllm] [policy]."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.schema.base import (
    REQUIRED,
    Address,
    Name,
    NonNegative,
    OpenSection,
    Positive,
    PositiveFloat,
    Scalar,
    Section,
    Url,
    key,
)


class AlgorithmConfig(Section):
    type: Literal["online"] = key(
        REQUIRED, help="online: episodes are sampled from the policy being trained", example="online"
    )
    method: Literal["policy_gradient", "ppo"] = key(
        REQUIRED,
        help="policy_gradient: group advantages, no critic; ppo: clipped token ratio, a value head, GAE",
        example="policy_gradient",
    )
    variety: Literal["gspo", "gspo_token", "grpo", "dr_grpo", "ppo"] = key(REQUIRED, help="the loss", example="gspo")


class ServicesConfig(Section):
    task_url: Annotated[str, Field(pattern=r"^(https?://[^\s/]+|builtin:[\w.-]+$|.*\S\.py$)"), Address] = key(
        REQUIRED,
        help="the task app: an http(s) base URL, or builtin:NAME or a .py file that the run serves itself",
        example="builtin:facts",
    )
    judge_url: Url | None = key(help="base URL of a judge service, which then scores instead of a provider")


class TopologyConfig(Section):
    type: Literal["single_node_split", "single_node_colocate", "cpu"] | None = key(
        help="split: engine and learner own disjoint GPUs; colocate: they share and take turns",
        derived="split from 2 GPUs, colocate with 1, cpu with 0",
    )
    gpus_for_vllm: NonNegative | None = key(help="engine GPUs", unit="GPUs", derived="what is left of gpu_count")
    gpus_for_training: NonNegative | None = key(
        help="learner ranks", unit="GPUs", derived="max(1, (gpu_count - gpus_for_ref) // 2)"
    )
    gpus_for_ref: NonNegative | None = key(
        help="GPUs that hold the reference model", unit="GPUs", derived="1 if placement is dedicated, else 0"
    )
    tensor_parallel: Positive | None = key(
        help="GPUs of one engine replica", unit="GPUs", derived="vllm.tensor_parallel_size, else 1"
    )
    reference_placement: Literal["none", "shared", "dedicated"] = key(
        "none", help="none: no reference; shared: on the learner's GPUs; dedicated: on GPUs of its own"
    )


class ComputeConfig(Section):
    gpu_type: Name | None = key(
        help="compared with the real device name; part of the resource request on Ray and Slurm",
        example="H100",
        derived="as detected",
    )
    gpu_count: NonNegative | None = key(
        help="GPUs this run may use; the first N visible ones are taken",
        unit="GPUs",
        example=2,
        derived="as detected",
        resume=True,
    )
    nodes: Positive = key(1, help="nodes requested from Ray or Slurm", unit="nodes", resume=True)
    launcher: Literal["local", "ray", "slurm"] = key(
        "local", help="how the coordinator places engines and learner ranks", resume=True
    )
    launcher_options: dict[str, Scalar] = key(
        {}, help="passed to the launcher's resource request: partition, account, time, address", resume=True
    )
    topology: TopologyConfig = Field(default_factory=TopologyConfig)


class MultimodalLimits(OpenSection):
    image: NonNegative | None = key(help="images of one prompt, passed to the engine; the learner is text-only")


class VllmConfig(OpenSection):
    """Options of the engine. Names that are not ours are passed to the installed vLLM."""

    tensor_parallel_size: Positive | None = key(
        help="GPUs of one engine replica", unit="GPUs", derived="compute.topology.tensor_parallel"
    )
    max_model_len: Positive | None = key(
        help="context limit of engine and gateway; a longer prompt ends the episode with context_overflow",
        unit="tokens",
        derived="min(8192, the model's limit), once the model is known",
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] | None = key(
        help="the engine's share of GPU memory", derived="0.45 when colocated, else 0.9"
    )
    max_num_seqs: Positive | None = key(
        help="sequences that the engine decodes at once",
        unit="sequences",
        derived="vllm.max_parallel_generations, else the engine's own",
    )
    enforce_eager: bool = key(False, help="no CUDA graphs: slower, less memory")
    max_parallel_generations: Positive | None = key(help="sets max_num_seqs if that is unset", unit="sequences")
    limit_mm_per_prompt: MultimodalLimits = Field(default_factory=MultimodalLimits)
    tool_call_parser: Name | None = key(
        help="parser of tool calls in sampled text: hermes, llama-json, qwen, or one of the engine's",
        derived="by the chat template",
    )


class PolicyConfig(Section):
    model_name: Name | None = key(
        help="start weights: a folder, a hub id, or a builtin: name", example="builtin:smollm2-135m"
    )
    source: Name | None = key(
        help="start from a checkpoint: ft:JOB[@STEP], rl:BASE:JOB, or a checkpoint folder",
        example="ft:my-job@40",
    )
    trainer_mode: Literal["lora", "qlora", "full"] = key(
        REQUIRED,
        help="lora: adapter only; qlora: adapter on a 4-bit base; full: all weights, 16-18 bytes a parameter",
        example="lora",
    )
    label: Name = key(
        REQUIRED,
        help="first part of the run folder's name, the job name and the model id",
        example="my-model",
    )
    max_tokens: Positive = key(512, help="completion cap of one model call, enforced by the gateway", unit="tokens")
    temperature: PositiveFloat = key(0.7, help="sampling temperature of training rollouts", live=True)
    top_p: Annotated[float, Field(gt=0, le=1)] = key(
        1.0, help="evaluation only: training always samples the plain distribution"
    )
    top_k: Annotated[int, Field(ge=-1)] | None = key(help="evaluation only, as top_p; -1 switches it off")
    repetition_penalty: PositiveFloat = key(1.0, help="evaluation only, as top_p")
    stop_sequences: Annotated[list[str], Field(max_length=16)] = key(
        [], help="sent as `stop`; the matched text stays in the trained tokens as sampled"
    )
    inference_url: Url | None = key(help="where a smoke test without mock sends its calls; ignored by training")
